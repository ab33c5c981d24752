#!/usr/bin/env bash
# Strangers without a key open more handshakes than a SNAPT holds, and flood its UDP port: sessions go on, a new node
# gets in, memory stays bounded, nothing is amplified.
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
head -c 4000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
control() { snapt_json 1 status | json "d['control']['$1']"; }
drops() { snapt_json 1 status | json "sum(d['drops'].get(name, 0) for name in '$*'.split())"; }
memory_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/${pid_of[snapt1]}/status"; }
interface_bytes() { in_ns stranger cat "/sys/class/net/eth/statistics/$1_bytes"; }
goes_beyond() { [ "$("$1" "${@:3}")" -gt "$2" ]; }
attack() { local name=$1; shift; spawn stranger "$name" "$python" "$support_dir/attack.py" "$@"; }
download_is_right() { equal "$(in_ns node curl -sS -m 60 --limit-rate 2M "http://$inet4/file" | sha256sum | cut -d' ' -f1)" "$sum"; }
lost_percent() { in_ns node ping -n -q -c 200 -i 0.01 -W 2 $inet4 | sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p'; }

before_kb=$(memory_kb)
attack handshakes handshakes 198.51.100.2 9347 192.0.2.130 192.0.2.190
claim "unfinished handshakes reach their limit, and some give way" wait_for 20 goes_beyond control 300 displaced
claim "they are no more than the limit" at_most "$(control links)" 260
claim "a download is right meanwhile" download_is_right
claim "and packets are not lost" at_most "$(lost_percent)" 1
sed 's/^node *=.*/node = "friend"/' "$work/cnapt.toml" >"$work/friend.toml"
grep -q '^node' "$work/friend.toml" || sed -i '1i node = "friend"' "$work/friend.toml"
chmod 600 "$work/friend.toml"
mkdir "$work/f"
displaced=$(control displaced)
spawn friend friend cnapt run --config "$work/friend.toml" --state "$work/f" --socket "$work/friend.sock"
claim "a node with a key gets in through the crowd" cnapt status --wait up --timeout 20 --socket "$work/friend.sock"
claim "which went on meanwhile" goes_beyond control "$displaced" displaced
stop handshakes
unfinished_are_gone() { [ "$(control links)" -le 4 ]; }
claim "the crowd is gone in the end" wait_for 20 unfinished_are_gone

sent=$(interface_bytes tx) received=$(interface_bytes rx)
attack flood flood 198.51.100.2 9347 20000 7
claim "a flood of datagrams is counted" wait_for 20 goes_beyond drops 50000 too_short bad_version unknown_session unknown_epoch unauthentic
claim "a download is right meanwhile" download_is_right
claim "and packets are not lost" at_most "$(lost_percent)" 1
stop flood
sent=$(($(interface_bytes tx) - sent)) received=$(($(interface_bytes rx) - received))
claim "what answers the flood is a small part of it ($received of $sent bytes)" at_most "$received" $((sent / 10))
# Address sanitizer keeps what was freed for a while.
bound_kb=40000
! grep -q __asan_init "$(command -v snapt)" || bound_kb=400000
claim "memory is what it was, but for a bounded part" at_most "$(memory_kb)" $((before_kb + bound_kb))
finish
