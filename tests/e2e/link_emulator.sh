#!/usr/bin/env bash
# The emulated link that other tests stand on does what it says, on real devices, while it is changed under traffic.
#
#   left ──[ left-eth: link_relay ]── inet
. "$(dirname "$0")/lib.sh"
require ping curl dig iperf3 ethtool
new_namespace left inet
emulated_cable left eth inet eth
address left eth 203.0.113.1/24 2001:db8:3::1/64
address inet eth $inet4/24 $inet6/64
cable=left-eth

# Each part begins with a link that does nothing.
reset_cable() {
    cable_set $cable both up rate unlimited delay 0 jitter 0 loss 0 burst none reorder 0 duplicate 0 corrupt 0 mtu none \
        queue 1000 queue-bytes 0 unblock all impair all "$@"
}
# An answer may come after ping has ended: it waits for the last one for twice the longest round trip only, or its interval. The
# kernel counts it.
icmp() { in_ns "$1" awk -v name="$2" '$1 == "Icmp:" { if (at) print $at; for (i = 2; i <= NF; i++) if ($i == name) at = i }' /proc/net/snmp; } # NS COUNTER
pinged() {
    replies_before=$(icmp left InEchoReps)
    in_ns left ping -n -q "$@" >"$work/ping.out"
}
received() { echo $(($(icmp left InEchoReps) - replies_before)); }
has_received() { equal "$(received)" "$1"; }
shortest_ms() { sed -n 's/.*= \([0-9.]*\)\/.*/\1/p' "$work/ping.out"; }
between() { more_than "$1" "$2" && at_most "$1" "$3"; }

# --- Delay: the shortest of some, so that a busy machine changes nothing
reset_cable a-to-b delay 30ms b-to-a delay 20ms
pinged -c 20 -i 0.05 $inet4
claim "a round trip takes the sum of both delays" between "$(shortest_ms)" 49.99 52
pinged -c 20 -i 0.05 $inet6
claim "over IPv6 as well" between "$(shortest_ms)" 49.99 52

# --- Loss, duplicates, corruption
reset_cable a-to-b loss 20% impair icmp # what asks for a neighbour is no ping, and would be counted as lost, too
requests_before=$(icmp inet InEchos)
pinged -c 1000 -i 0.002 -W 1 $inet4
all_are_counted() { equal $(($(icmp inet InEchos) - requests_before + $(cable_stat $cable 'd["a-to-b"]["dropped_loss"]'))) 1000; }
claim "what is lost is counted" wait_for 5 all_are_counted
claim "a fifth of 1000 pings is lost, 5 standard deviations at most off" between "$(received)" 737 863
reset_cable b-to-a duplicate 100%
pinged -c 20 -i 0.01 $inet4
duplicates() { sed -n 's/.*+\([0-9]*\) duplicates.*/\1/p' "$work/ping.out"; }
claim "each answer comes twice" more_than "$(duplicates)" 17  # ping ends at the 20th, its double may be too late
reset_cable a-to-b corrupt 100%
udp_errors() { in_ns inet cat /proc/net/snmp | awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $4, $3 }'; }
read -r errors no_ports < <(udp_errors)
in_ns left bash -c "for i in {1..50}; do echo 0123456789 >/dev/udp/$inet4/9; done"
saw_errors() { equal "$(udp_errors)" "$((errors + 50)) $no_ports"; }
claim "the receiver's checksum finds each corrupted datagram" wait_for 5 saw_errors

# --- Jitter, bursts, order
reset_cable a-to-b delay 10ms jitter 20ms
pinged -c 100 -i 0.01 -W 1 $inet4
spread_ms() { sed -n 's/.*= \([0-9.]*\)\/[0-9.]*\/\([0-9.]*\)\/.*/\1 \2/p' "$work/ping.out" | "$python" -c 'low, high = map(float, input().split()); print(high - low)'; }
claim "jitter spreads the round trips" more_than "$(spread_ms)" 10
# sequence NUMBERS... : of the answers as they came, evaluated as the Python list `s`.
sequence() { sed -n 's/.*icmp_seq=\([0-9]*\) .*time=.*/\1/p' "$work/ping.out" | "$python" -c 'import sys; s = list(map(int, sys.stdin)); print(eval(sys.argv[1]))' "$1"; }
reset_cable a-to-b burst 2%,20%
in_ns left ping -n -c 2000 -i 0.002 -W 1 $inet4 >"$work/ping.out"
lost='[b - a - 1 for a, b in zip(s, s[1:]) if b - a > 1]'
claim "bursts lose two hundredths over 22, 4 in 100 at most off" between "$(sequence "sum($lost) / 2000")" 0.05 0.13
claim "five in a row, a good half of that at least" more_than "$(sequence "sum($lost) / len($lost)")" 3
reset_cable a-to-b delay 5ms reorder 30% reorder-by 30ms
replies_before=$(icmp left InEchoReps)
in_ns left ping -n -c 200 -i 0.01 -W 1 $inet4 >"$work/ping.out"
claim "what is held back comes behind what was sent later" more_than "$(sequence 'sum(b < a for a, b in zip(s, s[1:]))')" 20
claim "and nothing is lost" wait_for 5 has_received 200

# --- Down, up, carrier
reset_cable
pinged -c 5 -i 0.02 -W 1 $inet4
claim "nothing is lost without reason" wait_for 5 has_received 5
cable_set $cable both down
pinged -c 5 -i 0.02 -W 1 $inet4
claim "nothing passes a link that is down" equal "$(received)" 0
cable_set $cable both up
pinged -c 5 -i 0.02 -W 1 $inet4
claim "all passes when it is up again" wait_for 5 has_received 5
cable_set $cable a-to-b down
dropped_down() { cable_stat $cable "d['$1']['dropped_down']"; }
there=$(dropped_down a-to-b) back=$(dropped_down b-to-a)
pinged -c 5 -i 0.02 -W 1 $inet4
# An answer of neighbour discovery may be among what is dropped.
claim "one direction can be down alone" equal "$(received) $(($(dropped_down b-to-a) - back))" "0 0"
claim "and drops what is sent that way" between $(($(dropped_down a-to-b) - there)) 4 7
reset_cable
has_carrier() { in_ns left ip link show eth | grep -q 'state UP'; }
has_none() { ! has_carrier; }
cable_plug $cable down
claim "a pulled cable shows as no carrier" wait_for 5 has_none
cable_plug $cable up
claim "and as carrier when it is back" wait_for 5 has_carrier
claim "over which pings are answered" wait_for 5 pinged -c 1 -W 1 $inet4

# --- MTU, blocked protocols
reset_cable both mtu 1280
pinged -c 3 -i 0.02 -W 1 -M do -s 1252 $inet4
claim "packets of the MTU pass" wait_for 5 has_received 3
pinged -c 3 -i 0.02 -W 1 -M do -s 1253 $inet4
claim "larger ones vanish" equal "$(received)" 0
silent() { ! grep -qi 'frag needed\|too long' "$work/ping.out"; }
claim "and nobody says so" silent

reset_cable
mkdir "$work/www"
head -c 3000000 /dev/urandom >"$work/www/random"
http_server "$work/www"
dns_server
sum_of() { sha256sum <"$1" | cut -d' ' -f1; }
download_is_right() { equal "$(in_ns left curl -sS -m 60 "http://$1/random" | sha256sum | cut -d' ' -f1)" "$(sum_of "$work/www/random")"; }
resolves() { equal "$(in_ns left dig +short +tries=1 +time=1 @$inet4 www.example.org | grep -v '^;')" 203.0.113.80; }
claim "UDP passes" resolves
cable_set $cable both block udp
resolves_not() { ! resolves; }
claim "UDP is blocked" resolves_not
claim "TCP passes then" download_is_right $inet4
cable_set $cable both unblock udp
claim "UDP is given back" resolves

# --- A bad link is still a right one
reset_cable both rate 30M delay 2ms loss 1% reorder 2% reorder-by 3ms duplicate 1% corrupt 1%
claim "a download over a bad link is right" download_is_right $inet4
claim "over IPv6 as well" download_is_right "[$inet6]"
reset_cable both rate 200M delay 1ms
offload left eth on && offload inet eth on
offered=$(cable_stat $cable 'd["b-to-a"]["offered_packets"]')
claim "super-packets pass as they are" download_is_right $inet4
more=$(($(cable_stat $cable 'd["b-to-a"]["offered_packets"]') - offered))
claim "and count as their segments" between $more $((3000000 / 1460)) $((3000000 / 1460 + 700))
offload left eth off && offload inet eth off

# --- Rate and traces: bytes at layer 3, counted by the receiver's kernel
# read_octets : sets `octets`, what has come to inet over IPv4, and `at` (seconds since the epoch), when. Nothing is started and no
# namespace entered for it, which may take longer than the claims allow: the network of the process `sink`.
read_octets() {
    local counters names values n
    mapfile -t counters <"/proc/${pid_of[sink]}/net/netstat"
    at=$EPOCHREALTIME
    for ((n = 0; n < ${#counters[@]}; n += 2)); do
        [[ ${counters[n]} == IpExt:* ]] || continue
        read -ra names <<<"${counters[n]}"
        read -ra values <<<"${counters[n + 1]}"
    done
    for n in "${!names[@]}"; do [ "${names[n]}" != InOctets ] || octets=${values[n]}; done
}
# flood BITS_PER_S: in the background, until end_flood.
flood() {
    spawn inet sink iperf3 -s -1
    wait_for 10 listens inet 5201
    spawn left flood iperf3 -u -c $inet4 -b "$1" -l 1172 -t 60
}
end_flood() {
    stop flood
    stop sink
}
bytes_flow() { read_octets && more_than "$octets" "$((before + 10000))"; }
# measure SECONDS: sets `began`, `ended` (seconds since the epoch) and `bytes`, under way from the first bytes on.
measure() {
    read_octets
    before=$octets
    wait_for 10 bytes_flow
    read_octets
    began=$at before=$octets
    sleep "$1"
    read_octets
    ended=$at bytes=$((octets - before))
}
evaluate() { "$python" -c "print(float($1))"; }

reset_cable a-to-b rate 4M queue 50
flood 10M
measure 3
end_flood
speaks_of "$began" "$ended" 0.15  # 5 % of 3 s
claim "twice the rate offered, the rate delivered, 5 % at most off" between "$(evaluate "$bytes * 8 / ($ended - $began)")" 3.8e6 4.2e6
claim "the rest is dropped by the queue" more_than "$(cable_stat $cable 'd["a-to-b"]["dropped_queue"]')" 1000

reset_cable a-to-b rate 1M queue-bytes 15000
flood 4M
measure 1
pinged -c 20 -i 0.1 -W 1 $inet4
end_flood
claim "a queue of so many bytes takes its time at the rate, 120 ms" between "$(shortest_ms)" 90 125

# expected_bytes TRACE STARTED : what it lets through between `began` and `ended`.
expected_bytes() {
    "$python" - "$1" "$2" "$began" "$ended" <<'END'
import sys
lines = [int(line) for line in open(sys.argv[1])]
started, began, ended = (float(word) for word in sys.argv[2:])
def before(ms):
    rounds, rest = divmod(ms, lines[-1])
    return rounds * len(lines) + sum(1 for line in lines if line <= rest)
print(1500 * (before(1000 * (ended - started)) - before(1000 * (began - started))))
END
}
# follows TRACE: under a flood the receiver gets what the trace says, 10 % at most off.
follows() {
    local started=$EPOCHREALTIME expected
    reset_cable a-to-b trace "$1" queue 50
    flood 20M
    measure 5
    end_flood
    expected=$(expected_bytes "$1" "$started")
    echo "      ${1##*/}: $bytes bytes, expected $expected"
    speaks_of "$began" "$ended" 0.5  # 10 % of 5 s
    claim "${1##*/}: the receiver gets what the trace lets through" between "$bytes" "$(evaluate "$expected * 0.9")" "$(evaluate "$expected * 1.1")"
}
# Ours: 100 packets evenly over 500 ms, then 300 ms of nothing.
for ((ms = 5; ms <= 500; ms += 5)); do echo $ms; done >"$work/even"
echo 800 >>"$work/even"
follows "$work/even"
traces=${CONTINUO_BENCH_DATA:-$lib_dir/../../../shared/data}/traces
if [ -e "$traces/Verizon-LTE-short.down" ]; then
    follows "$traces/Verizon-LTE-short.down"
else
    echo "      skipped: recorded traces, none in $traces"
fi
printf '10\n20\n15\n' >"$work/bad"
claim "a bad trace is refused with file and line" \
    equal "$(cable_set $cable trace "$work/bad" 2>&1)" "error: $work/bad:3: 15 is before 20 of the line above"

failures=$(cable_stat $cable 'sum(d[way]["kernel_drops"] for way in d)')
claim "the relay kept up with all of it" equal "$failures" 0
finish
