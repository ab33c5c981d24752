#!/usr/bin/env bash
# Two uplinks that swallow everything for a while, one after the other, and both deliver for a while between: a download and a call
# go over the one that delivers. ROUNDS: how often both do it (default 3).
. "$(dirname "$0")/lib.sh"
require curl ping ethtool
rounds=${ROUNDS:-3}
away_s=3
both_s=2
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both delay 10ms rate 6M; done
start_snapt 1
add_user alice
start_cnapt
first=$(session)

# More than the links can carry meanwhile.
size=$((rounds * 2 * (away_s + both_s) * 900000))
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001
exec_in_ns node curl -sS -m $((rounds * 60)) "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
exec_in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 900 "$work/voice" >"$work/voice.out" 2>"$work/voice.log" &
voice=$!
wait_for 10 arrived 1000000
began=$EPOCHREALTIME
for ((round = 1; round <= rounds; round++)); do
    for n in 1 2; do
        cable_set "gw$n-wan" both down
        sleep $away_s
        cable_set "gw$n-wan" both up
        sleep $both_s
    done
done
claim "the download was under way through all of it" kill -0 "$download"
kill "$voice"
wait "$voice"
read -r sent received duplicates <"$work/voice.out"
lost=$((sent - received))
echo "      of the call's $sent packets $lost were lost, $duplicates came twice"
# Copies of the call go by the other uplink from T_ask on, 1 s at most.
gap=$(longest_gap "$began" voice)
claim "the call was silent for 1 s at most ($gap s)" at_most "$gap" 1
claim "it lost no more than 1 s each time that the uplink in use went" lost_at_most "$lost" $((rounds * 2 * 50)) "$began"
claim "of it nothing came twice" equal "$duplicates" 0
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 100M; done # of its pace nothing more is said
wait "$download"
# T_doubt, 2 s with the queue full, a round trip of the other uplink and 0.2 s of repeats.
gap=$(longest_gap "$began")
claim "the download was silent for 2.5 s at most ($gap s)" at_most "$gap" 2.5
claim "it is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "it is still the first session" equal "$(session)" "$first"
finish
