#!/usr/bin/env bash
# [debug] capture_file and capture_keys_file of both daemons, read by tshark with the dissector of packaging/wireshark: the
# inner packets as they are, the datagrams with their headers, and their inside with the keys only.
. "$(dirname "$0")/lib.sh"
require curl ping tcpdump tshark
dissector=$(cd "$lib_dir/../../packaging/wireshark" && pwd)/continuo.lua
export WIRESHARK_CONFIG_DIR=$work HOME=$work
pattern=636f6e74696e756f  # of pings: "continuo"
pings=5

# --- Reading

# read_file FILE TSHARK_ARGUMENTS... : what tshark says on stderr goes to $work/tshark.err, which must hold no fault.
read_file() {
    local file=$1
    shift
    tshark -X "lua_script:$dissector" -n -r "$file" "$@" 2>>"$work/tshark.err"
}
with_keys() { local keys=$1; shift; read_file "$@" -o "continuo.keys_file:$keys"; }
# count FILE FILTER [TSHARK_ARGUMENTS...]
count() { local file=$1 filter=$2; shift 2; read_file "$file" -Y "$filter" "$@" | wc -l; }
count_with_keys() { local keys=$1; shift; count "$@" -o "continuo.keys_file:$keys"; }
# counts KEYS FILE FILTER... : how many packets each of these takes, in one reading. Checksums are looked at.
counts() {
    local keys=$1 file=$2 filter columns=io,stat,0
    shift 2
    for filter in "$@"; do columns+=",$filter"; done
    with_keys "$keys" "$file" -q -z "$columns" -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE |
        awk -F'|' -v filters=$# '/<>/ { for (i = 3; i < 3 + 2 * filters; i += 2) line = line " " $i + 0 } END { print line == "" ? "none" : substr(line, 2) }'
}
bad_checksum='ip.checksum.status == 0 || tcp.checksum.status == 0 || icmp.checksum.status == 0 || icmpv6.checksum.status == 0'
fields_of() { # fields_of FIELD... : arguments for tshark
    local field
    printf '%s\n' -T fields -E occurrence=a -E aggregator=/s
    for field in "$@"; do printf '%s\n' -e "$field"; done
}
is_private() { equal "$(stat -c %a "$1")" 600; }

# --- A path that cannot be written is told with its place, before anything is done.

build_topology
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >>"$work/snapt1.log" 2>&1
cp "$work/snapt1.toml" "$work/snapt1.plain"
debug_section() { printf '\n[debug]\ncapture_file = "%s"\ncapture_keys_file = "%s"\n' "$1" "$2"; }
refused() { # refused PROGRAM FILE : exit code 78 and FILE:LINE
    local line
    line=$(grep -n '^capture_file' "$2" | cut -d: -f1)
    in_ns node "$1" run --config "$2" --state "$work/none" --socket "$work/none.sock" >"$work/refused" 2>&1
    equal "$?" 78 && equal "$(cat "$work/refused")" \
        "$2:$line:16: error: \"capture_file\" is \"$work/nowhere/file\", which cannot be written: No such file or directory; expected a file in a directory that is there"
}
debug_section "$work/nowhere/file" "$work/never.keys" >>"$work/snapt1.toml"
claim "snapt says which line names a file that cannot be written" refused snapt "$work/snapt1.toml"
{ cat "$work/snapt1.plain"; debug_section "$work/snapt.pcapng" "$work/snapt.keys"; } >"$work/snapt1.toml"
start_snapt 1
add_user alice
cp "$work/cnapt.toml" "$work/cnapt.plain"
debug_section "$work/nowhere/file" "$work/never.keys" >>"$work/cnapt.toml"
claim "so does cnapt" refused cnapt "$work/cnapt.toml"
# with_debug CAPTURE KEYS LINE... : cnapt.toml with these lines in front.
with_debug() {
    local capture=$1 keys=$2
    shift 2
    { printf '%s\n' "$@"; cat "$work/cnapt.plain"; debug_section "$capture" "$keys"; } >"$work/cnapt.toml"
    chmod 600 "$work/cnapt.toml"
}

# --- Traffic

mkdir "$work/www"
head -c 300000 /dev/urandom >"$work/www/file"
seq 1 3000 >"$work/www/text"
http_server "$work/www"
is_right() { equal "$(in_ns node curl -sS -m 20 "http://$1/$2" | sha256sum)" "$(sha256sum <"$work/www/$2")"; }
traffic() {
    local name=$1
    claim "$name: ping" in_ns node ping -n -c $pings -i 0.05 -W 5 -p $pattern $inet4
    claim "$name: ping -6" in_ns node ping -6 -n -c $pings -i 0.05 -W 5 -p $pattern $inet6
    claim "$name: a download" is_right $inet4 file
    claim "$name: a text, over IPv6" is_right "[$inet6]" text
}

with_debug "$work/cnapt.pcapng" "$work/cnapt.keys" ''
start_cnapt
spawn core tcpdump tcpdump -Z root -i gw1 -U -s 0 -w "$work/way.pcap" udp port 9347
wait_for 5 grep -q 'listening on' "$work/tcpdump.log"
traffic encrypt
status=$(cnapt_json status)
claim "status tells of the file" equal "$(json 'd["capture_file"]["path"], d["capture_file"]["state"], d["capture_file"]["outer"]["written"] > 100' <<<"$status")" \
    "('$work/cnapt.pcapng', 'writing', True)"
claim "the log warns of both files" grep -q 'who has them reads and forges' "$work/cnapt.log"
stop tcpdump INT
stop cnapt

# --- Inner packets

for side in cnapt snapt; do
    [ $side = cnapt ] || stop snapt1
    file=$work/$side.pcapng
    claim "$side: both files are their owner's alone" eval 'is_private "$file" && is_private "$work/$side.keys"'
    claim "$side: a file without faults" eval 'capinfos "$file" >/dev/null'
    # Before a lease is proven there is no inner traffic, so all of it is there.
    inner='frame.interface_id == 0'
    read -r requests answers requests6 answers6 asked super wrong checked < <(counts '' "$file" \
        "$inner && icmp.type == 8" "$inner && icmp.type == 0" "$inner && icmpv6.type == 128" "$inner && icmpv6.type == 129" \
        "$inner && http.request.uri == \"/file\"" "$inner && tcp.len > 3000" "$bad_checksum || udp.checksum.status == 0" \
        "$inner && tcp.checksum.status == 1")
    claim "$side: $pings pings and answers" equal "$requests $answers" "$pings $pings"
    claim "$side: as many of IPv6" equal "$requests6 $answers6" "$pings $pings"
    claim "$side: one request for the file" equal "$asked" 1
    claim "$side: super-packets in one piece" more_than "$super" 5
    claim "$side: all checksums are right" equal "$wrong" 0
    claim "$side: and were looked at" more_than "$checked" 20
done
body_of() { read_file "$1" --export-objects "http,$2" -q -Y 'frame.interface_id == 0' >/dev/null; cmp "$2/file" "$work/www/file"; }
claim "the download can be taken out of the capture" body_of "$work/cnapt.pcapng" "$work/objects"

# --- Datagrams without keys

file=$work/cnapt.pcapng
outer='frame.interface_id == 1'
read -r datagrams ours known sent sent_out received received_in inside icmp sealed < <(counts '' "$file" \
    "$outer && udp" "$outer && continuo" "$outer && continuo.class <= 3 && continuo.path == 0 && continuo.version == 2" \
    "$outer && udp.dstport == 9347" "$outer && udp.dstport == 9347 && frame.packet_flags_direction == 2" \
    "$outer && udp.srcport == 9347" "$outer && udp.srcport == 9347 && frame.packet_flags_direction == 1" \
    'continuo.body || continuo.frame || continuo.entry' "$outer && icmp" "$outer && continuo.sealed")
claim "every datagram is Continuo's" equal "$ours" "$datagrams"
claim "there are many" more_than "$datagrams" 100
claim "of known classes, on path 0" equal "$known" "$datagrams"
claim "sent ones go out, to the SNAPT" equal "$sent_out" "$sent"
claim "received ones come in" equal "$received_in" "$received"
# Sequence numbers of each space rise by one as they are sent.
rising() {
    read_file "$1" -Y "$outer && udp.dstport == 9347" $(fields_of continuo.session continuo.space continuo.sequence) | awk -F'\t' '
        { key = $1 " " $2; if (key in last ? $3 != last[key] + 1 : $3 != 0) { print "after", last[key], $0; bad = 1 } last[key] = $3; lines++ }
        END { exit bad || lines < 20 }'
}
claim "the numbers of each space rise by one" rising "$file"
claim "nothing of the inside is seen" equal "$inside $icmp" "0 0"
claim "but that it is sealed" equal "$sealed" "$datagrams"

# --- With keys

# Packets that shared a datagram, a line each.
one_a_line() {
    awk -F'\t' '{
        most = 1
        for (i = 1; i <= NF; i++) { count = split($i, part, " "); for (j = 1; j <= count; j++) cell[i, j] = part[j]; if (count > most) most = count }
        for (j = 1; j <= most; j++) { line = ""; for (i = 1; i <= NF; i++) line = line "\t" cell[i, j]; print line }
        delete cell
    }'
}
# pings_in KEYS FILE : of all of it, each ping's line with the interface before it, to $work/pings.
pings_in() {
    with_keys "$1" "$2" -Y 'icmp || icmpv6.type == 128 || icmpv6.type == 129' \
        $(fields_of frame.interface_id icmp.type icmp.ident icmp.seq icmpv6.type icmpv6.echo.identifier icmpv6.echo.sequence_number data.data) >"$work/pings"
}
# inner_pings INTERFACE : of those, as the device has them (0), or as the datagrams (1) or the plain connection (2) carry them.
inner_pings() { sed -n "s/^$1\t//p" "$work/pings" | one_a_line; }
for keys in cnapt snapt; do
    pings_in "$work/$keys.keys" "$file"
    read -r authentic challenged acknowledged referred lost wrong < <(counts "$work/$keys.keys" "$file" "$outer && continuo.authentic == 1" \
        "$outer && continuo.frame == 0x8a && continuo.announce.active == 1 && continuo.frame == 0x80" "$outer && continuo.frame == 0x81" \
        "$outer && continuo.entry.reference" 'continuo.not_followed || continuo.malformed || continuo.wrong_tag' "$outer && ($bad_checksum)")
    claim "keys of $keys: every tag is right" equal "$authentic" "$datagrams"
    claim "keys of $keys: the pings inside are those of the device" equal "$(inner_pings 1 | sort)" "$(inner_pings 0 | sort)"
done
keys=$work/cnapt.keys
claim "with their payload" more_than "$(inner_pings 1 | grep -c "$pattern")" $((4 * pings - 1))
claim "announcements, challenges and responses" more_than "$challenged" 3
claim "acknowledgements" more_than "$acknowledged" 0
claim "flows that are opened, and coded against what was set" more_than "$referred" 5
claim "nothing that cannot be followed" equal "$lost" 0
with_keys "$keys" "$file" -Y tcp $(fields_of frame.interface_id tcp.len) >"$work/lengths"
payload_bytes() { sed -n "s/^$1\t//p" "$work/lengths" | tr ' ' '\n' | awk '{ sum += $1 } END { print sum }'; }
claim "as many bytes of TCP inside as on the device" equal "$(payload_bytes 1)" "$(payload_bytes 0)"
claim "and their checksums are those of right packets" equal "$wrong" 0
claim "an ordinary capture on the way reads as well" more_than "$(count_with_keys "$keys" "$work/way.pcap" 'continuo.authentic == 1 && icmp')" $((2 * pings - 1))
sed 's/ \([0-9a-f]\{24\}\)$/ 0000\1/; s/ 0000\(.\{20\}\)....$/ 0000\1/' "$keys" >"$work/wrong.keys"
claim "with wrong keys nothing is seen" equal "$(counts "$work/wrong.keys" "$file" "$outer && continuo.wrong_tag" continuo.body)" "$datagrams 0"

# --- Authenticated only: readable by everybody

start_snapt 1
with_debug "$work/readable.pcapng" "$work/readable.keys" 'protection = "authenticate"' 'tag_bytes = 10'
start_cnapt
traffic authenticate
stop cnapt
file=$work/readable.pcapng
pings_in '' "$file"
claim "authenticate: the pings inside are seen without keys" equal "$(inner_pings 1 | sort)" "$(inner_pings 0 | sort)"
claim "authenticate: all of it can be followed" equal "$(count "$file" 'continuo.not_followed || continuo.malformed || continuo.sealed')" 0
read -r authentic datagrams < <(counts "$work/readable.keys" "$file" "$outer && continuo.authentic == 1" "$outer && udp")
claim "authenticate: with keys every tag is right" equal "$authentic" "$datagrams"

# Damaged datagrams, of which tshark says much: read beside what follows.
damaged() { # damaged NAME CAPTURE DATAGRAMS [KEYS]
    renice -n 10 "$BASHPID" >/dev/null
    "$python" "$support_dir/damaged_datagrams.py" "$2" "$3" "$work/$1.pcap"
    with_keys "${4-}" "$work/$1.pcap" -V >"$work/$1.txt"
}
damaged open "$file" 40 & reading=($!)
damaged keyed "$file" 40 "$work/readable.keys" & reading+=($!)
damaged encrypted "$work/cnapt.pcapng" 10 "$work/cnapt.keys" & reading+=($!)

# --- Where UDP is blocked: datagrams over TCP, in the captures of both ends; and the records of the plain connection, as they
# pass on the way

# over_tcp NAME FILE KEYS PORT : PORT is the field in which datagrams that were sent have the port of SNAPT.
tcp='frame.interface_id == 2'
over_tcp() {
    local name=$1 file=$2 keys=$3 port=$4
    with_keys "$keys" "$file" -Y "$tcp" $(fields_of frame.packet_flags_direction continuo.path continuo.authentic "udp.$port" \
        continuo.not_followed continuo.malformed continuo.wrong_tag) | cut -f 1-7 >"$work/over_tcp"
    if grep -qv $'^[^\t]*\t15\t1\t' "$work/over_tcp"; then
        with_keys "$keys" "$file" -Y "$tcp && !(continuo.authentic == 1)" $(fields_of frame.number frame.packet_flags_direction continuo.session continuo.epoch \
            continuo.whole_epoch continuo.sequence) | head -n 5 | sed 's/^/      no tag seen to be right: /'
        cut -d' ' -f 1-4 "$keys" | cut -c 1-40 | sed 's/^/      of the keys: /'
    fi
    claim "$name: datagrams over TCP are there, sent and received" eval \
        'more_than "$(grep -c "^0*x*0*2" "$work/over_tcp")" 20 && more_than "$(grep -c "^0*x*0*1" "$work/over_tcp")" 20'
    claim "$name: on their path, to or from the port of SNAPT; each tag is right, and all can be followed" equal \
        "$(cut -f 2-3,5-7 "$work/over_tcp" | sort | uniq -c | awk '{ $1 = ""; print }')$(awk -F'\t' '$1 ~ /2$/ { print $4 }' "$work/over_tcp" | sort -u)" " 15 19347"
    pings_in "$keys" "$file"
    claim "$name: the pings inside are those of the device" equal "$(inner_pings 2 | sort -u)" "$(inner_pings 0 | sort)"
    claim "$name: of which there are $((4 * pings))" equal "$(inner_pings 0 | wc -l)" $((4 * pings))
}
stop snapt1
start_snapt 1
in_ns gw1 nft 'add table inet block; add chain inet block pass { type filter hook forward priority 0; };
    add rule inet block pass udp dport 9347 drop; add rule inet block pass udp sport 9347 drop'
spawn core tcpdump tcpdump -Z root -i gw1 -U -s 0 -w "$work/records.pcap" port 9347
wait_for 5 eval '[ "$(grep -c "listening on" "$work/tcpdump.log")" = 2 ]'
with_debug "$work/over_tcp.pcapng" "$work/records.keys" 'protection = "authenticate"'
start_cnapt
traffic TCP
claim "TCP: status counts them" json_true 'd["capture_file"]["tcp"]["written"] > 40 and d["capture_file"]["tcp"]["dropped"] == 0' <<<"$(cnapt_json status)"
stop tcpdump INT
stop cnapt
over_tcp "authenticate over TCP" "$work/over_tcp.pcapng" "$work/records.keys" dstport
stop snapt1
over_tcp "at SNAPT" "$work/snapt.pcapng" "$work/snapt.keys" srcport
# New keys so often that some come in the middle of a download.
sed -i 's/^rekey_datagrams = .*/rekey_datagrams = 1024/' "$work/snapt1.toml"
start_snapt 1
with_debug "$work/sealed.pcapng" "$work/sealed.keys" ''
start_cnapt
traffic "encrypt over TCP"
stop cnapt
over_tcp "encrypt over TCP" "$work/sealed.pcapng" "$work/sealed.keys" dstport
in_ns gw1 nft delete table inet block

# --- New keys

head -c 3000000 /dev/urandom >"$work/www/big"
with_debug "$work/rekeyed.pcapng" "$work/rekeyed.keys" ''
start_cnapt
epochs() { awk '{ print $3 }' "$work/rekeyed.keys" | sort -u | wc -l; }
next_epoch() { is_right $inet4 big && more_than "$(epochs)" "$1"; }
for epoch in 1 2 3; do
    claim "rekey_datagrams: new keys, the $epoch. time" wait_for 20 next_epoch $epoch
done
stop cnapt

records=$work/records.pcap
claim "TCP: the control connection is TLS" more_than "$(count "$records" 'tls && !continuo_tcp')" 3
claim "TCP: the plain one begins with a HELLO whose tag is right" equal \
    "$(with_keys "$work/records.keys" "$records" -Y continuo.hello.number $(fields_of continuo.authentic) | head -n 1 | cut -c1)" 1
claim "TCP: each segment's records are read, and all of it can be followed" equal "$(count_with_keys "$work/records.keys" "$records" \
    'continuo.not_followed || continuo.malformed || continuo.sealed || continuo.wrong_tag || continuo.leftover')" 0
tcp_pings() { with_keys "$work/records.keys" "$records" -Y 'continuo_tcp && icmp' $(fields_of icmp.type icmp.ident icmp.seq) | one_a_line | sort | uniq; }
claim "TCP: the pings inside are seen" equal "$(tcp_pings | wc -l)" $((2 * pings))

# --- Damage

claim "damaged datagrams are read to their end" wait "${reading[@]}"
claim "they are told as malformed" more_than "$(grep -c 'Expert Info (Error/Malformed)' "$work/open.txt")" 100
faultless() { ! grep -iE 'lua error|dissector bug|fault of this dissector|traceback|stack overflow' "$@"; }
claim "and make no fault" faultless "$work/open.txt"
claim "nor with keys, which hardly one of them fits" faultless "$work/keyed.txt"
claim "nor when encrypted" faultless "$work/encrypted.txt"
claim "the ciphers agree with published vectors" grep -q '^vectors: good' <(tshark -X "lua_script:$support_dir/continuo_crypto_test.lua" -v 2>/dev/null)
claim "no script failed at any time" faultless "$work/tshark.err"

# --- A file that is full, a disk that is full

with_debug "$work/small.pcapng" "$work/small.keys" ''
echo 'capture_limit_bytes = "64KiB"' >>"$work/cnapt.toml"
start_cnapt
claim "full: a download goes on" is_right $inet4 file
claim "full: status says so" equal "$(cnapt_json status | json 'd["capture_file"]["state"], d["capture_file"]["inner"]["dropped"] > 0')" "('full', True)"
stop cnapt
claim "full: not more than the limit" at_most "$(stat -c %s "$work/small.pcapng")" 65536
claim "full: what is there can be read" more_than "$(count "$work/small.pcapng" tcp)" 5
claim "full: the log says so, once" equal "$(grep -c 'capture_limit_bytes reached' "$work/cnapt.log")" 1

mkdir "$work/disk"
with_debug "$work/disk/file" "$work/disk.keys" ''
spawn node cnapt unshare -m sh -c "mount -t tmpfs -o size=128k none '$work/disk' && exec cnapt run --config '$work/cnapt.toml' --state '$work/c' --socket '$work/cnapt.sock'"
wait_cnapt || { echo "cnapt did not come up"; exit 1; }
claim "no space: a download goes on" is_right $inet4 file
claim "no space: status says so" wait_for 5 eval 'cnapt_json status | json_true "d[\"capture_file\"][\"state\"] == \"failed\""'
cp "/proc/${pid_of[cnapt]}/root$work/disk/file" "$work/cut.pcapng"
claim "no space: what is there can be read" eval 'capinfos "$work/cut.pcapng"'
claim "no space: the log says so, once" equal "$(grep -c 'No space left on device; the capture has ended' "$work/cnapt.log")" 1
stop cnapt
finish
