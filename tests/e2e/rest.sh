#!/usr/bin/env bash
# The REST interface and the web page of a SNAPT: what docs/openapi.json says is what is answered; tokens allow what
# their scope says; strangers harm nothing and are told nothing.
. "$(dirname "$0")/lib.sh"
require curl
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_topology
mkdir -p "$work/s1" "$work/www"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >/dev/null
sed -i "s|^# listen = .*|listen = [\"127.0.0.1:9348\", \"$work/rest.sock\"]|" "$work/snapt1.toml"
start_snapt 1
add_user alice
start_cnapt
head -c 500000 /dev/urandom >"$work/www/file"
http_server "$work/www"
claim "a download" in_ns node curl -sS -m 20 -o /dev/null "http://$inet4/file"
url=http://127.0.0.1:9348
month=$(date -u +%Y-%m)

tokens() { snapt token "$@" --state "$work/s1"; }
add_token() { tokens add "$@" --config "$work/snapt1.toml"; }
secret() { add_token "$@" --json | json "d['token']"; }
admin=$(secret office --scope admin)
reader=$(secret grafana --scope read)
biller=$(secret biller --scope bill)
own=$(secret alice-page --self alice)
claim "a link to the page is printed" eval "add_token alice-phone --self alice | grep -qE '^page:  $url/#token=snapt_[A-Za-z0-9_-]{43}\$'"
claim "there is a list of them" equal "$(tokens list --json | json "' '.join(sorted(t['name'] + ':' + t['scope'] for t in d))")" \
    "alice-page:self alice-phone:self biller:bill grafana:read office:admin"
claim "which has no secret" eval "! grep -rq '$admin' '$work/s1'"

# get TOKEN PATH ; status TOKEN METHOD PATH
get() { in_ns snapt1 curl -sS -m 20 -H "Authorization: Bearer $1" "$url$2"; }
status() { in_ns snapt1 curl -sS -m 20 -o /dev/null -w '%{http_code}' -X "$2" -H "Authorization: Bearer $1" -H "Idempotency-Key: k" "$url$3"; }

claim "answers are as docs/openapi.json has them, with tokens of each scope, wrong ones and none, and to a crowd" \
    in_ns snapt1 "$source_dir/tests/support/check_openapi.py" "$source_dir/docs/openapi.json" "$url" alice "$month" \
    "admin=$admin" "bill=$biller" "read=$reader" "self=$own"
claim "usage is that of the command" equal "$(get "$admin" '/v1/usage?by=user' | json "d['rows'][0]['user']")" alice
used() { [ "$(get "$1" "$2" | json "d['rows'][0]['payload_down'] >= 500000")" = True ]; }
claim "and has the download" wait_for 10 used "$admin" '/v1/usage?by=user'
claim "on the Unix socket, too" equal \
    "$(curl -sS -m 20 --unix-socket "$work/rest.sock" -H "Authorization: Bearer $reader" http://x/v1/me | json "d['snapt']")" zrh-1

spawn snapt1 pages curl -sS -Z --parallel-max 40 -o /dev/null -H "Authorization: Bearer $admin" "$url/v1/flows?after=[1-1000000]"
claim "somebody asks for many pages" wait_for 5 eval '[ "$(in_ns snapt1 ss -Htn state established "dport = :9348" | wc -l)" -ge 4 ]'
claim "and keeps nobody from metrics" equal "$(status "$reader" GET /metrics) $(status "$reader" GET '/v1/flows?after=64')" "200 200"
claim "while that goes on" is_alive pages
stop pages

# --- The user's own
claim "a user sees its usage" used "$own" '/v1/usage?by=day,class'
claim "its session" equal "$(get "$own" /v1/sessions | json "d[0]['user'], len(d)")" "('alice', 1)"
claim "its balance" equal "$(get "$own" /v1/users/alice/balance | json "d['user']")" alice
add_user bob && cp "$work/cnapt.toml" "$work/bob.toml"
for path in /v1/users/bob/balance /v1/users/nobody/balance '/v1/usage?user=bob' /v1/status /v1/flows /metrics /v1/users; do
    claim "and not $path" equal "$(status "$own" GET "$path")" 403
done
money_of_row() { get "$1" '/v1/usage?by=user' | json "d['rows'][0]['balance_ud'], d['rows'][0]['gross_ud']"; }
balance=$(get "$admin" /v1/users/alice/balance | json "d['balance_ud']")
claim "usage by user has the balance ($balance)" eval '[ "$balance" -gt 0 ] && equal "$(money_of_row "$admin")" "($balance, None)"'
claim "a reader sees no money" equal "$(money_of_row "$reader") $(status "$reader" GET /v1/users/alice/balance)" "(None, None) 403"
claim "and books none" equal "$(status "$reader" POST /v1/users/alice/topups)" 403

# --- Metrics
metrics() { get "$reader" /metrics >"$work/metrics"; }
claim "metrics are answered" metrics
claim "and count the session" grep -qx 'snapt_sessions 1' "$work/metrics"
claim "and no user" eval '! grep -q alice "$work/metrics"'
PATH=$PATH:$source_dir/build/tools/usr/bin # where ./test has unpacked it
if command -v promtool >/dev/null || [ -n "${CONTINUO_PROMTOOL-}" ]; then
    claim "promtool finds nothing" eval 'found=$(promtool check metrics <"$work/metrics" 2>&1) && equal "$found" ""'
fi

# --- The page
claim "the page is there without a token" eval "in_ns snapt1 curl -sSf -m 20 $url/ | grep -q '<main'"
claim "under 100 KB with all that it needs" at_most \
    "$(for file in "" page.css page.js charts.js; do in_ns snapt1 curl -sSf -m 20 "$url/$file"; done | wc -c)" 100000

# --- Strangers
refusal=$(in_ns snapt1 curl -sS -m 20 "$url/v1/status")
claim "a stranger is refused" equal "$refusal" '{"type":"about:blank","title":"Unauthorized","status":401}'
for path in /v1/users/alice/balance /nothing "/$(printf 'a%.0s' {1..3000})" '/v1/status%00'; do
    claim "with the same words for ${path:0:30}" equal "$(in_ns snapt1 curl -sS -m 20 "$url$path")" "$refusal"
done
claim "a wrong token, too" equal "$(get "${admin%?}x" /v1/status)" "$refusal"
fuzzed=$(in_ns snapt1 "$source_dir/tests/support/rest_attack.py" fuzz 127.0.0.1 9348 1000)
claim "1000 fuzzed requests get refusals alone ($fuzzed)" eval '! grep -qE "\b[23][0-9][0-9]\b" <<<"$fuzzed"'
claim "and the daemon goes on" equal "$(status "$admin" GET /v1/status)" 200
# --- Owners of a token: what they may is done or refused, and no money moves
snapt topup alice 50 --ref INV-1 --state "$work/s1" >/dev/null
books() { "$python" -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=10) as ledger:
    print(ledger.execute("SELECT count(*), sum(amount_ud) FROM ledger").fetchall(), ledger.execute("SELECT * FROM balance").fetchall())' "$work/s1/ledger.db"; }
accounts() { for user in alice bob; do get "$admin" "/v1/users/$user/balance"; done; }
money=$(books) balances=$(accounts)
claim "there is money to lose" eval '! grep -q None <<<"$money"'
for scope in self bill; do
    token=$([ $scope = self ] && echo "$own" || echo "$biller")
    fuzzed=$(in_ns snapt1 "$source_dir/tests/support/rest_attack.py" own 127.0.0.1 9348 1000 <<<"$token")
    claim "1000 fuzzed requests with a token of scope $scope: some are answered ($fuzzed)" eval 'grep -q "\b200\b" <<<"$fuzzed"'
    claim "none fails inside" eval '! grep -q "\b500\b" <<<"$fuzzed"' # 503: more at once than a token may have
    claim "no entry was booked" equal "$(books)" "$money"
    claim "no balance is another" equal "$(accounts)" "$balances"
    claim "the ledger is whole" snapt verify --state "$work/s1"
done
claim "a topup by the same token is booked" equal "$(in_ns snapt1 curl -sS -m 20 -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $biller" \
    -H "Idempotency-Key: k" -d '{"amount": "5"}' "$url/v1/users/alice/topups")" 200
claim "and seen" eval '[ "$(books)" != "$money" ]'
money=$(books)
guessed=$(in_ns snapt1 "$source_dir/tests/support/rest_attack.py" guess 127.0.0.1 9348 1000 <<<"$admin")
claim "1000 requests with tokens that are nearly right are refused, with the same words" equal "$guessed" "401 $refusal"
claim "and book nothing" equal "$(books)" "$money"
spawn snapt1 loris "$source_dir/tests/support/rest_attack.py" loris 127.0.0.1 9348 200 20
sleep 2 # until it holds what it can
for round in 1 2 3; do
    claim "beside slow requests others are answered" equal "$(in_ns snapt1 curl -sS -m 3 -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $reader" "$url/v1/status")" 200
done
claim "and the tunnel goes on" in_ns node curl -sS -m 20 -o /dev/null "http://$inet4/file"
stop loris
claim "nothing that was asked is in the log" eval "! grep -qE 'snapt_A|$admin' '$work/snapt1.log'"

# --- Ends
session=$(get "$admin" /v1/sessions | json "d[0]['session_id']")
claim "only an administrator ends a session" equal "$(status "$reader" DELETE "/v1/sessions/$session")" 403
claim "who does" equal "$(status "$admin" DELETE "/v1/sessions/$session")" 204
claim "and the node is told" wait_for 5 grep -q "the operator ended the session" "$work/cnapt.log"
claim "it is logged as the operator's" wait_for 5 grep -q 'session_end user=alice .* reason=ended_by_operator ' "$work/snapt1.log"
tokens remove grafana >/dev/null
claim "a token that is removed is refused at once" equal "$(status "$reader" GET /v1/status)" 401
snapt user remove alice --socket "$(snapt_socket 1)" >/dev/null
claim "so is that of a user who was removed" equal "$(status "$own" GET /v1/me)" 401
claim "nothing is amiss in the ledger" snapt verify --state "$work/s1"
finish
