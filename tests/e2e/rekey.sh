#!/usr/bin/env bash
# Keys are changed under traffic, as SNAPT's `rekey_s` has it: no packet of a call is lost by it, nor any datagram sealed with keys
# that the other end does not have. The same over links that lose packets; in the middle of a handover, and of a restart of
# SNAPT, when the node asked for keys and gets no answer: a download goes on and gets new keys later. ROUNDS of all that (default 1).
. "$(dirname "$0")/lib.sh"
require curl ethtool
rounds=${ROUNDS:-1}
uplink_cable=emulated_cable
build_topology
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 9M delay 20ms queue 1000; done
start_snapt 1
stop snapt1
sed -i 's/^rekey_s.*/rekey_s = 10/' "$work/snapt1.toml"
claim "SNAPT is to change keys every 10 s" grep -q '^rekey_s = 10$' "$work/snapt1.toml"
start_snapt 1
add_user alice
start_cnapt
lease() { snapt_json 1 sessions | json "d[0]['inner_ipv4']"; }
leased=$(lease)

mkdir "$work/www"
head -c $((rounds * 120000000)) /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet voice_server "$python" "$support_dir/voice.py" server 7001
wait_for 10 listens inet 7001

# "NODE SNAPT", both the same outside of a change.
epochs() { echo "$(cnapt_json snapts | json "d[0]['epoch']") $(snapt_json 1 sessions | json "d[0]['epoch']")"; }
# has_keys_after EPOCH : both ends seal in a later one.
has_keys_after() { local node snapt; read -r node snapt < <(epochs); [ "$node" = "$snapt" ] && [ "$node" -gt "$1" ]; }
epoch() { epochs | cut -d' ' -f2; }
control_is_open() { cnapt_json snapts | json_true "d[0]['control_open']"; }
drops() { snapt_json 1 status | json "d['drops']['$1']"; }
node_drops() { cnapt_json status | json "d['drops']['$1']"; }
goes_on() { local before; before=$(have); wait_for 20 arrived $((before + ${1:-1500000})); }
# silent_for SECONDS FROM
silent_for() { at_most "$(longest_gap "$2")" "$1"; }
call() { in_ns node "$python" "$support_dir/voice.py" client $inet4 7001 "$1" "$work/voice"; }

mkfifo "$work/pipe"
"$python" "$support_dir/arrivals.py" "$work/arrivals" <"$work/pipe" >"$work/result" &
reader=$!
exec_in_ns node curl -sS -o "$work/pipe" "http://$inet4/file" 2>"$work/curl.log" &
pid_of[download]=$!
wait_for 20 arrived 1000000

without_loss() {
    local before sent received duplicates began=$EPOCHREALTIME
    before=$(epoch)
    read -r sent received duplicates < <(call 11)
    claim "$1: keys were changed under a call" has_keys_after "$before"
    claim "$1: of the call's packets none is lost" lost_at_most $((sent - received)) 0 "$began"
    claim "$1: and none came twice" equal "$duplicates" 0
    claim "$1: no datagram had keys that SNAPT does not have" equal "$(drops unauthentic) $(drops unknown_epoch)" "0 0"
    claim "$1: or such that the node does not have" equal "$(node_drops unauthentic) $(node_drops unknown_epoch)" "0 0"
}

with_loss() {
    local before cable
    before=$(epoch)
    began=$EPOCHREALTIME
    for cable in gw1-wan gw2-wan; do cable_set $cable both loss 0.02; done
    claim "$1: with loss keys are changed as well" wait_for 25 has_keys_after "$before"
    claim "$1: the download goes on" goes_on 300000
    for cable in gw1-wan gw2-wan; do cable_set $cable both loss 0; done
    claim "$1: it was silent for 2 s at most ($(longest_gap "$began") s)" silent_for 2 "$began"
    claim "$1: no datagram had keys that the other end does not have" equal "$(drops unauthentic) $(node_drops unauthentic)" "0 0"
}

# Control is swallowed on its way down until SNAPT has granted keys.
swallow_answers() {
    in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; };
        add rule inet hole pass tcp sport 9347 drop"
}
# SNAPT has keys that the node does not know; sets `before` to the node's.
is_granted() { local snapt; read -r before snapt < <(epochs); [ "$snapt" -gt "$before" ]; }

handover() {
    local before
    wait_for 20 control_is_open
    swallow_answers 1
    claim "$1, handover: the node asks for keys, SNAPT grants them, the node does not know" wait_for 15 is_granted
    began=$EPOCHREALTIME
    move 2 $((20 + $1))
    claim "$1, handover: the download goes on" goes_on
    claim "$1, handover: it was silent for 2 s at most ($(longest_gap "$began") s)" silent_for 2 "$began"
    claim "$1, handover: both ends have new keys" wait_for 20 has_keys_after "$before"
    in_ns gw1 nft delete table inet hole
}

restart() {
    local before rto killed began back away last most
    wait_for 20 control_is_open
    swallow_answers 2
    claim "$1, restart: the node asks for keys, SNAPT grants them, the node does not know" wait_for 15 is_granted
    rto=$(rto_s) killed=$EPOCHREALTIME
    stop snapt1 KILL
    sleep 0.3
    start_snapt 1
    began=$EPOCHREALTIME
    takes_effect in_ns gw2 nft delete table inet hole
    claim "$1, restart: both ends have the same keys" wait_for 20 has_keys_after 0
    longest_gap "$killed" >/dev/null
    read -r last _ <"$work/window"  # what waited in the link's queue still came
    away=$(since "$killed") back=$(since "$began")
    # The node asks by UDP a second after that, and again after as long as it has asked, a second at most; then over control.
    most=$("$python" -c "asked = $last + 1 - $began; print(round((asked if asked > 0 else min(1, -asked)) + 1 + 0.5, 3))")
    claim "$1, restart: $most s after the way is open at the latest ($back s)" at_most "$back" "$most"
    claim "$1, restart: the download goes on" goes_on
    claim "$1, restart: silent until its sender's second attempt at most (RTO $rto s, $(longest_gap "$killed") s)" silent_since "$killed" "$away"
    claim "$1, restart: the lease is the same" equal "$(lease)" "$leased"
    move 1 $((20 + $1))
}

for ((round = 1; round <= rounds; round++)); do
    without_loss $round
    with_loss $round
    handover $round
    restart $round
done
claim "the download still runs" is_alive download
stop download
claim "curl has nothing to complain about" equal "$(cat "$work/curl.log")" ""
wait "$reader"
read -r bytes digest <"$work/result"
claim "all of the download that came is right ($bytes bytes)" equal "$digest" "$(head -c "$bytes" "$work/www/file" | sha256sum | cut -d' ' -f1)"
claim "it was one TCP connection" equal "$(grep -c GET "$work/http.log")" 1
finish
