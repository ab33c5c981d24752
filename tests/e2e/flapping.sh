#!/usr/bin/env bash
# Two uplinks of which one or the other swallows everything, in turn, without a word: what runs goes over the one that delivers.
. "$(dirname "$0")/lib.sh"
require curl ping
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both delay 10ms rate 20M; done
start_snapt 1
add_user alice
start_cnapt

mkdir "$work/www"
head -c 45000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 120 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 1000000
flaps=0
while kill -0 "$download" 2>/dev/null && [ $flaps -lt 30 ]; do
    flaps=$((flaps + 1))
    cable_set "gw$((1 + flaps % 2))-wan" both up
    cable_set "gw$((2 - flaps % 2))-wan" both down
    sleep 4
done
cable_set gw1-wan both up
cable_set gw2-wan both up
wait "$download"
claim "the download is whole and right after $flaps flaps" equal "$(cat "$work/result") $(cat "$work/curl.log")" "45000000 $sum "
claim "there were at least four" more_than $flaps 3
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
# T_doubt, 2 s with the queue full, a round trip of the other uplink and 0.2 s of repeats.
longest=$(longest_gap "$(head -n 1 "$work/arrivals" | cut -d' ' -f1)")
claim "no silence was longer than 2.5 s (longest: $longest s)" at_most "$longest" 2.5
settled() { is_active up1 && in_ns node ping -n -q -c 1 -W 1 $inet4; }
claim "in the end the better uplink is in use again" wait_for 75 settled
finish
