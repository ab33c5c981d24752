#!/usr/bin/env bash
# Make before break: the node moves between its access networks while both links are up for half a second. A call and a ping lose
# nothing, and nothing comes twice.
. "$(dirname "$0")/lib.sh"
require ping
uplink_cable=emulated_cable
build_topology
cable_set gw1-wan both delay 10ms rate 20M
cable_set gw2-wan both delay 25ms rate 20M
start_snapt 1
add_user alice
start_cnapt
# The first route has no metric, which is the best.
metric=1000
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 metric $metric
ip -n "$(ns node)" route del default via 192.168.1.1 dev up1 metric 0

moves=10
overlap=0.5
pause=2
seconds=$((moves * 3 + 4))
spawn inet voice "$python" "$support_dir/voice.py" server 5004
wait_for 10 listens inet 5004 || { echo "no voice server"; exit 1; }
exec_in_ns node ping -n -i 0.02 -c $((seconds * 50)) -W 2 $inet4 >"$work/ping.out" 2>&1 &
ping=$!
began=$EPOCHREALTIME
exec_in_ns node "$python" "$support_dir/voice.py" client $inet4 5004 $seconds "$work/voice.times" >"$work/voice.out" 2>"$work/voice.err" &
voice=$!
sleep 2

# The new address and the better route, then both, then the old address goes.
make_then_break() { # GW HOST
    local old_gateway=$here_gateway old_host=$here_host
    metric=$((metric - 10))
    printf 'addr add 192.168.%s.%s/24 dev up%s\nroute add default via 192.168.%s.1 dev up%s metric %s\n' "$1" "$2" "$1" "$1" "$1" $metric |
        ip -n "$(ns node)" -batch - || return
    sleep $overlap
    wait_for 5 is_active "up$1"
    ip -n "$(ns node)" addr del "192.168.$old_gateway.$old_host/24" dev "up$old_gateway"
    here_gateway=$1 here_host=$2
}
host=20
for ((i = 1; i <= moves; i++)); do
    host=$((host + 1))
    make_then_break $((1 + i % 2)) $host
    claim "move $i: up$here_gateway is in use" wait_for 5 is_active "up$here_gateway"
    sleep $pause
done
wait "$ping" "$voice"

cat "$work/voice.out"
tail -n 2 "$work/ping.out"
read -r sent received duplicates <"$work/voice.out"
claim "of the call's packets none is lost" lost_at_most $((sent - received)) 0 "$began"
claim "and none came twice" equal "$duplicates" 0
speaks_of "$began" "$EPOCHREALTIME" 0.02  # one ping
claim "of the pings none is lost" grep -q ' 0% packet loss' "$work/ping.out"
claim "and none was answered twice" equal "$(grep -c DUP "$work/ping.out")" 0
# Repeats of SNAPT arrived by the path that was left, so they came twice.
twice() { cnapt_json status | json "d['drops']['$1']"; }
claim "datagrams that came twice are counted as repeated" more_than "$(twice repeated)" 0
claim "and none as replayed" equal "$(twice replayed)" 0
claim "at the SNAPT neither" equal "$(snapt_json 1 status | json "d['drops']['replayed']")" 0
copies() { json "d[0]['copies']['sent']"; }
claim "copies were sent up" more_than "$(cnapt_json status | json "d['sessions'][0]['copies']['sent']")" 0
claim "and down" more_than "$(snapt_json 1 sessions | copies)" 0
finish
