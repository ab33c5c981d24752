#!/usr/bin/env bash
# From Wi-Fi to LTE and back, again and again, under TCP in both directions, a call and a ping. ROUNDS: how often (default 6).
. "$(dirname "$0")/lib.sh"
require curl ping ethtool
rounds=${ROUNDS:-6}
uplink_cable=emulated_cable
build_topology
two_uplinks
cable_set gw1-wan both rate 25M delay 5ms queue 60
cable_set gw2-wan both rate 12M delay 30ms jitter 8ms order kept queue 60
start_snapt 1
add_user alice
start_cnapt
first=$(session)

# More than the rounds can carry.
size=$((rounds * 8000000 + 8000000))
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
upload_reader
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001

exec_in_ns node curl -sS -m 900 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/down" >"$work/result" &
download=$!
spawn node writer bash -c "cat $work/www/file >/dev/tcp/$inet4/8080"
exec_in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 900 "$work/voice" >"$work/voice.out" 2>"$work/voice.log" &
pid_of[voice]=$!
spawn node ping ping -n -D -i 0.05 $inet4

bytes_of() { tail -n 1 "$work/$1" 2>/dev/null | cut -d' ' -f2; }
lines_of() { wc -l <"$work/$1"; }
# go_on : each flow gets something, and the transfers a moment's worth, after now.
go_on() {
    local down up voice ping
    down=$(bytes_of down) up=$(bytes_of up) voice=$(lines_of voice) ping=$(lines_of ping.log)
    wait_for 15 eval '[ "$(bytes_of down)" -gt '$((down + 800000))' ] && [ "$(bytes_of up)" -gt '$((up + 800000))' ] &&
        [ "$(lines_of voice)" -gt '$((voice + 10))' ] && [ "$(lines_of ping.log)" -gt '$((ping + 4))' ]'
}
# timed NAME LINES : ip -batch on the node; "began done" goes to NAME.
timed() {
    local began=$EPOCHREALTIME
    ip -n "$(ns node)" -batch - <<<"$2" && echo "$began $EPOCHREALTIME" >>"$work/$1"
}
lose_wifi() { timed away $'addr flush dev up1\nlink set up1 down'; }
find_wifi() {
    timed back $'link set up1 up\naddr add 192.168.1.2/24 dev up1\nroute add default via 192.168.1.1 dev up1 metric 100'
}
wait_for 10 [ -s "$work/down" ] && wait_for 10 [ -s "$work/up" ]
go_on
made=0
began=$EPOCHREALTIME
while [ $made -lt "$rounds" ]; do
    lose_wifi && go_on && is_active up2 && find_wifi && wait_for 10 is_active up1 && go_on || break
    made=$((made + 1))
done
claim "$rounds times from Wi-Fi to LTE and back, and everything went on each time" equal $made "$rounds"
stop ping
stop voice
read -r sent received duplicates <"$work/voice.out"
lost=$((sent - received))
echo "      of the call's $sent packets $lost were lost in $made rounds"
# Packets under way when Wi-Fi went, 100 ms each time; measured 10 in 6 rounds. Coming back loses nothing.
claim "the call lost no more than 5 packets a round" lost_at_most "$lost" $((rounds * 5)) "$began"
claim "of it nothing came twice" equal "$duplicates" 0
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
is_uploaded() { equal "$(cat "$work/reader.log")" "$size $sum"; }
claim "the upload is whole and right" wait_for 60 is_uploaded
sed -n 's/^\[\([0-9.]*\)\] .*bytes from.*/\1/p' "$work/ping.log" >"$work/ping"
# A move that the node knows of costs a round trip (0.14 s with LTE's queue full) and 0.2 s of repeats; TCP tries again after twice
# that and an RTO (0.35 s). The link's own outage, 0.1 s, is in it.
for moves in away back; do
    for flow in down up voice ping; do
        "$python" "$support_dir/gaps.py" "$work/$flow" "$work/$moves" >"$work/gaps"
        read -r longest median < <(longest_silence "$work/gaps" 1 1200)
        claim "$flow, $moves: silent for 1.2 s at most (median $median ms, longest $longest ms)" at_most "$longest" 1200
    done
done
claim "the session is still the first" equal "$(session)" "$first"
finish
