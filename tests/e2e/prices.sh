#!/usr/bin/env bash
# Two SNAPTs ask two prices under the same plan. Each tells its own: `cnapt snapts` and `usage` show it, new flows go to the cheaper
# one, and each charges by it: what was used before a price changed, by the price of then.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_billing.sh"
require curl
build_topology
start_snapt 1
start_snapt 2
add_user alice 1 2
set_price() { # set_price N PRICE : with a restart
    stop "snapt$1"
    sed -i "s/^price_mult = [0-9.]*/price_mult = $2/" "$work/snapt$1.toml"
    start_snapt "$1"
}
set_price 1 1.5
set_price 2 1.25
for n in 1 2; do
    use_flat_plan "$work/s$n" 1
done
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "web"\nmatch = { dport = 80 }\nsnapt = ["zrh-1"]\n' >"$policy_file"
start_cnapt
mkdir "$work/www"
head -c 2000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet other "$python" -m http.server 81 --bind "$inet4" --directory "$work/www"
wait_for 10 listens inet 81

are() { equal "$(cnapt_json snapts | json "' '.join('%s=%s' % (s['snapt'], s['price']) for s in d)")" "$1"; }
claim "the node knows both prices" wait_for 15 are "zrh-1=1.5 zrh-2=1.25"
shown() { COLUMNS=400 cnapt snapts --socket "$work/cnapt.sock" | grep -E "$1"; }
claim "its table has them" eval 'shown "^SNAPT .* PRICE" && shown "^zrh-1 .* 1\.5 " && shown "^zrh-2 .* 1\.25 "'

fetch() { in_ns node curl -sSf -m 20 -o /dev/null "http://$inet4:$1/file"; }
# sum N FIELD... : of alice's usage there, of records and what is booked of them.
sum() {
    local n=$1
    shift
    snapt_json "$n" usage --by user | json "sum(r[f] or 0 for r in d['rows'] for f in '$*'.split())"
}
payload() { sum "$1" payload_up payload_down; }
claim "a download that no rule names goes" fetch 81
claim "by the cheaper one" more_than "$(payload 2)" 2000000
claim "and not by the other" at_most "$(payload 1)" 100000
claim "another, as the policy says" fetch 80
claim "by the dearer one" more_than "$(payload 1)" 2000000
bill() { snapt rate --state "$work/s$1" >/dev/null; }
# costs N UD : what is booked there; each record is rounded.
costs() {
    local net records
    net=$(sum "$1" net_ud)
    records=$(snapt export --format jsonl --state "$work/s$1" | wc -l)
    echo "      zrh-$1: $net micro-denarii, $2 by the price, $records records"
    [ $((net - $2)) -le "$records" ] && [ $(($2 - net)) -le "$records" ]
}
for n in 1 2; do
    snapt_json $n usage >/dev/null # seals
    bill $n
done
first=$(payload 1)
claim "zrh-1 charges 1.5 times the plan's price" costs 1 $((first * 3 / 2))
claim "zrh-2 1.25 times" costs 2 $(($(payload 2) * 5 / 4))

# --- Another price
claim "one more by zrh-1, which is not booked yet" fetch 80
snapt_json 1 usage >/dev/null
before=$(payload 1)
claim "a price needs a restart" eval 'sed -i "s/^price_mult = [0-9.]*/price_mult = 2.0/" "$work/snapt1.toml"
    snapt reload --socket "$(snapt_socket 1)" | grep -q "needs restart: accounting.price_mult"'
stop snapt1
start_snapt 1
claim "the node is told" wait_for 20 are "zrh-1=2 zrh-2=1.25"
claim "a third one by zrh-1" wait_for 20 fetch 80
snapt_json 1 usage >/dev/null
bill 1
claim "what went before costs what it did" costs 1 $((before * 3 / 2 + ($(payload 1) - before) * 2))
for n in 1 2; do
    claim "nothing is amiss in the ledger of zrh-$n" snapt verify --state "$work/s$n"
done
tells() { cnapt usage --socket "$work/cnapt.sock" | grep -q "$1: usage costs $2 times the plan's price"; }
claim "cnapt usage has both prices" eval 'tells zrh-1 2 && tells zrh-2 1.25'
claim "and what it came to" equal "$(cnapt_json usage | json "sum(r['net_ud'] for r in d['rows'])")" $(($(sum 1 net_ud) + $(sum 2 net_ud)))
claim "snapt usage, too" eval 'snapt usage --socket "$(snapt_socket 1)" | grep -q "^usage costs 2 times the plan.s price"'
claim "and in JSON" equal "$(snapt_json 2 usage | json "d['price']")" 1.25
finish
