#!/usr/bin/env bash
# A download goes on over ten changes of the node's address in a row, within a gateway and between gateways.
. "$(dirname "$0")/lib.sh"
require curl ping tc
build_topology
start_snapt 1
add_user alice
start_cnapt

size=56000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
ip netns exec "$(ns core)" tc qdisc add dev inet root handle 1: tbf rate 100mbit burst 64kb latency 40ms
ip netns exec "$(ns inet)" tc qdisc add dev eth root handle 1: tbf rate 24mbit burst 64kb latency 40ms

exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 20 arrived 2000000
in_ns node ping -n -q -c 20 -i 0.05 -W 2 $inet4 >"$work/ping.out"
rtt=$(sed -n 's/^rtt [^=]*= [0-9.]*\/\([0-9.]*\)\/.*/\1/p' "$work/ping.out")

host=10
for gateway in 1 2 2 1 1 2 1 2 2 1; do
    host=$((host + 1))
    have=$(tail -n 1 "$work/arrivals" | cut -d' ' -f2)
    move $gateway $host
    # Data again after the move, and a second's worth of it, before the next one.
    wait_for 10 arrived $((have + 3500000))
done
wait "$download"

claim "ten moves were made" equal "$(wc -l <"$work/moves")" 10
claim "the download is whole and right" equal "$(cat "$work/result")" "$size $sum"
claim "curl had nothing to complain about" equal "$(cat "$work/curl.log")" ""
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
"$python" "$support_dir/gaps.py" "$work/arrivals" "$work/moves" >"$work/gaps"
echo "      round trip under load ${rtt:-?} ms; per move: silence, the link's own outage, the rest (ms)"
awk '{ print "     ", $1, $2, $3 }' "$work/gaps"
within_bound() { at_most "$(sed -n 's/^median //p' "$work/gaps")" "$("$python" -c "print(${rtt:-0} + 50)")"; }
claim "the median silence is at most one round trip and 50 ms" within_bound
logged() { grep -cE '^[0-9-]{10}T[0-9:.]{12}Z zrh-1: moved from up[12] 192\.168\.[12]\.[0-9]+ to up[12] 192\.168\.[12]\.[0-9]+, interrupted for [0-9]+ ms$' "$work/cnapt.log"; }
claim "cnapt logged them" more_than "$(logged)" 4
claim "cnapt counted the handovers" more_than "$(cnapt_json status | json 'd["handovers"]["count"]')" 4
finish
