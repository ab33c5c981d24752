#!/usr/bin/env bash
# The way to SNAPT's control port is closed while UDP passes: a download, a call and a connection at a human's pace go on, also
# over the other uplink when the one in use goes meanwhile, and nothing is reset. Control comes back by itself. SPAN: seconds without control (default 12).
. "$(dirname "$0")/lib.sh"
require curl ethtool
span=${SPAN:-12}
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 10M delay 10ms queue 1000; done
start_snapt 1
add_user alice
start_cnapt
first=$(session)

size=$(((span + 6) * 1200000))
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
spawn inet chat_server "$python" "$support_dir/chat.py" server 7002
wait_for 10 listens inet 7001
wait_for 10 listens inet 7002

control_is() { equal "$(cnapt_json snapts | json "d[0]['control_open']")" "$1"; }
links() { snapt_json 1 status | json "d['control']['links']"; }
has_control() { control_is True && [ "$(links)" -ge 1 ]; }
transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
goes_on() { local before; before=$(have); wait_for 20 arrived $((before + 1500000)); }
close_control() {
    in_ns core nft "add table inet hole; add counter inet hole swallowed; add chain inet hole pass { type filter hook forward priority 0; };
        add rule inet hole pass tcp dport 9347 counter name swallowed drop; add rule inet hole pass tcp sport 9347 drop"
}
swallowed() { in_ns core nft list counter inet hole swallowed | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
tries() { [ "$(swallowed)" -gt "$1" ]; }

exec_in_ns node curl -sS -m $((span * 3 + 60)) "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
exec_in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 $((span + 60)) "$work/voice" >"$work/voice.out" 2>"$work/voice.log" &
voice=$!
exec_in_ns node "$python" "$support_dir/chat.py" client $inet4 7002 $((span + 3)) "$work/chat" >"$work/chat.out" 2>"$work/chat.log" &
chat=$!
wait_for 10 arrived 1500000
claim "control is there" has_control

began=$EPOCHREALTIME
ended=$((SECONDS + span))
close_control
claim "control is closed, and the download goes on" goes_on

# The uplink in use goes.
moved=$EPOCHREALTIME
ip -n "$(ns node)" addr flush dev up1
claim "the other uplink is taken" wait_for 5 is_active up2
claim "the download goes on over it" goes_on
claim "over UDP" equal "$(transport)" udp
is_over() { [ $SECONDS -ge $ended ]; }
wait_for "$span" is_over
claim "the download goes on without control" goes_on
claim "the node has tried to get it back" tries 5
claim "and it is not there" control_is False
for log in arrivals voice chat; do
    gap=$(longest_gap "$began" $log)
    claim "$log: silent for 0.5 s at most ($gap s)" at_most "$gap" 0.5
done

in_ns core nft delete table inet hole
back=$EPOCHREALTIME
claim "control comes back by itself" wait_for 15 has_control
took=$(since "$back")
claim "10 s after the way is open at the latest ($took s)" at_most "$took" 11
claim "the session is still the first" equal "$(session)" "$first"
called_since() { [ "$(awk -v back="$back" '$1 > back' "$work/voice" | wc -l)" -ge "$1" ]; }
wait_for 10 called_since 100
kill "$voice"
wait "$voice" "$chat"
claim "every line was answered right" chat_is_right 20
gap=$(longest_gap "$back" voice)
claim "the call was silent for 0.5 s at most when it came ($gap s)" at_most "$gap" 0.5
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
finish
