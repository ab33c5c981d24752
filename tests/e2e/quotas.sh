#!/usr/bin/env bash
# Quotas and rates of users. At the end of a quota with "stop" a download is reset at once and new connections are refused, of
# that user alone; with "throttle" it goes on at the rate. The node says why and until when, and the next period is as new.
. "$(dirname "$0")/lib.sh"
require curl ping
library=$CONTINUO_BIN/libwall_clock.so
[ -r "$library" ] || skip "needs $library"
! grep -qE '__asan_init|__tsan_init' "$(command -v snapt)" || skip "sanitizers want to be loaded first"

# SNAPT with a wall clock of its own.
mkdir "$work/bin"
head -c 8 /dev/zero >"$work/snapt.clock"
cat >"$work/bin/snapt" <<END
#!/bin/sh
export WALL_CLOCK=$work/snapt.clock LD_PRELOAD=$library
exec $CONTINUO_BIN/snapt "\$@"
END
chmod +x "$work/bin/snapt"
PATH=$work/bin:$PATH
hash -r
jump() { "$python" -c 'import struct, sys
with open(sys.argv[1], "r+b") as clock:
    clock.write(struct.pack("=q", int(sys.argv[2]) * 1000000))' "$work/snapt.clock" "$1"; }

uplink_cable=emulated_cable
build_topology
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 16M delay 5ms queue 1000; done
second=2000000  # bytes of alice's uplink
# Noon: no day ends meanwhile.
jump $((43200 - $(date -u +%s) % 86400))
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
mkdir "$work/b" "$work/www"
chmod 600 "$work/bob.toml"
spawn friend bob cnapt run --config "$work/bob.toml" --state "$work/b" --socket "$work/bob.sock"
claim "another user's node is up" cnapt status --wait up --timeout 20 --socket "$work/bob.sock"
head -c 60000000 /dev/urandom >"$work/www/file"
head -c 500000 /dev/urandom >"$work/www/small"
echo >"$work/www/tiny"
http_server "$work/www"

quota() { snapt quota "$@" --state "$work/s1"; }
allowance() { cnapt_json status | json "(d['snapts'][0]['allowance'] or {}).get('$1')"; }
is_told() { equal "$(allowance "$1")" "$2"; }

# --- Stop
claim "a quota with stop" quota set alice 5MB/day --then stop
claim "the node is told of it" wait_for 10 is_told quota_bytes 5000000
claim "nothing is near its end" is_told state free
exec_in_ns friend curl -sS -m 60 --limit-rate 4M -o /dev/null -w '%{size_download}' "http://$inet4/file?bob" >"$work/bob.got" 2>&1 &
bobs=$!
began=$EPOCHREALTIME
in_ns node curl -sS -m 60 -o /dev/null -w '%{size_download}' "http://$inet4/file" >"$work/got" 2>"$work/curl.log"
result=$?
took=$(since "$began")
got=$(cat "$work/got")
claim "its download ends by a reset (curl $result: $(cat "$work/curl.log"))" equal $result 56
# Data that is unread at the reset is lost.
claim "at 5 MB ($got), less what was under way" more_than "$got" 4800000
claim "at 5 MB ($got), and a second" at_most "$got" $((5000000 + second))
# 2.5 s at the rate of the uplink, and TCP's beginning.
claim "at once: $took s" at_most "$took" 6
quick() { # quick WHAT HOST : a connection is refused within a second
    local began=$EPOCHREALTIME
    ! in_ns node curl -sS -m 10 -o /dev/null "http://$2/small" >>"$work/curl.log" 2>&1 || { echo "it is there"; return 1; }
    at_most "$(since "$began")" 1
}
claim "a new connection is refused at once" quick new $inet4
claim "over IPv6, too" quick new "[$inet6]"
claim "what is not TCP is told so" eval '! in_ns node ping -n -c 2 -W 2 $inet4 >"$work/ping"; grep -q "Packet filtered" "$work/ping"'
claim "the node knows" wait_for 5 is_told state stopped
midnight=$(( ($(date -u +%s) / 86400 + 1) * 86400 ))
claim "until the day is over" equal "$(allowance until)" "$midnight"
status() { cnapt "$1" --socket "$work/cnapt.sock"; }
claim "status says why and until when" eval 'status status | grep -q "zrh-1: the quota of 4.77 MiB is used up; the SNAPT refuses everything; it begins anew 20"'
claim "usage, too" eval 'status usage | grep -q "zrh-1: the quota of 4.77 MiB is used up"'
claim "the log of the SNAPT has it" grep -q 'allowance user=alice .* of=quota state=stopped' "$work/snapt1.log"
used() { quota show alice --json | json "d[0]['used_bytes']"; }
snapt_json 1 usage >/dev/null # seals
claim "the records have as much ($(used))" more_than "$(used)" 4999999
claim "and no second more" at_most "$(used)" $((5000000 + second))
attempts() { while :; do curl -sf -m 1 -o /dev/null "http://$inet4/small"; sleep 0.05; done; }
before=$(used)
exec_in_ns node bash -c "$(declare -f attempts); inet4=$inet4; attempts" >/dev/null 2>&1 &
attempts=$!
begin_log snapt1
stop snapt1 KILL
start_snapt 1
is_stopped_again() { said snapt1 | grep -q 'allowance user=alice .* state=stopped'; }
claim "a crash of the SNAPT changes nothing" wait_for 20 is_stopped_again
kill $attempts
wait $attempts 2>/dev/null
snapt_json 1 usage >/dev/null
claim "nothing passed meanwhile" equal "$(used)" "$before"
claim "nothing passes afterwards" quick new $inet4
stop cnapt
start_cnapt
claim "another login changes nothing" quick new $inet4
wait $bobs
claim "the other's download is whole" equal "$(cat "$work/bob.got")" 60000000

# --- The next day
jump $((43200 - $(date -u +%s) % 86400 + 86400))
claim "the next day is as new" wait_for 10 is_told state free
claim "and its connections go" wait_for 5 in_ns node curl -sf -m 5 -o /dev/null "http://$inet4/small"

# --- A warning at 80 %: of 600 kB a file of 500 kB is more
claim "a tenth of the quota is no warning" is_told state free
claim "with a smaller quota it is more than 80 %" quota set alice 600kB/day --then stop
claim "the node is warned" wait_for 10 is_told state warned
claim "before the end of the quota" eval 'at_most "$(allowance used_bytes)" 599999 && more_than "$(allowance used_bytes)" 479999'
warning='zrh-1: 8[0-9]\.[0-9]* % of the quota of 586 KiB is used; it begins anew 20'
claim "status says so" eval 'status status | grep -q "$warning"'
claim "usage, too" eval 'status usage | grep -q "$warning"'
claim "and connections go" in_ns node curl -sf -m 5 -o /dev/null "http://$inet4/tiny"

# --- Throttle, and the rate of all users
# TCP payload that comes in ten seconds from the first on, in parts of 2 Mbit/s; it is 96 % of the packets.
cat >"$work/received.py" <<'PY'
import socket, sys, time
if sys.argv[1] == "up":
    server = socket.create_server(("0.0.0.0", 7000))
    peer, _ = server.accept()
else:
    peer = socket.create_connection((sys.argv[2], 80), 10)
    peer.sendall(b"GET /file HTTP/1.0\r\n\r\n")
peer.recv(65536)
began, count = time.monotonic(), 0
while time.monotonic() < began + 10:
    count += len(peer.recv(65536))
print(count / (time.monotonic() - began) / 250000)
PY
cat >"$work/send.py" <<'PY'
import os, socket, sys
peer = socket.create_connection((sys.argv[1], 7000), 10)
try:
    while True: peer.sendall(os.urandom(65536))
except OSError:
    pass
PY
is_two_mbit() { # is_two_mbit WHAT RATE
    claim "$1: 2 Mbit/s less 10 % ($2)" more_than "$2" 0.9
    claim "$1: 2 Mbit/s and 10 % ($2)" at_most "$2" 1.1
}
down() { in_ns node "$python" "$work/received.py" down $inet4; }
up() {
    rm -f "$work/up.rate"
    exec_in_ns inet "$python" "$work/received.py" up >"$work/up.rate" 2>>"$work/up.log" &
    local sink=$!
    wait_for 10 listens inet 7000
    in_ns node "$python" "$work/send.py" $inet4
    wait $sink
    cat "$work/up.rate"
}
claim "a quota with throttle" quota set alice 1kB/day --then throttle=2mbit
claim "is used up" wait_for 10 is_told state throttled
is_two_mbit "down" "$(down)"
is_two_mbit "up" "$(up)"
claim "no quota" quota set alice none
claim "has no end" wait_for 10 is_told state None
fast() { more_than "$(in_ns node curl -sS -m 3 -o /dev/null -w '%{size_download}' "http://$inet4/file" 2>/dev/null)" $second; }
claim "and no rate" fast
sed -i 's/^user_rate_bits_per_s = .*/user_rate_bits_per_s = "2mbit"/' "$work/snapt1.toml"
claim "a rate for all" eval 'snapt reload --socket "$(snapt_socket 1)" | grep -q user_rate'
is_two_mbit "of the configuration" "$(down)"
finish
