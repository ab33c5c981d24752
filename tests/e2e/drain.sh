#!/usr/bin/env bash
# An operator empties a server before maintenance: nodes take another one for new flows, what runs goes on to its end, and nobody new
# is let in. Without another server new connections are refused at once. With a time, what is left ends then.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_two_servers.sh"
require ping curl ethtool
two_servers 200000000
start_at_both

drain() { snapt drain "$@" --socket "$(snapt_socket 1)"; }
state() { snapt_json 1 status | json "d['state']"; }
is_told() { cnapt_json snapts | json_true "d[0]['forwards'] == $1 and d[1]['forwards']"; }
at_snapt() { cnapt_json flows | json "sorted({f['snapt'] for f in d if f['dport'] == 80})"; }
fetches() { in_ns node curl -sf -m 5 -o /dev/null "http://$inet4/small"; }
download() { # download NAME : one that runs for minutes
    spawn node "$1" curl -sS -N -o "$work/$1.got" -m 300 "http://$inet4/file?rate=500000"
    wait_for 10 has "$1" 100000
}
has() { [ "$(stat -c %s "$work/$1.got" 2>/dev/null || echo 0)" -gt "$2" ]; }
goes_on() { wait_for 10 has "$1" $(($(stat -c %s "$work/$1.got") + 500000)); }
download first
claim "a download is at zrh-1" equal "$(at_snapt)" "['zrh-1']"

claim "zrh-1 is emptied" eval "drain | grep -qE '^draining: no new sessions and flows; 1 session, [1-9][0-9]* flows? left$'"
claim "its status says so" equal "$(state) $(snapt_json 1 status | json "d['draining']['since'] > 0 and d['draining']['ends_at'] is None")" "draining True"
claim "in words, too" eval '{ snapt status --socket "$(snapt_socket 1)" || true; } | grep -qE "^draining  since 20.* UTC, no new sessions and flows, [0-9]+ left$"'
claim "with the exit code of an alarm" eval 'snapt status --socket "$(snapt_socket 1)" >/dev/null; [ $? = 2 ]'
claim "the node is told" wait_for 5 is_told False
claim "a new connection works" fetches
in_ns node ping -n -c 1 -W 2 $inet4 >/dev/null
claim "a new flow is at zrh-2" equal "$(cnapt_json flows --all | json "[f['snapt'] for f in d if f['proto'].startswith('icmp')][-1:]")" "['zrh-2']"
claim "the download goes on" goes_on first
claim "at zrh-1" eval "at_snapt | grep -q zrh-1"

# --- Until it is empty
spawn node waits snapt drain --wait --socket "$(snapt_socket 1)"
sleep 1 # longer than one look of it
claim "who waits for the end of the flows waits" is_alive waits
stop first
claim "until the download has ended" wait_for 20 eval '! is_alive waits'
wait "${pid_of[waits]}"
claim "and hears that it is empty" equal "$? $(sed 's/[0-9][0-9]* sessions*/SESSIONS/' "$work/waits.log")" "0 draining: no new sessions and flows; SESSIONS, 0 flows left"

# --- Nodes that have no other server
stop snapt2
alone() { cnapt_json snapts | json_true "[s['state'] for s in d][1] == 'down'"; }
wait_for 20 alone
refused=$(in_ns node curl -sS -m 5 -o /dev/null -w '%{exitcode} %{time_total}' "http://$inet4/small" 2>/dev/null)
claim "without another server a new connection is refused" equal "${refused% *}" 7
claim "at once" at_most "${refused#* }" 1
claim "which is counted" more_than "$(snapt_json 1 status | json "d['drops']['draining']")" 0

# --- Undone
claim "the drain is undone" eval "drain --undo | grep -q '^new sessions and flows are taken again; '"
claim "twice is an error" eval '! drain --undo'
claim "the server is up" equal "$(state)" up
claim "new connections work again" wait_for 5 fetches

# --- With a time
download second
claim "two seconds are given" eval "drain --timeout 2s --json | json_true \"0 < d['ends_at'] - d['since'] <= 3\""
claim "the sessions that are left end" wait_for 8 grep -qE 'session_end user=alice .*reason=drained ' "$work/snapt1.log"
claim "the node hears why" wait_for 5 grep -q 'the SNAPT stops: this SNAPT is being emptied' "$work/cnapt.log"
claim "and is not let in any more" wait_for 30 grep -q 'zrh-1 refused: this SNAPT is being emptied' "$work/cnapt.log"
claim "the server drains still" equal "$(state) $(snapt_json 1 sessions)" "draining []"
drain --undo >/dev/null
claim "until that is undone: the node is let in" wait_cnapt 30
claim "and new connections work" wait_for 5 fetches
claim "nothing is amiss in the ledger" snapt verify --state "$work/s1"
finish
