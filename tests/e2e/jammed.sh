#!/usr/bin/env bash
# An uplink that is "up" but takes nothing any more, so that its sockets fill up: time goes on for the sessions, the
# other uplink takes over, and what waited for the jammed one holds up nobody: a call that goes by the other uplink, to another
# SNAPT, does not notice.
. "$(dirname "$0")/lib.sh"
require curl ping tc iperf3
build_topology
two_uplinks
ip -n "$(ns node)" route add "$(snapt_address 2)" via 192.168.2.1 dev up2
start_snapt 1
start_snapt 2
add_user alice 1 2
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "call"\nmatch = { proto = "udp", dport = 7001 }\nclass = "ht-ld"\nsnapt = ["zrh-2"]\n' >"$policy_file"
printf '\n[[rule]]\napp = "rest"\nmatch = { dst = "0.0.0.0/0" }\nsnapt = ["zrh-1"]\n' >>"$policy_file"
start_cnapt

pings() { in_ns node ping -c 1 -W 1 "$inet4"; }
active_of() { equal "$(cnapt_json paths | json "','.join(p['interface'] for p in d if p['active'] and p['snapt'] == '$1')")" "$2"; }
claim "the uplink of the smaller metric is in use" wait_for 10 active_of zrh-1 up1
claim "the other one leads to the second SNAPT" wait_for 10 active_of zrh-2 up2

spawn inet iperf_server iperf3 -s
wait_for 10 listens inet 5201
spawn node upload iperf3 -c "$inet4" -u -b 500M -l 1300 -t 120
sent_at_least() { [ "$(in_ns node cat /sys/class/net/cnapt0/statistics/tx_bytes)" -gt "$1" ]; }
claim "an upload is under way" wait_for 10 sent_at_least 5000000

spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001
spawn node voice "$python" "$support_dir/voice.py" client $inet4 7001 300 "$work/voice"
called() { [ "$(wc -l <"$work/voice")" -gt "$1" ]; }
claim "a call by the other uplink is under way" wait_for 10 called 50

# A queue that still moves fills the socket's buffer, however slow this machine is; then 1 kbit/s: one datagram takes ten seconds,
# and the buffer is never empty again.
full() { in_ns node ss -Huan src 192.168.1.2 | awk -v least=16000000 '$3 > least { found = 1 } END { exit !found }'; }
began=$EPOCHREALTIME
in_ns node tc qdisc add dev up1 root tbf rate 80mbit burst 64k limit 100000000
claim "the socket's buffer is full" wait_for 10 full
in_ns node tc qdisc change dev up1 root tbf rate 1kbit burst 64k limit 100000000
claim "the other uplink takes the jammed one's place" wait_for 30 active_of zrh-1 up2
claim "and carries what applications send" wait_for 10 pings
dropped() { more_than "$(cnapt_json status | json "d['drops'].get('send_failed', 0)")" 0; }
claim "what waited for the jammed uplink is counted as dropped" wait_for 10 dropped

silent=$(longest_gap "$began" voice)
claim "the call by the other uplink was never silent for more than 250 ms (longest ${silent:-none} s)" at_most "${silent:-9}" 0.25
stop voice

in_ns node tc qdisc del dev up1 root
claim "the better uplink is taken back when it is free" wait_for 60 active_of zrh-1 up1
claim "and carries what applications send" wait_for 10 pings
finish
