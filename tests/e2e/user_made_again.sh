#!/usr/bin/env bash
# A user that is removed and made again is another account: it begins at zero, with other addresses, and the old device is
# out. With the daemon running, and offline after its crash, over IPv6. Its money is its own, too.
. "$(dirname "$0")/lib.sh"
require curl
build_topology
start_snapt 1
add_user alice
user() { snapt user "$@" --socket "$(snapt_socket 1)"; }
offline() { user "$@" --config "$work/snapt1.toml" --state "$work/s1"; }
total() { snapt_json 1 usage | json "sum(r['payload_down'] for r in d['rows'])"; }
rows() { snapt_json 1 usage --by user | json "[(r['user'], r['removed'] is None) for r in d['rows']]"; }
of() { snapt_json 1 usage --by user | json "sum(r['payload_down'] for r in d['rows'] if r['account'] == $1)"; }
account() { user list --json | json "next(u['account'] for u in d if u['user'] == 'bob')"; }
leases() { snapt_json 1 sessions | json "[(s['inner_ipv4'], s['inner_ipv6']) for s in d]"; }
own() { cnapt_json usage | json "sum(r['payload_down'] for r in d['rows'])"; }
has() { stat -c %s "$1"; }

user add bob --quota 50MiB/month >"$work/cnapt.toml"
first=$(account)
snapt topup bob 50 --ref INV-1 --state "$work/s1" >"$work/paid"
start_cnapt
had=$(leases)
mkdir "$work/www"
head -c 3000000 /dev/urandom >"$work/www/f"
http_server "$work/www"
in_ns node curl -sS -m 20 -o /dev/null "http://$inet4/f"

# --- Removed while its device loads something, and made again
spawn node slow curl -sSN -m 60 -o "$work/slow" "http://$inet4/f?rate=500000"
wait_for 10 test -s "$work/slow"
user remove bob >"$work/removed"
no_sessions() { equal "$(snapt_json 1 sessions | json 'len(d)')" 0; }
claim "the session ends" wait_for 5 no_sessions
before=$(total)
got=$(has "$work/slow")
user add bob >"$work/new.toml"
second=$(account)
claim "the account has another id" eval '[ "$first" != "$second" ]'
claim "and no quota" json_true "all(u['quota_bytes'] is None for u in d)" < <(user list --json)
claim "the old device is told to stay away" wait_for 10 grep -q 'has ended the session' "$work/cnapt.log"
claim "its download has stopped" equal "$(has "$work/slow")" "$got"
stop slow
in_ns node ss -K dst $inet4 >/dev/null  # what it has to say yet is not for an uplink
stop cnapt
run_cnapt
claim "its key is not let in again" wait_for 10 grep -q 'login_refused user=bob key_id=k1' "$work/snapt1.log"
claim "the totals are what they were" equal "$(total)" "$before"
stop cnapt

cp "$work/new.toml" "$work/cnapt.toml"
rm -rf "$work/c"
start_cnapt
claim "the new device has other addresses" eval '[ "$(leases)" != "$had" ]'
claim "the new account begins at zero" at_most "$(own)" 1000
in_ns node curl -sS -m 20 -o /dev/null "http://[$inet6]/f"
has_own() { own=$(own); [ "$own" -gt 3000000 ]; }
claim "and counts what is its own" wait_for 5 has_own
claim "and nothing else" at_most "$own" 3100000
claim "the operator sees two" equal "$(rows)" "[('bob', False), ('bob', True)]"
claim "in words, too" grep -qE "^bob \(removed $(date -u +%F)\) " <(snapt usage --by user --socket "$(snapt_socket 1)")
claim "both by their name" equal "$(snapt_json 1 usage --user bob | json "d['rows'][0]['payload_down']")" "$(total)"

# --- The process dies under its session; removed and made again while none runs
sealed=$(of "$second")
spawn node six curl -sSN -m 60 -o "$work/six" "http://[$inet6]/f?rate=500000"
wait_for 10 test -s "$work/six"
stop snapt1 KILL
offline remove bob >"$work/removed"
offline add bob >"$work/third.toml"
stop six
stop cnapt
start_snapt 1
third=$(account)
claim "the third account has another id" eval '[ "$third" != "$second" ] && [ "$third" != "$first" ]'
claim "what was recovered is the second's" more_than "$(of "$second")" "$sealed"
claim "and not the third's" equal "$(of "$third")" 0
cp "$work/third.toml" "$work/cnapt.toml"
rm -rf "$work/c"
start_cnapt
claim "which begins at zero" at_most "$(own)" 1000
claim "what was paid is the first account's" equal "$(snapt balance bob --json --state "$work/s1" | json "[(b['account'], b['balance_ud']) for b in d]")" \
    "[($first, 50000000), ($third, 0)]"
claim "records and bookings are as they were written" snapt verify --state "$work/s1"
finish
