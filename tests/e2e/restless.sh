#!/usr/bin/env bash
# A node that moves all the time: every quarter of a second another gateway and address, faster than control can connect anew at
# times. The association stays one, keys never get out of step, and a download is right.
. "$(dirname "$0")/lib.sh"
require curl ping
# With 20 ms of round trip something is always under way when it moves.
uplink_cable=emulated_cable
one_tunnel
for cable in gw1-wan gw2-wan; do cable_set $cable both delay 10ms; done
mkdir "$work/www"
head -c 30000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
drops() { snapt_json 1 status | json "d['drops']['$1']"; }
pings() { in_ns node ping -n -q -c 1 -W 1 $inet4; }
first=$(session)

exec_in_ns node curl -sS -m 100 --limit-rate 2500k "http://$inet4/file" 2>"$work/curl.log" | sha256sum >"$work/result" &
download=$!
moves=0
while kill -0 "$download" 2>/dev/null && [ "$moves" -lt 60 ]; do
    moves=$((moves + 1))
    # Now and then twice at once: the connection that the first move began never gets its answer.
    move $((1 + moves % 2)) $((20 + moves)) || break
    [ $((moves % 5)) -ne 0 ] || { moves=$((moves + 1)); sleep 0.01; move $((1 + moves % 2)) $((20 + moves)) || break; }
    sleep 0.25
done
wait "$download"
claim "the download is whole and right after $moves moves" equal "$(cut -d' ' -f1 "$work/result")" "$sum"
claim "there were many moves" more_than "$moves" 20
claim "curl had nothing to complain about" equal "$(cat "$work/curl.log")" ""
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "it is still the first session" equal "$(session)" "$first"
claim "traffic goes on" wait_for 5 pings
control_is_back() { cnapt_json status | json_true "d['state'] == 'up'" && snapt_json 1 status | json_true "d['control']['links'] >= 1"; }
claim "control is back" wait_for 10 control_is_back
claim "no datagram was sealed with keys that SNAPT does not have" equal "$(drops unauthentic)" 0
claim "datagrams were repeated" more_than "$(snapt_json 1 sessions | json "d[0]['repeated_datagrams']")" 0
finish
