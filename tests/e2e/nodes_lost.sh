#!/usr/bin/env bash
# Nodes that were killed, or whose power failed, and have lost their state do not keep their user out of the server.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice
limit=$(sed -n 's/^user_sessions *= *//p' "$work/snapt1.toml")
: "${limit:=8}"

# Another node, as the user's other devices are.
begin_anew() { rm -rf "$work/c"; run_cnapt; }
kill_node() {
    stop cnapt KILL
    ip -n "$(ns node)" link del cnapt0 2>/dev/null
}
works() { in_ns node ping -n -c 1 -W 3 $inet4; }
sessions() { snapt_json 1 sessions | json "$1"; }
for n in $(seq $((limit + 2))); do
    begin_anew
    wait_cnapt 15 || break
    [ "$n" -gt $((limit + 1)) ] || kill_node
done
claim "each of $((limit + 2)) new nodes of the same key was let in" equal "$n" $((limit + 2))
claim "the last one works" works
claim "there are no more sessions than a user may have" equal "$(sessions 'len(d)')" "$limit"
claim "snapt sessions tells which nodes are gone" equal "$(sessions "[s['control_open'] for s in d].count(True)")" 1
claim "and when each was heard" json_true "all(s['heard_ms_ago'] is not None for s in d)" < <(snapt_json 1 sessions)
kill_node

# Their links stay open: nothing comes through any more, as when the power fails. One by one they take all the places.
places=2
sed -i "s/^user_sessions *=.*/user_sessions = $places/" "$work/snapt1.toml"
grep -q '^user_sessions' "$work/snapt1.toml" || sed -i "s/^\[limits\].*/&\nuser_sessions = $places/" "$work/snapt1.toml"
stop snapt1
start_snapt 1
for n in $(seq $places); do
    begin_anew
    claim "node $n is up" wait_cnapt 15
    in_ns "gw$here_gateway" nft 'add table inet cut; add chain inet cut all { type filter hook forward priority 0; policy drop; }'
    kill_node
    move $((3 - here_gateway)) $((20 + n))
done
for n in 1 2; do in_ns gw$n nft delete table inet cut; done
begin_anew
claim "a new node is let in a minute later at the latest" wait_cnapt 75
claim "it works" works
finish
