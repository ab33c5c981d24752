#!/usr/bin/env bash
# Two uplinks that both let no UDP pass from the middle of a download on: data goes over TCP within two seconds. By the one that
# is given back first, though it is the worse one, UDP is taken back. Where only one is blocked, the other carries on, without TCP.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_udp_blocked.sh"
require curl ping ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 20M delay 10ms queue 100; done
start_snapt 1
add_user alice
start_cnapt
first=$(session)

size=70000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

goes_by() { is_active "$1" && goes_over udp; }

begin_download "two uplinks"
claim "by the better uplink" goes_by up1
block_both "both blocked"
began=$EPOCHREALTIME
unblock 2
claim "the worse one given back: UDP is taken back, by it" wait_for 10 goes_by up2
silent_for 0.7 "$began" "the worse one given back"

began=$EPOCHREALTIME
unblock 1
claim "the better one given back: it is taken back" wait_for 60 goes_by up1
silent_for 0.7 "$began" "the better one given back"

# Looked at each tenth of a second: TCP is used at no time.
watch_transports() { while sleep 0.1; do transport; done; }
watch_transports >"$work/transports" 2>/dev/null &
watching=$!
began=$EPOCHREALTIME
block 1
claim "the better one blocked: the other carries on" wait_for 10 goes_by up2
silent_for 2 "$began" "the better one blocked"
unblock 1
claim "it is taken back" wait_for 60 goes_by up1
began=$EPOCHREALTIME
block 2
silent_for 0.7 "$began" "the worse one blocked"
claim "the better one carries on" goes_by up1
kill "$watching"
wait "$watching" 2>/dev/null
claim "without TCP all the time" equal "$(sort -u "$work/transports")" udp

for cable in gw1-wan gw2-wan; do cable_set $cable both rate 100M; done # of its pace nothing more is said
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "it is still the first session" equal "$(session)" "$first"
finish
