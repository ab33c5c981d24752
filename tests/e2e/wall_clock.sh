#!/usr/bin/env bash
# The wall clock of the node, of SNAPT, of both jumps, by days and years, there and back: a download and a connection at a human's
# pace do not notice, session and keys stay, leases in use are nobody else's, and all bytes are accounted once.
. "$(dirname "$0")/lib.sh"
require curl ping ethtool
library=$CONTINUO_BIN/libwall_clock.so
[ -r "$library" ] || skip "needs $library"
! grep -qE '__asan_init|__tsan_init' "$(command -v snapt)" || skip "sanitizers want to be loaded first"

# Each daemon with a wall clock of its own, $work/NAME.clock.
mkdir "$work/bin"
for name in cnapt snapt; do
    head -c 8 /dev/zero >"$work/$name.clock"
    cat >"$work/bin/$name" <<END
#!/bin/sh
export WALL_CLOCK=$work/$name.clock LD_PRELOAD=$library
exec $CONTINUO_BIN/$name "\$@"
END
    chmod +x "$work/bin/$name"
done
PATH=$work/bin:$PATH
hash -r
# jump NAME SECONDS : away from the right time.
jump() {
    "$python" -c 'import struct, sys
with open(sys.argv[1], "r+b") as clock:
    clock.write(struct.pack("=q", int(sys.argv[2]) * 1000000))' "$work/$1.clock" "$2"
}
day=86400
year=$((366 * day))

uplink_cable=emulated_cable
build_topology
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 16M delay 5ms queue 1000; done
start_snapt 1
stop snapt1
# Room for one node. No renewal of the lease is due while this runs, but for the clock.
sed -i 's|^ipv4 = .*|ipv4 = "10.255.255.0/30"|; s|^ipv6 = .*|ipv6 = "fd00:9347::/126"|; s/^lease_s.*/lease_s = 3600/' "$work/snapt1.toml"
claim "SNAPT has one lease" equal "$(grep -cE '^ipv4 = .*/30"|^ipv6 = .*/126"|^lease_s = 3600' "$work/snapt1.toml")" 3
start_snapt 1
add_user bob
mv "$work/cnapt.toml" "$work/bob.toml"
add_user alice
start_cnapt
new_namespace friend
connect friend eth core friend
address friend eth 203.0.113.130/25
address core friend 203.0.113.129/25
ip -n "$(ns friend)" route add default via 203.0.113.129

size=40000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
spawn inet chat_server "$python" "$support_dir/chat.py" server 7002
wait_for 10 listens inet 7002

epoch() { snapt_json 1 sessions | json "d[0]['epoch']"; }
ages() { json "sorted((f['dport'], 0 <= f['age_s'] < 120) for f in d if f['dport'] in (80, 7002))"; }
goes_on() { local before; before=$(have); wait_for 20 arrived $((before + 1500000)); }
utc() { "$python" -c 'import sys, time; print(time.time() + float(sys.argv[1]))' "$1"; }
first=$(session)
keys=$(epoch)

exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
exec_in_ns node "$python" "$support_dir/chat.py" client $inet4 7002 40 "$work/chat" >"$work/chat.out" 2>"$work/chat.log" &
chat=$!
wait_for 10 arrived 1500000
began=$EPOCHREALTIME

# jumps TEXT NODE_SECONDS SNAPT_SECONDS
jumps() {
    jump cnapt "$2"
    jump snapt "$3"
    claim "$1: the download goes on" goes_on
    claim "$1: flows are as old as they are" equal "$(cnapt_json flows | ages) $(snapt_json 1 flows | ages)" \
        "[(80, True), (7002, True)] [(80, True), (7002, True)]"
}
to_1970=$((1000000 - EPOCHSECONDS))
jumps "SNAPT three days ahead" 0 $((3 * day))
jumps "the node ten years ahead, SNAPT right again" $((10 * year)) 0
jumps "both as without a clock, in 1970" $to_1970 $to_1970
move 2 20
claim "it goes on after a handover in 1970" goes_on
handover_at() { cnapt_json status | json "d['handovers']['last']['at']"; }
claim "which is told with that time" at_most "$(handover_at)" 2000000
jumps "SNAPT twenty years ahead, the node right again" 0 $((20 * year))

lease() { "$python" -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=10) as ledger:
    print(*ledger.execute(sys.argv[2]).fetchone() or ())' "$work/s1/ledger.db" "$1"; }
expires() { lease "SELECT expires / 1000000 FROM lease"; }
lease "UPDATE lease SET expires = 1000000" >/dev/null
mkdir "$work/b"
chmod 600 "$work/bob.toml"
spawn friend bob cnapt run --config "$work/bob.toml" --state "$work/b" --socket "$work/bob.sock"
refused() { grep -q 'refused: no address is free' "$work/bob.log"; }
claim "a lease in use is nobody else's, though its time seems to be over" wait_for 10 refused
stop bob
jumps "both right again" 0 0
lasts() { local at; at=$(expires); [ "$at" -gt "$EPOCHSECONDS" ] && [ "$at" -le $((EPOCHSECONDS + 3600)) ]; }
claim "its time is renewed, by the right clock" wait_for 15 lasts

# The one move costs a round trip (0.01 s) and 0.2 s of repeats, TCP's own timer twice that and an RTO: 0.7 s, held to less. A line is
# said each 0.1 s.
for log in arrivals chat; do
    gap=$(longest_gap "$began" $log)
    claim "$log: silent for 0.6 s at most ($gap s)" at_most "$gap" 0.6
done
claim "the session is still the first" equal "$(session)" "$first"
claim "with keys of the first connections" at_most "$(epoch)" $((keys + 1))
wait "$chat" "$download"
claim "every line was answered right" chat_is_right 20
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1

# --- Accounting: SNAPT's flows are the only ones of the session, and none has ended from the table yet. What was refused, as a
# question to a private name server, is shown and in nobody's record.
bytes() { json "sum(f['inner_bytes_up'] + f['inner_bytes_down'] for f in d if f['state'] != 'refused')"; }
used() { snapt_json 1 usage --by "$1" | json "sum(r['inner_up'] + r['inner_down'] for r in d['rows'])"; }
carried() { snapt_json 1 flows | bytes; }
# Reads both at one time: nothing was carried in between.
read_both() { in_flows=$(carried) in_records=$(used user); [ "$in_flows" = "$(carried)" ]; }
wait_for 10 read_both
claim "the usage records have all bytes once" equal "$in_records" "$in_flows"
claim "and by day as many" equal "$(used day)" "$(used user)"
claim "each time that SNAPT's clock was set is noted, with the time since boot" equal "$(lease "SELECT count(*), count(mono) FROM event WHERE kind = 'clock_step'")" "5 5"
claim "what was counted before is marked" more_than "$(lease "SELECT count(*) FROM usage_record WHERE flags & 16")" 0
claim "no record crosses a quarter of an hour" equal "$(lease "SELECT count(*) FROM usage_record WHERE t_start / 900000000 <> (t_end - 1) / 900000000")" 0

# --- New connections under a wrong clock
jump cnapt $to_1970
jump snapt $((20 * year))
stop cnapt KILL
start_cnapt
claim "a node whose clock is wrong gets in" in_ns node ping -n -q -c 2 -i 0.2 -W 2 $inet4
claim "with the same lease" equal "$(snapt_json 1 sessions | json "d[0]['inner_ipv4']")" "$(sed "s/.*, '\([0-9.]*\)',.*/\1/" <<<"$first")"
finish
