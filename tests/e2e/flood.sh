#!/usr/bin/env bash
# Strangers without a key open more connections than a SNAPT holds (half a TLS handshake, half a HELLO, nothing) and flood
# its UDP port: in sessions nothing waits or is lost, a new node gets in, memory stays bounded, nothing is amplified.
. "$(dirname "$0")/lib.sh"
require curl ping
one_tunnel
new_stranger
for n in $(seq 131 190); do address stranger eth "192.0.2.$n/25"; done
new_namespace friend
connect friend eth core friend
address friend eth 203.0.113.130/25
address core friend 203.0.113.129/25
ip -n "$(ns friend)" route add default via 203.0.113.129

mkdir "$work/www"
head -c 20000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
control() { snapt_json 1 status | json "d['control']['$1']"; }
drops() { snapt_json 1 status | json "sum(d['drops'].get(name, 0) for name in '$*'.split())"; }
memory_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${pid_of[snapt1]}/status"; }
interface_bytes() { in_ns stranger cat "/sys/class/net/eth/statistics/$1_bytes"; }
goes_beyond() { [ "$("$1" "${@:3}")" -gt "$2" ]; }
attack() { local name=$1; shift; spawn stranger "$name" "$python" "$support_dir/attack.py" "$@"; }

# --- Downloads and round trips: before any of it, then meanwhile, in the same run on the same machine

most_more_s=1  # of a download: the first repetition of a SYN (RFC 6298, 2.1); what the flood leaves of the rate, bench hostile-user has
most_more_ms=5 # of a round trip: kLongTurn, the bound of another user's ping
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
plus() { "$python" -c 'import sys; print(round(float(sys.argv[1]) + float(sys.argv[2]), 4))' "$@"; }
# measure : sets download_s (the longest of 5), ping_ms (a median), lost_percent and measured ("FROM TO"); adds to wrong (downloads).
wrong=0
measure() {
    local n from=$EPOCHREALTIME
    : >"$work/seconds"
    for n in 1 2 3 4 5; do
        in_ns node curl -sS -m 60 -o "$work/got" -w '%{time_total}\n' "http://$inet4/file" >>"$work/seconds"
        [ "$(sha256sum <"$work/got" | cut -d' ' -f1)" = "$sum" ] || wrong=$((wrong + 1))
    done
    download_s=$(sort -n "$work/seconds" | tail -n 1)
    in_ns node ping -n -c 200 -i 0.01 -W 2 $inet4 >"$work/pings"
    ping_ms=$(sed -n 's/.*time=\([0-9.]*\) ms/\1/p' "$work/pings" | median)
    lost_percent=$(sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p' "$work/pings")
    measured="$from $EPOCHREALTIME"
}
# unharmed WHAT : claims of what is measured now, against what was before.
unharmed() {
    local round most_s most_ms
    most_s=$(plus "$quiet_s" $most_more_s)
    most_ms=$(plus "$quiet_ms" $most_more_ms)
    for round in 1 2 3; do  # what else the machine has to do may fall into one
        measure
        ! at_most "$download_s" "$most_s" || ! at_most "$ping_ms" "$most_ms" || break
    done >/dev/null
    claim "$1: downloads are right meanwhile" equal "$wrong" 0
    speaks_of $measured $most_more_s
    claim "$1: and take at most $most_more_s s more ($download_s s, before $quiet_s s)" at_most "$download_s" "$most_s"
    speaks_of $measured 0.005
    claim "$1: round trips take at most $most_more_ms ms more ($ping_ms ms, before $quiet_ms ms)" at_most "$ping_ms" "$most_ms"
    speaks_of $measured 0.02  # two pings
    claim "$1: packets are not lost" at_most "$lost_percent" 1
}

measure
claim "before: downloads are right" equal "$wrong" 0
speaks_of $measured 0.01  # one ping
claim "before: no packet is lost" equal "$lost_percent" 0
quiet_s=$download_s quiet_ms=$ping_ms
before_kb=$(memory_kb)

# --- Connections that stay half open, many more than the limit; the oldest are made anew

for kind in silent hello tls; do
    displaced=$(control displaced)
    attack half_open handshakes 198.51.100.2 9347 192.0.2.130 192.0.2.190 $kind
    claim "$kind: unfinished connections reach their limit, and some give way" wait_for 20 goes_beyond control $((displaced + 300)) displaced
    claim "$kind: they are no more than the limit" at_most "$(control links)" 260
    unharmed "$kind"
    claim "$kind: they are as many still" more_than "$(control links)" 200
    [ $kind = tls ] || stop half_open
done
sed 's/^node *=.*/node = "friend"/' "$work/cnapt.toml" >"$work/friend.toml"
grep -q '^node' "$work/friend.toml" || sed -i '1i node = "friend"' "$work/friend.toml"
chmod 600 "$work/friend.toml"
mkdir "$work/f"
displaced=$(control displaced)
spawn friend friend cnapt run --config "$work/friend.toml" --state "$work/f" --socket "$work/friend.sock"
claim "a node with a key gets in through the crowd" cnapt status --wait up --timeout 20 --socket "$work/friend.sock"
claim "which went on meanwhile" goes_beyond control "$displaced" displaced
stop half_open
unfinished_are_gone() { [ "$(control links)" -le 4 ]; }
claim "the crowd is gone in the end" wait_for 20 unfinished_are_gone

# --- A flood of datagrams

sent=$(interface_bytes tx) received=$(interface_bytes rx)
attack flood flood 198.51.100.2 9347 20000 7 "$(wire_session 1 alice)"
claim "a flood of datagrams is counted" wait_for 20 goes_beyond drops 50000 too_short bad_version unknown_session unknown_epoch unauthentic
claim "some of it were looked up: there are no such sessions" wait_for 20 goes_beyond drops 5000 unknown_session
claim "some of it were of a session, and their tags were checked" wait_for 20 goes_beyond drops 1000 unauthentic
unharmed flood
stop flood
sent=$(($(interface_bytes tx) - sent)) received=$(($(interface_bytes rx) - received))
claim "what answers the flood is a small part of it ($received of $sent bytes)" at_most "$received" $((sent / 10))
# Address sanitizer keeps what was freed for a while, thread sanitizer a shadow of what was used.
bound_kb=40000
! grep -qE '__asan_init|__tsan_init' "$(command -v snapt)" || bound_kb=600000
claim "memory is what it was, but for a bounded part" at_most "$(memory_kb)" $((before_kb + bound_kb))
finish
