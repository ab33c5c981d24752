#!/usr/bin/env bash
# Nodes that were killed and have lost their state do not keep their user out of the server.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nodes_lost.sh"
require ping
build_topology
start_snapt 1
add_user alice
limit=3
stop snapt1
set_snapt user_sessions $limit
start_snapt 1

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
listed() { snapt sessions --socket "$(snapt_socket 1)"; }
claim "as text, too" grep -q 'HEARD' <<<"$(listed)"
claim "one line for each that is gone" equal "$(listed | grep -c ' ago, no control ')" $((limit - 1))
claim "and the one that is here" equal "$(listed | grep -c ' s ago ')" 1
finish
