#!/usr/bin/env bash
# Over a link with 10 % loss, 20 % reordering, 5 % duplicates and 30 ms jitter, in each direction, transfers still end and
# are right, and nothing is delivered twice.
. "$(dirname "$0")/lib.sh"
require curl ping dig
build_topology
start_snapt 1
add_user alice
# The node knows only the relay, which stands on the core router.
relay=203.0.113.1
sed -i "s/198\.51\.100\.2:9347/$relay:9347/" "$work/cnapt.toml"
seed=${SEED:-9347}
spawn core relay "$python" "$support_dir/udp_impair.py" --listen $relay --target 198.51.100.2 \
    --loss 0.1 --reorder 0.2 --duplicate 0.05 --jitter-ms 30 --seed "$seed"
echo "      seed $seed"
wait_for 10 listens core 9347
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

in_ns node ping -n -c 150 -i 0.03 -W 2 $inet4 >"$work/ping.out"
claim "pings are answered in spite of the loss" more_than "$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/ping.out")" 75
no_duplicates() { ! grep -q 'DUP!\|duplicates' "$work/ping.out"; }
claim "no echo came twice" no_duplicates
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 5 listens inet 7001
in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 5 "$work/voice.arrivals" >"$work/voice.out"
read -r sent received duplicates <"$work/voice.out"
claim "voice packets come through" more_than "$received" $((sent / 2))
claim "no voice packet came twice" equal "$duplicates" 0
stop relay
read -r forwarded lost duplicated reordered <"$work/relay.log"
echo "      the relay forwarded $forwarded datagrams, lost $lost, duplicated $duplicated, reordered $reordered"
claim "the link was as bad as it says" more_than "$lost" $((forwarded / 15))
finish
