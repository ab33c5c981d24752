#!/usr/bin/env bash
# A user with a key does its worst (hostile_user): another user's packets and logins do not wait for it, it is counted, and it
# gets no more than its share. A fleet of one user is still back at once.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
new_stranger
mkdir -p "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >"$work/snapt1.log"
limit_sessions() { sed -i '/^user_sessions *=/d; s/^\[limits\].*/&\nuser_sessions = '"$1"'/' "$work/snapt1.toml"; }
grep -q '^\[limits\]' "$work/snapt1.toml" || printf '\n[limits]\n' >>"$work/snapt1.toml"
user_sessions=40  # and so 320 leases: more than new nodes are let in below
limit_sessions $user_sessions
start_snapt 1
for user in mallory bob; do
    add_user $user
    mv "$work/cnapt.toml" "$work/$user.toml"
done
add_user alice
start_cnapt
session=$(wire_session 1 alice)

control() { snapt_json 1 status | json "d['control']['$1']"; }
# Sum over all sessions of the attacker.
of_mallory() { snapt_json 1 sessions | json "sum(s['$1'] for s in d if s['user'] == 'mallory')"; }
# share SHARE : that quantile of what comes on standard input.
share() { sort -n | awk -v share="$1" '{ v[NR] = $1 } END { print v[int(share * (NR - 1)) + 1] }'; }
# measure : sets ping_ms, of nine in ten packets of alice, login_ms, the longest of two logins of hers as another node, and measured,
# "FROM TO".
logins=0  # of hers as another node, so far
measure() {
    local login from=$EPOCHREALTIME
    in_ns gw2 hostile_user login "$work/cnapt.toml" 2 --node probe >"$work/logins" &
    login=$!
    in_ns node ping -n -c 100 -i 0.01 -W 2 $inet4 >"$work/pings"
    wait "$login"
    ping_ms=$(sed -n 's/.*time=\([0-9.]*\) ms/\1/p' "$work/pings" | share 0.9)
    logins=$((logins + $(json "sum(ms >= 0 for ms in d['login_ms'])" <"$work/logins")))
    login_ms=$(json "9999 if min(d['login_ms']) < 0 else max(d['login_ms'])" <"$work/logins")
    measured="$from $EPOCHREALTIME"
}

measure
most_ping_ms=20 # an answer is there before a call sends its next packet; bench hostile-user has the figure
most_login_ms=1000
echo "      before: $ping_ms ms, login $login_ms ms"

# passed WAY : bytes that have come to the SNAPT (rx) or left it (tx).
passed() { in_ns snapt1 cat "/sys/class/net/wan/statistics/$1_bytes"; }
drops() { snapt_json 1 status | json "sum(d['drops'].get(name, 0) for name in '$1'.split())"; }

target=$work/mallory.toml
# attack NAME WHAT LEAST OPTION... : WHAT of its report is LEAST at least, and alice does not notice.
attack() {
    local name=$1 what=$2 least=$3 round came left began most
    shift 3
    for round in 1 2 3; do  # what else the machine has to do may fall into one
        rm -f "$work/$name.log" "$work/$name.ready"
        spawn stranger "$name" hostile_user "$name" "$target" 1.3 "$@"
        case $name in *acks | *moves) wait_for 15 test -e "$work/$name.ready" ;; esac  # what was needed first does not count
        came=$(passed rx) left=$(passed tx) began=$EPOCHREALTIME
        measure
        wait_for 10 eval "! is_alive $name"
        came=$(($(passed rx) - came)) left=$(($(passed tx) - left))
        most=$("$python" -c "print(64 * $came + 1000000 * ($(since "$began") + 1))")
        ! at_most "$ping_ms" $most_ping_ms || ! at_most "$login_ms" $most_login_ms || break
    done >/dev/null
    claim "$name: so much was offered ($(json "d['$what']" <"$work/$name.log") $what)" more_than "$(json "d['$what']" <"$work/$name.log")" "$least"
    speaks_of $measured 0.02
    claim "$name: nine in ten round trips of another user take at most $most_ping_ms ms ($ping_ms ms)" at_most "$ping_ms" $most_ping_ms
    speaks_of $measured $((most_login_ms / 1000))
    claim "$name: its logins take at most 1 s ($login_ms ms)" at_most "$login_ms" $most_login_ms
    claim "$name: what leaves the SNAPT ($left bytes) is at most 64 times what comes, and 1 MB a second" at_most "$left" "$most"
}

# Lines of the log are as long as they can be, and few.
lines() { grep -c "login_refused user=mallory .*bad node name" "$work/snapt1.log"; }
began=$EPOCHREALTIME
attack refusals logins 20
most_lines=$("$python" -c "print(int(32 + 2 * $(since "$began") + 1))")
claim "refusals: they are logged" more_than "$(lines)" 0
claim "refusals: 32 lines at once, then two a second ($(lines) of $most_lines)" at_most "$(lines)" "$most_lines"

# A flood over control waits at its sender, and is counted there.
attack questions messages 100
claim "questions: counted for their sender" more_than "$(of_mallory control_pauses)" 0
attack apps messages 2
claim "apps: counted for their sender" more_than "$(of_mallory control_pauses)" 0
claim "apps: the ledger refused nothing" equal "$(snapt_json 1 status | json "d['ledger']['refused_commands']")" 0

# A session that begins anew takes the link of the one before away.
attack links logins 4
claim "links: there were four, as many as it named nodes" at_most "$(json "d['links']" <"$work/links.log")" 4

# Logins beyond the bucket are refused before anything is written.
sql() { "$python" -c 'import sqlite3, sys; print(sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True).execute(sys.argv[2]).fetchone()[0])' "$work/s1/ledger.db" "$1"; }
leases() { sql "SELECT count(*) FROM lease WHERE user_id = '$1'"; }
began=$EPOCHREALTIME
refused=$(control refused_hellos)
attack hellos logins 10
spawn stranger hellos hostile_user hellos "$target" 30
refusals_above() { [ "$(control refused_hellos)" -gt "$1" ]; }
claim "hellos: they are refused in the end, and counted" wait_for 25 refusals_above $((refused + 200))
stop hellos
# Those that came before had leases of theirs: hostile, and hostile0 to 3, which count here again.
most_leases=$("$python" -c "print(int(4 * $user_sessions + $(since "$began") + 16))")
claim "hellos: the log names their sender" grep -q 'login_refused user=mallory node=[^ ]* from=[^ ]* reason="too many logins"' "$work/snapt1.log"
claim "hellos: no more left a lease than new nodes are let in ($(leases mallory) of $most_leases)" at_most "$(leases mallory)" "$most_leases"

attack tcp datagrams 1000
attack datagrams packets 1000
attack entries packets 10000
have=$(drops bad_body)
attack acks datagrams 1000 --ready "$work/acks.ready"
claim "acks: they name what has come and is not acknowledged" more_than "$(json "d['numbers']" <"$work/acks.log")" 3000
claim "acks: none was void" equal "$(drops bad_body)" "$have"
have=$(drops bad_body)
attack frames datagrams 1000
void=$(($(drops bad_body) - have))
claim "frames: none was void ($void)" equal "$void" 0
# These two as slow as they would be worth it: much that comes would allow much that leaves.
attack moves datagrams 100 --rate 100 --ready "$work/moves.ready"
claim "moves: as much is under way" more_than "$(json "d['numbers']" <"$work/moves.log")" 3000
claim "moves: they were more than 20 ($(of_mallory handovers))" more_than "$(of_mallory handovers)" 20
# The same by the control link, and to an IPv6 address.
have=$(drops bad_body)
attack tcp-acks datagrams 100 --ready "$work/tcp-acks.ready"
claim "tcp-acks: they name what has come and is not acknowledged" more_than "$(json "d['numbers']" <"$work/tcp-acks.log")" 3000
attack tcp-moves datagrams 100 --rate 100 --ready "$work/tcp-moves.ready"
claim "tcp-moves: as much is under way" more_than "$(json "d['numbers']" <"$work/tcp-moves.log")" 3000
sed 's/^addresses = .*/addresses = ["[2001:db8:1::2]:9347"]/' "$work/mallory.toml" >"$work/mallory6.toml"
target=$work/mallory6.toml
attack acks datagrams 1000 --ready "$work/acks.ready"
claim "acks, IPv6: they name what has come and is not acknowledged" more_than "$(json "d['numbers']" <"$work/acks.log")" 3000
attack moves datagrams 100 --rate 100 --ready "$work/moves.ready"
claim "moves, IPv6: as much is under way" more_than "$(json "d['numbers']" <"$work/moves.log")" 3000
target=$work/mallory.toml
claim "none of these was void" equal "$(drops bad_body)" "$have"
have=$(drops inflation_limit)
attack expansions packets 10000 --rate 440
claim "expansions: what is beyond the budget is dropped and counted" more_than "$(drops inflation_limit)" "$have"
claim "what is done with alice's key is logged, whoever floods: $logins logins" equal "$(grep -c 'login user=alice node=probe' "$work/snapt1.log")" "$logins"

# A stranger who reads the session's id on the way: what it sends is looked up, and its tag checked.
target=$(snapt_address 1):9347
have=$(drops unauthentic)
attack forged datagrams 1000 --rate 500 --session "$session"
claim "forged: tags were checked ($(drops unauthentic))" more_than "$(($(drops unauthentic) - have))" 1000
have=$(drops unknown_session)
attack forged datagrams 1000 --rate 500
claim "forged, of any session: they were looked up ($(drops unknown_session))" more_than "$(($(drops unknown_session) - have))" 1000

# --- As many sessions as a user may have, and no trace of one more
reload_sessions() {
    limit_sessions "$1"
    snapt reload --socket "$(snapt_socket 1)" >/dev/null
}
fleet_is() { [ "$(tail -n 1 "$work/$1.log" | cut -d' ' -f1)" = "$2" ]; }
reload_sessions 2
spawn stranger two hostile_user fleet "$work/bob.toml" 60 --nodes 2 --node two
wait_for 10 fleet_is two in
claim "a third session of a user with two is refused" equal "$(in_ns gw2 hostile_user login "$work/bob.toml" 1 --node third | json "d['login_ms'][0]")" -1.0
claim "and got no lease" equal "$(leases bob)" 2
stop two

# --- A fleet of one user after the SNAPT starts again
reload_sessions 40
spawn stranger fleet hostile_user fleet "$work/bob.toml" 60 --nodes 24 --node fleet
claim "a fleet of 24 nodes of one user logs in" wait_for 10 fleet_is fleet in
stop snapt1
start_snapt 1
began=$EPOCHREALTIME
wait_for 10 fleet_is fleet in
claim "it is back within 2 s of the SNAPT's restart ($(since "$began") s)" at_most "$(since "$began")" 2
claim "all of it" equal "$(snapt_json 1 sessions | json "len([s for s in d if s['user'] == 'bob'])")" 24
finish
