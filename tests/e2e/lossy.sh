#!/usr/bin/env bash
# Over a link with 10 % loss, 20 % reordering, 5 % duplicates and 30 ms jitter, in each direction, transfers still end and
# are right, and nothing is delivered twice.
. "$(dirname "$0")/lib.sh"
require curl ping dig ethtool
uplink_cable=emulated_cable
build_topology
start_snapt 1
add_user alice
SEED=${SEED:-9347}
echo "      seed $SEED"
cable_set gw1-wan both impair udp loss 10% reorder 20% reorder-by 30ms duplicate 5% jitter 30ms order free
start_cnapt

mkdir "$work/www"
head -c 400000 /dev/urandom >"$work/www/random"
cat /usr/share/common-licenses/* 2>/dev/null | head -c 400000 >"$work/www/text"
http_server "$work/www"
dns_server
sum_of() { sha256sum <"$1" | cut -d' ' -f1; }
down_is_right() { equal "$(in_ns node curl -sS -m 90 "http://$1/$2" | sha256sum | cut -d' ' -f1)" "$(sum_of "$work/www/$2")"; }
up_is_right() { equal "$(in_ns node curl -sS -m 90 -T "$work/www/$2" "http://$1/up")" "$(stat -c %s "$work/www/$2") $(sum_of "$work/www/$2")"; }
claim "a download of random bytes is right" down_is_right $inet4 random
claim "a download of text over IPv6 is right" down_is_right "[$inet6]" text
claim "an upload of random bytes over IPv6 is right" up_is_right "[$inet6]" random
claim "an upload of text is right" up_is_right $inet4 text
resolves() { equal "$(in_ns node dig +short +tries=8 +time=1 @$inet4 www.example.org | grep -v '^;')" 203.0.113.80; }
claim "names are resolved" resolves

began=$EPOCHREALTIME
in_ns node ping -n -c 150 -i 0.03 -W 2 $inet4 >"$work/ping.out"
speaks_of "$began" "$EPOCHREALTIME" 2.2  # half of them
claim "pings are answered in spite of the loss" more_than "$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/ping.out")" 75
no_duplicates() { ! grep -q 'DUP!\|duplicates' "$work/ping.out"; }
claim "no echo came twice" no_duplicates
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 5 listens inet 7001
began=$EPOCHREALTIME
in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 5 "$work/voice.arrivals" >"$work/voice.out"
read -r sent received duplicates <"$work/voice.out"
speaks_of "$began" "$EPOCHREALTIME" 2.5  # half of it
claim "voice packets come through" more_than "$received" $((sent / 2))
claim "no voice packet came twice" equal "$duplicates" 0
sum_both() { cable_stat gw1-wan "sum(d[way]['$1'] for way in d)"; }
lost=$(sum_both dropped_loss) delivered=$(sum_both delivered_packets)
echo "      the link delivered $delivered packets, lost $lost, duplicated $(sum_both duplicated), reordered $(sum_both reordered)"
claim "the link was as bad as it says" more_than "$lost" $((delivered / 15))
finish
