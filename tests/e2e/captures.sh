#!/usr/bin/env bash
# `cnapt classify` says of a capture what the node does: tcpdump writes what programs send into the tunnel, and it
# gives each flow the class and application that `cnapt flows` shows of it. Captures that are none are refused.
. "$(dirname "$0")/lib.sh"
require curl dig ping tcpdump
build_topology
start_snapt 1
add_user alice
policy_file=$work/policy.toml
cat >"$policy_file" <<'END'
version = 1
[[rule]]
app = "names"
match = { dport = 53 }
class = "lt-ld"
[[rule]]
app = "web"
match = { proto = "tcp", dport = 80 }
class = "ht-hd"
[[rule]]
app = "tools"
match = { process = "dig*" }
class = "ht-ld"
END
start_cnapt
mkdir "$work/www"
head -c 300000 /dev/urandom >"$work/www/file"
http_server "$work/www"
dns_server
spawn node tcpdump tcpdump -i cnapt0 -U -w "$work/capture.pcap"
wait_for 10 grep -q 'listening on' "$work/tcpdump.log"
for host in $inet4 $inet6; do
    at=$host
    case $host in *:*) at="[$host]" ;; esac
    in_ns node curl -sS -m 20 -o /dev/null "http://$at/file"
    in_ns node dig +tries=1 +time=5 "@$host" www.example.org >/dev/null
    in_ns node ping -n -c 1 -W 2 "$host" >/dev/null
done
cnapt_json flows --all >"$work/flows.json"
has_all() { [ "$(cnapt classify --pcap "$work/capture.pcap" --policy "$policy_file" --json | json "sum(f['packets_up'] > 0 for f in d['flows'])")" -ge 6 ]; }
wait_for 5 has_all
stop tcpdump
classify() { cnapt classify --policy "$policy_file" --pcap "$@"; }
classify "$work/capture.pcap" --json >"$work/classified.json"
claim "all flows are in the capture" more_than "$(json "len(d['flows'])" <"$work/classified.json")" 5
claim "each has the class and application that the node gave it" "$python" - "$work" <<'END'
import json, sys
def flows(name, rows):
    return {(f["proto"], f["dst"], f["dport"], f["sport"]): (f["class"], f["app"]) for f in rows(json.load(open(f"{sys.argv[1]}/{name}")))}
said, done = flows("classified.json", lambda d: d["flows"]), flows("flows.json", lambda d: d)
both = [key for key in said if key in done]
wrong = [(key, said[key], done[key]) for key in both if said[key] != done[key]]
print(len(both), "compared", wrong)
sys.exit(len(both) < 6 or bool(wrong))
END
claim "with the number of the rule" equal "$(json "sorted({(f['rule'], f['app']) for f in d['flows'] if f['app']})" <"$work/classified.json")" "[(1, 'names'), (2, 'web')]"
claim "and says where a rule by process might come first" json_true "all(f['may_depend_on_process'] == (f['app'] is None) for f in d['flows'])" <"$work/classified.json"
claim "as a table" eval "classify '$work/capture.pcap' | grep -qE '^tcp +.*$inet4:80 +ht-hd +2 +web '"

# --- What it would save, against what the tunnel did with the same traffic. The round trip is that of this network: headers are
# whole until the first acknowledgement
estimate() { cnapt estimate --policy "$policy_file" --config "$work/cnapt.toml" --rtt 1ms --pcap "$@"; }
claim "an estimate of the capture" eval "estimate '$work/capture.pcap' --json >'$work/estimate.json'"
claim "leaves no packet out" equal "$(json "sum(d['left_out'].values()) + d['link_drops']" <"$work/estimate.json")" 0
claim "has all packets up" equal "$(json "sum(c['up']['packets'] for c in d['classes'].values())" <"$work/estimate.json")" \
    "$(json "sum(f['packets_up'] for f in d['flows'])" <"$work/classified.json")"
claim "has the bytes of the downloads" equal "$(json "d['classes']['ht-hd']['down']['inner_bytes'] > 600000" <"$work/estimate.json")" True
estimated=$(json "d['classes']['ht-hd']['down']['wire_bytes']" <"$work/estimate.json")
carried=$(snapt_json 1 status | json "d['classes']['ht-hd']['wire_bytes']")
echo "ht-hd down: $estimated estimated, $carried carried"
claim "they take what they took in the tunnel, within a twentieth" at_most "$("$python" -c "print(abs($estimated - $carried) / $carried)")" 0.05
claim "with a table and a picture" eval "estimate '$work/capture.pcap' --rate 20mbit --svg '$work/estimate.svg' | grep -qE '^ht-hd +[0-9]' && grep -q '^</svg>' '$work/estimate.svg'"

size=$(stat -c %s "$work/capture.pcap")
head -c $((size - 7)) "$work/capture.pcap" >"$work/cut.pcap"
classify "$work/cut.pcap" >"$work/cut.out" 2>"$work/cut.err"
claim "a capture that is cut off is an error" equal "$? $(sed "s|$work/||" "$work/cut.err")" "1 cnapt: cut.pcap ends within a packet: the file is cut off"
claim "and is shown as far as it goes" grep -q "$inet4:80" "$work/cut.out"
refuses() { # refuses FILE TEXT
    local said
    said=$(classify "$1" 2>&1 >"$work/refused.out")
    [ $? = 1 ] && [ ! -s "$work/refused.out" ] && grep -q "$2" <<<"$said" || { echo "$said"; return 1; }
}
claim "a script is none" refuses "$0" 'is no capture file (neither pcap nor pcapng)'
: >"$work/empty"
claim "nor is an empty file" refuses "$work/empty" 'is empty'
claim "nor a file that is not there" refuses "$work/nothing" 'No such file'
head -c 24 "$work/capture.pcap" >"$work/huge.pcap"
printf '\0\0\0\0\0\0\0\0\377\377\377\177\377\377\377\177' >>"$work/huge.pcap"
claim "a packet of 2 GiB is not read" refuses "$work/huge.pcap" 'has a packet longer than 512 KiB'
# Gigabytes of zeros: a block that nobody knows is passed over, in bounded memory.
"$python" - "$work/sparse.pcapng" <<'END'
import struct, sys
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + struct.pack("<II", 0xBAD, 1 << 30))
    file.truncate(1 << 30)
END
claim "a block of a GiB is passed over" refuses "$work/sparse.pcapng" 'cut off'
peak_kib() { "$python" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' cnapt classify --policy "$policy_file" --pcap "$1"; }
claim "in no more memory than a small capture takes" at_most "$(peak_kib "$work/sparse.pcapng")" $(($(peak_kib "$work/capture.pcap") + 8192))
finish
