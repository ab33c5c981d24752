#!/usr/bin/env bash
# Driving: two cellular uplinks whose capacity changes all the time, each with silences of more than a second. With mode "packet" a
# download by several connections gets more over both than over the better one alone, and none is reset. SPAN: seconds that each part
# takes (default 35); CONNECTIONS of the download (4); WAYS: "down up" for an upload by one connection as well (default down). The
# capacity is made up by make_trace.py. RECORDED=1: that of EV-DO and UMTS (CONTRIBUTING.md), FROM: "- S1 S2", where each trace begins.
. "$(dirname "$0")/lib.sh"
require curl ping ethtool
span=${SPAN:-35}
patience_ms=1000
connections=${CONNECTIONS:-4}
if [ -n "${RECORDED-}" ]; then
    traces=${CONTINUO_BENCH_DATA:-$lib_dir/../../../shared/data}/traces
    drives=(- Verizon-EVDO-driving TMobile-UMTS-driving)
    # Where each is driven from, in seconds: both have a silence of more than a second, and rates of the same order.
    from=(${FROM:-- 85 200})
    for n in 1 2; do
        for way in up down; do
            [ -r "$traces/${drives[n]}.$way" ] || skip "needs ${drives[n]}.$way in $traces"
        done
    done
fi
uplink_cable=emulated_cable
build_topology
if [ -z "${RECORDED-}" ]; then
    traces=$work/traces drives=(- first second) from=(- 0 0)
    mkdir "$traces"
    # Seeds with such a silence in the first half minute down, and rates of the same order.
    for way in "32 60:first.down" "3 60:second.down" "5 60 110:first.up" "18 60 110:second.up"; do
        "$python" "$support_dir/make_trace.py" ${way%:*} >"$traces/${way#*:}"
    done
fi
two_uplinks
for n in 1 2; do cable_set "gw$n-wan" both delay 30ms queue 64; done
# Their queues differ by more than the usual bound.
start_snapt 1
stop snapt1
sed -i "/^\[class.ht-hd\]/,\$s/^resequence_ms.*/resequence_ms = $patience_ms/" "$work/snapt1.toml"
start_snapt 1
add_user alice
printf '\n[class.ht-hd]\nresequence_ms = %s\n' $patience_ms >>"$work/cnapt.toml"
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "transfer"\nmatch = { proto = "tcp", dport = [80, 8080] }\nclass = "ht-hd"\nmode = "packet"\n' >"$policy_file"
start_cnapt
first=$(session)

mkdir "$work/www"
head -c 100000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet chat_server "$python" "$support_dir/chat.py" server 7001
wait_for 10 listens inet 7001
exec_in_ns node "$python" "$support_dir/chat.py" client $inet4 7001 100000 "$work/chat" >"$work/chat.out" 2>"$work/chat.log" &
pid_of[chat]=$!

plug() { printf 'link set up%s up\naddr add 192.168.%s.2/24 dev up%s\nroute add default via 192.168.%s.1 dev up%s metric %s00\n' "$1" "$1" "$1" "$1" "$1" "$1" | ip -n "$(ns node)" -batch -; }
unplug() { printf 'addr flush dev up%s\nlink set up%s down\n' "$1" "$1" | ip -n "$(ns node)" -batch -; }
are_usable() { cnapt_json paths | json_true "sorted(p['interface'] for p in d if p['state'] == 'usable') == '$*'.split()"; }
# drive TRACE_NUMBER... : both links from the same place as in the parts before; the other one is away.
drive() {
    local n names=""
    for n in 1 2; do
        cable_set "gw$n-wan" both trace none
        unplug $n
    done
    for n in "$@"; do plug "$n"; names="$names up$n"; done
    wait_for 20 are_usable $names || echo "      not all of$names usable"
    for n in "$@"; do
        cable_set "gw$n-wan" a-to-b trace "$traces/${drives[n]}.up" trace-from "${from[n]}s" \
            b-to-a trace "$traces/${drives[n]}.down" trace-from "${from[n]}s"
    done
}
# carried WAY : sets `bytes`, what got through in that time, and `status`, with which sender or readers ended.
carried() {
    if [ "$1" = down ]; then
        local one parallel=()
        for ((one = 1; one <= connections; one++)); do
            (
                in_ns node curl -sS -m "$span" -o /dev/null -w '%{size_download}\n' "http://$inet4/file" >"$work/got$one" 2>>"$work/curl.log"
                echo $? >"$work/status$one"
            ) &
            parallel+=($!)
        done
        wait "${parallel[@]}"
        bytes=$(cat "$work"/got* | awk '{ sum += $1 } END { print sum }')
        status=$(sort -u "$work"/status*)
        return
    fi
    upload_reader
    in_ns node timeout "$span" bash -c "cat $work/www/file >/dev/tcp/$inet4/8080"
    status=$?
    bytes=$(tail -n 1 "$work/up" | cut -d' ' -f2)
    stop reader
}
# capacity N WAY : bytes of IP packets that the link could have carried meanwhile.
capacity() {
    "$python" - "$traces/${drives[$1]}.$2" "${from[$1]}" "$span" <<'END'
import sys
begin = 1000 * float(sys.argv[2])
end = begin + 1000 * float(sys.argv[3])
lines = [int(line) for line in open(sys.argv[1])]
inside = [ms for ms in lines if begin < ms <= end]
silences = [b - a for a, b in zip(inside, inside[1:])]
print(1500 * len(inside), sum(1 for ms in silences if ms >= 1000))
END
}

order() {
    if [ "$1" = down ]; then cnapt_json status | json "d['sessions'][0]['order']"; else snapt_json 1 sessions | json "d[0]['order']"; fi
}

for way in ${WAYS:-down}; do
    ended=$([ "$way" = down ] && echo 28 || echo 124)
    better=0
    for n in 1 2; do
        drive $n
        carried "$way"
        read -r could silences < <(capacity $n "$way")
        echo "      ${drives[n]}, $way: $bytes of $could bytes in $span s, $silences silences of more than a second"
        claim "no connection over ${drives[n]} is reset" equal "$status" "$ended"
        claim "which has such silences" more_than "$silences" 0
        [ "${bytes:-0}" -le "$better" ] || better=$bytes
    done
    drive 1 2
    exec_in_ns node ping -n -D -i 0.1 -W 1 $inet4 >"$work/ping.out" 2>&1 &
    pinging=$!
    began=$EPOCHREALTIME
    carried "$way"
    kill -INT "$pinging" && wait "$pinging"
    until_then=$EPOCHREALTIME
    echo "      both, $way: $bytes bytes"
    echo "      order, at the receiver: $(order "$way")"
    sed -n '/packets transmitted/s/^/      ping meanwhile: /p' "$work/ping.out"
    claim "no connection over both is reset" equal "$status" "$ended"
    speaks_of "$began" "$until_then" "$span"
    claim "$way, both carry more than the better one alone" more_than "$bytes" "$better"
done
drive 1 2
for n in 1 2; do cable_set "gw$n-wan" both trace none; done
lines() { wc -l <"$work/chat"; }
before=$(lines)
talks() { [ "$(lines)" -gt $((before + 5)) ]; }
claim "a connection of the beginning is still there" wait_for 20 talks
claim "every line on it was answered right" chat_is_right 20
claim "it is still the first session" equal "$(session)" "$first"
finish
