#!/usr/bin/env bash
# The power of a node fails: its control link stays open. The server asks it for a sign of life when the user's next node logs in,
# which is let in at its next attempt.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_nodes_lost.sh"
require ping
build_topology
start_snapt 1
add_user alice
keepalive=1
stop snapt1
set_snapt user_sessions 1
set_snapt keepalive_s $keepalive
start_snapt 1

begin_anew
claim "the node is up" wait_cnapt 15
claim "its gateway lets nothing through any more" in_ns gw1 nft 'add table inet cut; add chain inet cut pass { type filter hook forward priority 0; policy drop; }'
kill_node
move 2 11
former=$(sessions "d[0]['session_id']")
is_silent() { json_true "d[0]['heard_ms_ago'] > 3000 * $keepalive" < <(snapt_json 1 sessions); }
claim "it was silent for three keepalives" wait_for 5 is_silent
claim "its link is open" equal "$(sessions "d[0]['control_open']")" True
begin_anew
refuses() { grep -q 'login_refused user=alice .*too many sessions' "$work/snapt1.log"; }
claim "a new node is refused at first" wait_for 5 refuses
claim "it is let in when the former one has not answered" wait_cnapt 40
claim "the new node works" works
claim "the former one gave way" grep -q 'session_end user=alice .*reason=gave_way' "$work/snapt1.log"
claim "one session is left, another one" json_true "len(d) == 1 and d[0]['session_id'] != '$former'" < <(snapt_json 1 sessions)

finish
