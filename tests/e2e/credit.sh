#!/usr/bin/env bash
# Usage counts against a credit at once, hours before it is booked: the node says what is left and warns; with "stop" a download
# is reset when nothing is left, with "throttle" it goes on at the rate; the node says why. A crash of the SNAPT gives nothing
# away, and a payment opens at once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_billing.sh"
require curl
uplink_cable=emulated_cable
build_topology
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 16M delay 5ms queue 1000; done
second=2000000 # bytes of the uplink, and what they cost
start_snapt 1
add_user alice
use_flat_plan "$work/s1" 1
money() { snapt "$@" --state "$work/s1"; }
money topup alice 5 --ref INV-1 >/dev/null
money quota set alice --credit 0 --then stop >/dev/null
start_cnapt
mkdir "$work/www"
head -c 60000000 /dev/urandom >"$work/www/file"
head -c 500000 /dev/urandom >"$work/www/small"
http_server "$work/www"
allowance() { cnapt_json status | json "(d['snapts'][0]['allowance'] or {}).get('$1')"; }
is_told() { equal "$(allowance "$1")" "$2"; }
status() { cnapt "$1" --socket "$work/cnapt.sock"; }
# spent : payload of the records, in all.
spent() { snapt_json 1 usage --by user | json "sum(r['payload_up'] + r['payload_down'] for r in d['rows'])"; }

# --- A balance, and a warning at 80 % of what was paid
left() { cnapt_json status | json "(d['snapts'][0]['money'] or {}).get('left_ud')"; }
has_left() { equal "$(left)" 5000000; }
claim "the node knows what is left" wait_for 5 has_left
claim "status says so" eval 'status status | grep -q "zrh-1: 5.000000 denarii are left (balance 5.000000, not booked yet 0.000000, credit 0.000000)"'
head -c 4100000 "$work/www/file" >"$work/www/most"
claim "four fifths are used without harm" in_ns node curl -sSf -m 30 -o /dev/null "http://$inet4/most"
claim "the node is warned" wait_for 5 is_told state warned
claim "of its credit" is_told of credit
claim "status says so, and what is left" eval 'status status | tee "$work/warned" | grep -q "zrh-1: the credit runs low" && grep -q "zrh-1: 0.[0-9]* denarii are left (balance" "$work/warned"'
claim "usage, too" eval 'status usage | tee "$work/warned" | grep -q "zrh-1: the credit runs low" && grep -q "zrh-1: 0.[0-9]* denarii are left" "$work/warned"'
claim "the log of the SNAPT has it" grep -q 'allowance user=alice .* of=credit state=warned' "$work/snapt1.log"

# --- Stop
in_ns node curl -sS -m 60 -o /dev/null -w '%{size_download}' "http://$inet4/file" >"$work/got" 2>"$work/curl.log"
result=$?
claim "a download ends by a reset (curl $result: $(cat "$work/curl.log"))" equal $result 56
claim "not before the credit ends ($(spent))" more_than "$(spent)" 4999999
claim "and no second later" at_most "$(spent)" $((5000000 + second))
quick() { # a connection is refused within a second
    local began=$EPOCHREALTIME
    ! in_ns node curl -sS -m 10 -o /dev/null "http://$inet4/small" >>"$work/curl.log" 2>&1 || { echo "it is there"; return 1; }
    at_most "$(since "$began")" 1
}
claim "a new connection is refused at once" quick
claim "the node knows" wait_for 5 is_told state stopped
claim "that it is the credit" is_told of credit
claim "status says why" eval 'status status | grep -q "zrh-1: no credit is left; the SNAPT refuses everything; until a payment is booked"'
claim "usage, too" eval 'status usage | grep -q "zrh-1: no credit is left; the SNAPT refuses everything"'
claim "nothing of it is booked yet" equal "$(money balance alice --json | json "d[0]['balance_ud']")" 5000000

# --- A crash
attempts() { while :; do curl -sf -m 1 -o /dev/null "http://$inet4/small" && echo "it came"; sleep 0.05; done; }
before=$(spent)
exec_in_ns node bash -c "$(declare -f attempts); inet4=$inet4; attempts" >"$work/attempts.log" 2>&1 &
attempts=$!
begin_log snapt1
stop snapt1 KILL
start_snapt 1
is_stopped_again() { said snapt1 | grep -q 'allowance user=alice .* of=credit state=stopped'; }
claim "after a crash of the SNAPT it is as before" wait_for 20 is_stopped_again
kill $attempts
wait $attempts 2>/dev/null
claim "nothing passed it meanwhile" equal "$(spent)" "$before"
claim "booking the usage changes nothing" eval 'money rate && quick'
balance=$(money balance alice --json | json "d[0]['balance_ud']")
claim "the balance is below zero by less than a second ($balance)" at_most $((-balance)) $second

# --- A payment
money topup alice 3 --ref INV-2 >/dev/null
begins() { in_ns node curl -sSf -m 5 -o /dev/null "http://$inet4/small"; }
claim "a payment opens within 5 s" wait_for 5 begins
claim "the node is told" wait_for 5 is_told state None
claim "and what is paid ends, too" eval '! in_ns node curl -sS -m 60 -o /dev/null "http://$inet4/file" 2>>"$work/curl.log"'
claim "the node is told of that" wait_for 5 is_told state stopped

# --- Throttle
money quota set alice --then throttle=2mbit >/dev/null
claim "another action replaces the former" wait_for 10 is_told state throttled
money topup alice 10 --ref INV-3 >/dev/null
claim "until a payment" wait_for 5 is_told state None
left=$((18000000 - $(spent)))
cat >"$work/received.py" <<'PY'
# TCP payload that comes in ten seconds, in parts of 2 Mbit/s; with "from" from that many bytes on.
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 80), 10)
peer.sendall(b"GET /file HTTP/1.0\r\n\r\n")
skipped = 0
while skipped < int(sys.argv[2]):
    skipped += len(peer.recv(65536))
began, count = time.monotonic(), 0
while time.monotonic() < began + 10:
    count += len(peer.recv(65536))
print(count / (time.monotonic() - began) / 250000)
PY
rate=$(in_ns node "$python" "$work/received.py" "$inet4" $((left + second)))
claim "a second after the end of the credit: 2 Mbit/s less 10 % ($rate)" more_than "$rate" 0.9
claim "and no more than 10 % above it" at_most "$rate" 1.1
claim "the node knows" wait_for 5 is_told state throttled
claim "status says so" eval 'status status | grep -q "zrh-1: no credit is left; 2.00 Mbit/s are left; until a payment is booked"'
claim "nothing is amiss in the ledger" eval 'money rate && money verify'
finish
