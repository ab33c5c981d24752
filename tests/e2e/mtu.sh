#!/usr/bin/env bash
# A way that suddenly takes only shorter packets and says nothing: a download and an upload under way go on within three
# seconds, whichever direction is cut. What passes is found by the search, in each direction for itself.
. "$(dirname "$0")/lib.sh"
require curl socat ethtool
uplink_cable=emulated_cable
build_topology
cable_set gw1-wan both rate 16M delay 10ms queue 100
start_snapt 1
add_user alice
start_cnapt

mkdir "$work/www"
head -c 40000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
arrived() { tail -n 1 "$work/$1" 2>/dev/null | cut -d' ' -f2; }
has_arrived() { [ "$(arrived "$1")" -gt "$2" ]; }
mtu_up() { cnapt_json paths | json "[p['mtu'] for p in d if p['active']][0]"; }
mtu_down() { snapt_json 1 sessions | json "d[0]['mtu']"; }
mtu_up_is() { equal "$(mtu_up)" "$1"; }
mtu_down_is() { equal "$(mtu_down)" "$1"; }

exec_in_ns node curl -sS -m 120 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/down" >"$work/down.result" &
download=$!
exec_in_ns inet socat -u TCP4-LISTEN:7002 STDOUT 2>"$work/socat.log" | "$python" "$support_dir/arrivals.py" "$work/up" >"$work/up.result" &
upload=$!
wait_for 10 listens inet 7002
exec_in_ns node socat -u "FILE:$work/www/file" "TCP4:$inet4:7002" 2>>"$work/socat.log" &

claim "both are under way" wait_for 20 has_arrived down 1000000
wait_for 20 has_arrived up 1000000
claim "the whole MTU is in use at first" mtu_up_is 1500

# shrink WAY MTU : both transfers go on for some megabytes.
shrink() {
    local down up
    echo "$EPOCHREALTIME $EPOCHREALTIME" >>"$work/cuts"
    cable_set gw1-wan "$1" mtu "$2"
    down=$(arrived down) up=$(arrived up)
    sleep 4  # gaps.py looks at the three seconds behind a cut
    claim "cut to $2 ($1), the download goes on" wait_for 15 has_arrived down $((down + 2000000))
    claim "and the upload" wait_for 15 has_arrived up $((up + 2000000))
}
shrink a-to-b 1280
claim "the path has the smaller MTU up" wait_for 10 mtu_up_is 1280
claim "and the whole one down" mtu_down_is 1500
shrink b-to-a 1280
claim "the path has the smaller MTU down" wait_for 10 mtu_down_is 1280
shrink both 1000
claim "the path has the smallest MTU up" wait_for 10 mtu_up_is 1000
claim "and down" wait_for 10 mtu_down_is 1000
claim "two black holes were found up" equal "$(cnapt_json paths | json "[p['black_holes'] for p in d if p['active']][0]")" 2
claim "and two down" equal "$(snapt_json 1 sessions | json "d[0]['black_holes']")" 2
wait "$download" "$upload"
claim "the download is whole and right" equal "$(cat "$work/down.result") $(cat "$work/curl.log")" "40000000 $sum "
claim "the upload is whole and right" equal "$(cat "$work/up.result") $(cat "$work/socat.log")" "40000000 $sum "
claim "the download was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
for way in down up; do
    "$python" "$support_dir/gaps.py" "$work/$way" "$work/cuts" >"$work/$way.gaps"
    echo "      $way, silence around each cut, ms: $(grep -v median "$work/$way.gaps" | cut -d' ' -f1 | xargs)"
    read -r longest median < <(longest_silence "$work/$way.gaps" 1 3000)
    claim "no silence of the ${way}load was longer than 3 s ($longest ms)" at_most "$longest" 3000
done
swallowed=$(cable_stat gw1-wan "sum(d[way]['dropped_mtu'] for way in d)")
claim "packets were swallowed" more_than "$swallowed" 10
finish
