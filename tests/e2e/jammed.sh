#!/usr/bin/env bash
# An uplink that is "up" but takes nothing any more, so that its sockets fill up: time goes on for the sessions, the
# other uplink takes over, and what waited for the jammed one holds up nobody.
. "$(dirname "$0")/lib.sh"
require curl ping tc iperf3
build_topology
two_uplinks
start_snapt 1
add_user alice
start_cnapt

pings() { in_ns node ping -c 1 -W 1 "$inet4"; }
claim "the uplink of the smaller metric is in use" wait_for 10 is_active up1

spawn inet iperf_server iperf3 -s
wait_for 10 listens inet 5201
spawn node upload iperf3 -c "$inet4" -u -b 200M -l 1000 -t 120
sent_at_least() { [ "$(in_ns node cat /sys/class/net/cnapt0/statistics/tx_bytes)" -gt "$1" ]; }
claim "an upload is under way" wait_for 10 sent_at_least 5000000

# 1 kbit/s: one datagram takes ten seconds, and the socket's buffer is never empty again.
in_ns node tc qdisc add dev up1 root tbf rate 1kbit burst 1600 limit 100000000
claim "the other uplink takes the jammed one's place" wait_for 30 is_active up2
claim "and carries what applications send" wait_for 10 pings
claim "what waited for the jammed uplink is counted as dropped" more_than \
    "$(cnapt_json status | json "d['drops'].get('send_failed', 0)")" 0

in_ns node tc qdisc del dev up1 root
claim "the better uplink is taken back when it is free" wait_for 60 is_active up1
claim "and carries what applications send" wait_for 10 pings
finish
