#!/usr/bin/env bash
# A gateway lets only little UDP pass in the middle of a download, while a second uplink is idle: the download goes on over that one,
# without a word of the network, and the first is not taken back for a while though it answers.
. "$(dirname "$0")/lib.sh"
require curl ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
for n in 1 2; do
    cable_set "gw$n-wan" both rate 30M delay 10ms queue 100
done
start_snapt 1
add_user alice
start_cnapt
first=$(session)

size=60000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
is_known() { cnapt_json paths | json_true "[p['state'] for p in d if p['interface'] == '$1'] == ['usable']"; }

metric() {
    ip -n "$(ns node)" route del default via 192.168.2.1 dev up2
    ip -n "$(ns node)" route add default via 192.168.2.1 dev up2 metric "$1"
}
metric 50
claim "the second uplink was in use once" wait_for 10 is_active up2
metric 200
claim "and works, but the first is better" wait_for 10 is_active up1
claim "so it is known" wait_for 5 is_known up2
# For so long that no answer of the second uplink is recent.
is_idle() { cnapt_json paths | json_true "[p['heard_ms_ago'] > 12000 for p in d if p['interface'] == '$1'] == [True]"; }
claim "it falls silent" wait_for 40 is_idle up2
exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
claim "a download begins" wait_for 20 arrived 3000000
claim "over the first" is_active up1
in_ns gw1 nft "table inet lose { chain forward { type filter hook forward priority 10; policy accept;
    meta l4proto udp limit rate over 40 kbytes/second burst 20 kbytes drop; }; }"
claim "throttled UDP makes the second uplink take over" wait_for 5 is_active up2
sleep 2
began=$EPOCHREALTIME before=$(have)
sleep 4
rate=$((($(have) - before) * 8 / 4000000))
speaks_of "$began" "$EPOCHREALTIME" 4
claim "there the download gets more than 8 Mbit/s ($rate), where UDP had 0.3" more_than "$rate" 8
claim "it is still there" is_active up2
claim "with UDP" equal "$(transport)" udp
claim "the first uplink is asked, and answers" wait_for 10 is_known up1
claim "but is not taken back yet" is_active up2
cable_set gw2-wan both rate 100M # of its pace nothing more is said
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "the session is still the first" equal "$(session)" "$first"
finish
