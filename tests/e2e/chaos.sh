#!/usr/bin/env bash
# Anything may happen to two uplinks: other addresses, no carrier, UDP blocked, MTU holes, silence of one way or both, other delay, rate
# and loss, both away, kill -9 of cnapt and of SNAPT. Meanwhile downloads, uploads and connections that last go on: no byte is wrong,
# no connection is lost, and no stall is longer than BOUND beyond what outages explain (12 s, or what docs/PATHS.md allows for the
# events where that is less). SEED (a number that is printed; the same events again), SPAN in seconds (default 60). KILL_SWITCH is on:
# a flow that began beside the tunnel would end with its address.
. "$(dirname "$0")/lib.sh"
require ethtool
seed=${SEED:-$RANDOM}
span=${SPAN:-60}
echo "      seed $seed, $span s; again: SEED=$seed SPAN=$span tests/e2e/chaos.sh"
chaos() { "$python" "$support_dir/chaos.py" "$@"; }
allowed=$(chaos promised "$seed" "$span")
bound=${BOUND:-$(awk -v allowed="$allowed" 'BEGIN { print allowed < 12 ? allowed : 12 }')}
SEED=$seed
uplink_cable=emulated_cable
build_topology
two_uplinks
for n in 1 2; do cable_set "gw$n-wan" both rate 20M delay 10ms queue 100; done
start_snapt 1
add_user alice
set_capture 'kill_switch = true'
start_cnapt

hosts=(- 2 2)
: >"$work/outages"
outage() { echo "$1 $2" >>"$work/outages"; }
after() { awk -v at="$1" -v more="$2" 'BEGIN { printf "%.3f", at + more }'; }
onoff() { [ "$1" = on ]; }
# Events, as chaos.py plans them.
address_() { # UPLINK HOST
    [ "$2" != "${hosts[$1]}" ] || return 0
    printf 'addr del 192.168.%s.%s/24 dev up%s\naddr add 192.168.%s.%s/24 dev up%s\nroute replace default via 192.168.%s.1 dev up%s metric %s00\n' \
        "$1" "${hosts[$1]}" "$1" "$1" "$2" "$1" "$1" "$1" "$1" | ip -n "$(ns node)" -batch -
    hosts[$1]=$2
}
carrier_() { if onoff "$2"; then ip -n "$(ns "gw$1")" link set lan down; else ip -n "$(ns "gw$1")" link set lan up; fi; }
silence_() { if onoff "$2"; then cable_set "gw$1-wan" both down; else cable_set "gw$1-wan" both up; fi; }
one_way_() { if onoff "$3"; then cable_set "gw$1-wan" "$2" down; else cable_set "gw$1-wan" "$2" up; fi; }
udp_() { if onoff "$2"; then cable_set "gw$1-wan" both block udp; else cable_set "gw$1-wan" both unblock udp; fi; }
hole_() { cable_set "gw$1-wan" both mtu "$2"; }
link_() { cable_set "gw$1-wan" both rate "$2M" delay "$3ms" loss "$4"; } # UPLINK MEGABITS MS LOSS
away_() {
    local n
    if onoff "$1"; then away_since=$EPOCHREALTIME; else outage "$away_since" "$EPOCHREALTIME"; fi
    for n in 1 2; do silence_ $n "$1"; done
}
cnapt_() { # AWAY
    local killed=$EPOCHREALTIME
    stop cnapt KILL
    sleep "$1"
    run_cnapt
    outage "$killed" "$(after "$EPOCHREALTIME" 2)"
}
snapt_() {
    local killed=$EPOCHREALTIME
    stop snapt1 KILL
    sleep "$1"
    start_snapt 1
    outage "$killed" "$(after "$EPOCHREALTIME" 2)"
}

spawn inet server "$python" "$support_dir/chaos.py" server 7001 "$work/server.flows"
wait_for 10 listens inet 7001
spawn node client "$python" "$support_dir/chaos.py" client $inet4 7001 "$span" "$work/client.flows"
client=${pid_of[client]}
began=$EPOCHREALTIME
events=0
while read -r at event arguments; do
    left=$(after "$at" "-$(since "$began")")
    [[ $left == -* ]] || sleep "$left"
    echo "$EPOCHREALTIME $(since "$began") $event $arguments" >>"$work/events.log"
    "${event}_" $arguments >>"$work/events.log" 2>&1 || { claim "event $event $arguments" false; }
    events=$((events + 1))
done < <(chaos plan "$seed" "$span")
claim "something happened ($events events)" more_than "$events" $((span / 6))
wait "$client"
claim "the client had its time" equal "$?" 0
touch "$work/server.flows" "$work/client.flows"
chaos judge "$work/outages" "$bound" "$work/client.flows" "$work/server.flows" >"$work/verdict"
judged=$?
sed 's/^/      /' "$work/verdict"
claim "no wrong byte, no lost connection" [ $judged -ne 1 ]
read -r from to < <(sed -n 's/^longest stall .*(stall [^ ]* [^ ]* \([0-9.]*\) \([0-9.]*\)).*/\1 \2/p' "$work/verdict")
speaks_of "${from-}" "${to-}" "$bound"
claim "no stall of more than $bound s beyond outages" [ $judged -eq 0 ]
# With something to carry: an uplink that nobody needs may be asked later.
spawn node ping ping -q -n -i 0.2 $inet4
in_use() { cnapt_json paths | json "[(p['state'], p['transport']) for p in d if p['active']]"; }
is_back() { equal "$(in_use)" "[('usable', 'udp')]"; }
wait_for 70 is_back
claim "in the end it goes by UDP and a usable uplink" is_back
if [ "$claims_failed" -gt 0 ]; then
    echo "--- events of seed $seed"
    cat "$work/events.log"
fi
finish
