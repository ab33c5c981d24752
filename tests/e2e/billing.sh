#!/usr/bin/env bash
# From a price plan to a statement: usage is booked under the plan that is in use, once, also when the server is killed
# again and again meanwhile; what is booked is what the records cost.
. "$(dirname "$0")/lib.sh"
require curl
one_tunnel
mkdir "$work/www"
head -c 2000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
download() { in_ns node curl -sS -m 20 -o /dev/null "http://$inet4/file"; }
goes_through() { wait_for 20 is_node_up && download; }
is_node_up() { cnapt status --wait up --timeout 1 --socket "$work/cnapt.sock" >/dev/null 2>&1; }
money() { snapt "$@" --state "$work/s1"; }
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
month=$(date -u +%Y-%m)

claim "a first download" download
claim "without a plan in use nothing is booked" eval '! money rate >/dev/null 2>&1'
money plan add "$source_dir/packaging/config/plan.toml.example" --from 2026-01-01 >/dev/null
claim "a plan is used" money plan use standard --from 2026-01-01
money topup alice 10 --ref INV-1 >/dev/null

# --- Killed at any moment, of itself and of the command
costs() { money rate --dry-run --plan standard --by user --json | json "sum(r['net_ud'] for r in d['usage']['rows'] if r['user'] == 'alice')"; }
balance() { money balance alice --json | json "d[0]['balance_ud']"; }
for round in 1 2 3 4 5; do
    claim "a download, and then the server is killed" goes_through
    snapt_json 1 usage >/dev/null # seals
    spawn snapt1 rate snapt rate --state "$work/s1"
    sleep 0.0$round
    stop rate KILL
    stop snapt1 KILL
    start_snapt 1
done
claim "the rest is booked" money rate
claim "the balance is what was paid less what the records cost" equal "$(balance)" $((10000000 - $(costs)))
claim "which is something" more_than "$(costs)" 0
claim "again books nothing" equal "$(money rate)" "booked 0 records: 0 entries"
claim "nothing is amiss in the ledger" money verify
statement() { money statement alice --month "$month" "$@"; }
claim "the statement ends with the balance" equal "$(statement --json | json "d['closing_ud']")" "$(balance)"
claim "its lines add up" equal "$(statement --json | json "d['opening_ud'] + d['usage_ud'] + d['discount_ud'] + d['late_ud'] + sum(b['amount_ud'] for b in d['bookings'])")" "$(balance)"
claim "and as a page" eval 'statement --page | grep -q "<h1>Statement of alice"'

# --- The daemon books by itself
claim "a download, and then the server is started anew" goes_through
snapt_json 1 usage >/dev/null
stop snapt1
start_snapt 1
booked() { [ "$(balance)" = $((10000000 - $(costs))) ]; }
claim "what an earlier run left is booked at the start" wait_for 10 booked

# --- A dearer revision, from the beginning on
before=$(balance)
sed 's/^rho_denarii_per_mb = .*/rho_denarii_per_mb = 0.0/' "$source_dir/packaging/config/plan.toml.example" >"$work/plan.toml"
money plan add "$work/plan.toml" --from 2026-01-01 >/dev/null
claim "is rated again" money rate --from 2026-01-01
claim "as corrections" equal "$(balance)" $((10000000 - $(costs)))
claim "and verified" money verify
finish
