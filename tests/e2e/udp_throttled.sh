#!/usr/bin/env bash
# A gateway lets only little UDP pass in the middle of a download: data goes over TCP, which carries more, and the connection does
# not notice. Where TCP gets through even less, it is tried, carries less and is left again.
# LONG=1 waits until UDP is asked again, a minute later.
. "$(dirname "$0")/lib.sh"
require curl ethtool
uplink_cable=emulated_cable
build_topology
cable=gw1-wan
cable_set $cable both rate 30M delay 10ms queue 100
# Another address of the interface, which is no other network.
address node up1 192.168.1.3/24
start_snapt 1
add_user alice
start_cnapt

size=40000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"

transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
goes_over() { equal "$(transport)" "$1"; }
download() {
    rm -f "$work/arrivals"
    exec_in_ns node curl -sS -m 280 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
    download=$!
    wait_for 20 arrived 3000000
}
# seconds_to NUMBER COMMAND... : how long it took to hold, at most NUMBER.
seconds_to() {
    local began=$EPOCHREALTIME
    wait_for "$@" || { echo 999; return; }
    since "$began"
}
# lose RULE... : of nft, in the gateway, both ways.
lose() {
    { printf 'table inet lose { chain forward { type filter hook forward priority 10; policy accept;\n'
        printf '%s drop\n' "$@"
        printf '}\n}\n'; } | in_ns gw1 nft -f -
}
lose_nothing() { in_ns gw1 nft delete table inet lose; }

download
claim "data goes over UDP" wait_for 10 goes_over udp
lose 'meta l4proto udp limit rate over 40 kbytes/second burst 20 kbytes'
took=$(seconds_to 15 goes_over tcp)
claim "throttled UDP makes data go over TCP within 3 s ($took s)" at_most "$took" 3
began=$EPOCHREALTIME before=$(have)
sleep 8  # of the download: the trial is over
claim "the trial of TCP is kept" goes_over tcp
rate=$((($(have) - before) * 8 / 8000000))
speaks_of "$began" "$EPOCHREALTIME" 8
claim "over TCP the download gets more than 8 Mbit/s ($rate), where UDP had 0.3" more_than "$rate" 8
cable_set $cable both rate 100M # of its pace nothing more is said
wait "$download"
cable_set $cable both rate 30M
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
if [ -n "${LONG-}" ]; then
    lose_nothing
    claim "UDP is asked again after a minute, and taken back" wait_for 90 goes_over udp
else
    lose_nothing
    stop cnapt
    ip -n "$(ns node)" addr del 192.168.1.3/24 dev up1
    start_cnapt
fi

download
claim "data goes over UDP again" wait_for 10 goes_over udp
lose 'meta l4proto udp numgen random mod 10 < 4' 'meta l4proto tcp limit rate over 5 kbytes/second burst 10 kbytes'
claim "heavy loss makes the node try TCP where it gets through even less" wait_for 20 goes_over tcp
claim "which carries less, so UDP is taken back" wait_for 20 goes_over udp
lose_nothing
cable_set $cable both rate 100M # of its pace nothing more is said
wait "$download"
cable_set $cable both rate 30M
claim "that download is whole and right too" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
finish
