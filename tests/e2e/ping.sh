#!/usr/bin/env bash
# cnapt ping: the round trip of each path to a SNAPT, which paths do not answer, and what is said when nothing can be asked.
. "$(dirname "$0")/lib.sh"
require
build_topology
start_snapt 1
start_snapt 2
add_user alice 1 2
two_uplinks
says() { grep -q "$1" "$work/said" || { cat "$work/said"; return 1; }; }
ping_snapt() { in_ns node cnapt ping --socket "$work/cnapt.sock" "$@" >"$work/said" 2>&1; }
claim "without a daemon it says what to start" eval '! ping_snapt zrh-1 && says "start it with .cnapt run."'
start_cnapt
all_up() { equal "$(cnapt_json snapts | json "sorted(s['snapt'] for s in d if s['state'] == 'up')")" "['zrh-1', 'zrh-2']"; }
wait_for 20 all_up
claim "both paths to a SNAPT answer" ping_snapt zrh-1 --count 2
claim "the first" says 'zrh-1 by up1 192.168.1.2 udp: 2 of 2 answered, .* ms to .* ms'
claim "and the second" says 'zrh-1 by up2 192.168.2.2 udp: 2 of 2 answered'
claim "the other SNAPT answers too" ping_snapt zrh-2 --count 1
claim "one that is not there is named with those that are" eval '! ping_snapt zrh-9 && says "no SNAPT \"zrh-9\"; there are zrh-1, zrh-2"'
claim "JSON has the same" eval 'in_ns node cnapt ping zrh-1 --count 1 --json --socket "$work/cnapt.sock" | json_true "len(d[\"paths\"]) == 2 and all(p[\"answered\"] == 1 and 0 < p[\"rtt_mean_ms\"] < 1000 for p in d[\"paths\"])"'
in_ns gw2 nft 'add table ip cut; add chain ip cut f { type filter hook forward priority 0; policy drop; }'
claim "with one path cut the other answers" ping_snapt zrh-1 --count 2
claim "and the cut one does not" says 'zrh-1 by up2 192.168.2.2 udp: 0 of 2 answered'
stop snapt2 KILL
claim "a SNAPT that is gone fails" eval '! ping_snapt zrh-2 --count 1'
claim "by each path" says 'zrh-2 by up1 192.168.1.2 udp: 0 of 1 answered'
many() {
    local n pids=()
    for n in {1..24}; do in_ns node cnapt ping zrh-1 --count 1 --socket "$work/cnapt.sock" >/dev/null 2>&1 & pids+=($!); done
    wait "${pids[@]}"
}
many
claim "many at once leave the daemon well" equal "$(cnapt_json status | json 'd["state"]')" up
finish
