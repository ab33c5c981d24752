#!/usr/bin/env bash
# On a link without loss the byte counts of cnapt, snapt, the usage records and the receiver are the same.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_tally.sh"
require ethtool
one_tunnel

tally_at_router

spawn inet sink "$python" "$support_dir/exchange.py" server 7000
wait_for 10 listens inet 7000
spawn node exchange "$python" "$support_dir/exchange.py" client 7000 "$work/exchanged" $inet4 $inet6
wait_for 60 test -s "$work/exchanged"
read -r sent received <"$work/exchanged" || true
claim "the exchange of bytes was complete" test -n "${received-}"

field() { json "sum(f['$1'] for f in d)"; }
usage() { snapt_json 1 usage --by user | json "sum(r['$1'] for r in d['rows'] if r['user']=='alice')"; }
settled() { # the connections are open and silent: nothing moves any more
    local before
    before="$(metered up) $(metered down) $(cnapt_json flows | field packets_up)"
    sleep 0.3
    [ "$before" = "$(metered up) $(metered down) $(cnapt_json flows | field packets_up)" ]
}
wait_for 10 settled

read -r up_packets up_bytes <<<"$(metered up)"
read -r down_packets down_bytes <<<"$(metered down)"
cnapt_json flows >"$work/cnapt.json"
snapt_json 1 flows >"$work/snapt.json"
echo "      up $up_packets packets $up_bytes bytes, down $down_packets packets $down_bytes bytes at the router"
for end in cnapt snapt; do
    claim "$end counts the packets up" equal "$(field packets_up <"$work/$end.json")" "$up_packets"
    claim "$end counts the packets down" equal "$(field packets_down <"$work/$end.json")" "$down_packets"
    claim "$end counts the bytes up" equal "$(field inner_bytes_up <"$work/$end.json")" "$up_bytes"
    claim "$end counts the bytes down" equal "$(field inner_bytes_down <"$work/$end.json")" "$down_bytes"
done
claim "the usage records have the bytes up" equal "$(usage inner_up)" "$up_bytes"
claim "the usage records have the bytes down" equal "$(usage inner_down)" "$down_bytes"
# TCP may send a segment twice although nothing was lost; the second one passed the link, too.
sent_twice() { in_ns "$1" ss -Htin "$2" | grep -o 'bytes_retrans:[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }'; }
claim "payload up is what the receiver got" equal "$(usage payload_up)" $((${sent:-0} + $(sent_twice node "dport = :7000")))
claim "payload down is what the node got" equal "$(usage payload_down)" $((${received:-0} + $(sent_twice inet "sport = :7000")))
by_class() { equal "$(snapt_json 1 usage --by class | json "sum(r['inner_up'] + r['inner_down'] for r in d['rows'])")" $((up_bytes + down_bytes)); }
claim "the classes add up to it" by_class
top() { snapt_json 1 top --by "$1" | json "sum(r['$2'] for r in d['rows'] if r.get('user', 'alice') == 'alice')"; }
for by in user class user,class; do
    claim "top by $by has the bytes up" equal "$(top $by up_bytes)" "$up_bytes"
    claim "and down" equal "$(top $by down_bytes)" "$down_bytes"
done
claim "cnapt usage says the same" equal "$(cnapt_json usage | json "sum(r['inner_up'] for r in d['rows'])")" "$up_bytes"
finish
