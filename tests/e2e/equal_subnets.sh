#!/usr/bin/env bash
# Two uplinks that look alike: at both the gateway is 192.168.1.1, and the node 192.168.1.2/24, as with two boxes of the same
# maker. Each is used for itself, and a download moves between them in both directions, for every reason there is.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
address gw2 lan 192.168.1.1/24
ip -n "$(ns gw2)" addr del 192.168.2.1/24 dev lan
# As Debian sets it: what comes in need not come from where the best route leads.
in_ns node sysctl -qw net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.default.rp_filter=2
node_lines() {
    echo "addr add 192.168.1.2/24 dev up$1"
    echo "route add default via 192.168.1.1 dev up$1 metric $2"
}
ip -n "$(ns node)" route flush default
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 metric 100
node_lines 2 200 | ip -n "$(ns node)" -batch -
start_snapt 1
add_user alice
start_cnapt
first=$(session)

mkdir "$work/www"
size=120000000
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 170 --limit-rate 2000k "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
exec_in_ns node ping -n -D -i 0.1 -W 1 $inet4 >"$work/ping.out" &
pinging=$!
wait_for 10 arrived 1000000
claim "the uplink of the smaller metric is in use" is_active up1
both_listed() { cnapt_json paths | json_true "[(p['interface'], p['local']) for p in d] == [('up1', '192.168.1.2'), ('up2', '192.168.1.2')]"; }
claim "both are uplinks, with the same address" both_listed

# Bytes that the SNAPT gets through each gateway: only the path in use carries any.
through() { in_ns "gw$1" cat /sys/class/net/wan/statistics/rx_bytes; }
carries() { [ "$(through "$1")" -gt "$2" ]; }
# goes_over N : the download goes on over uplink N, and over that alone. Its reader may have some megabytes to take that came before.
goes_over() {
    local other=$((3 - $1)) bytes before beside
    is_active "up$1" || return
    bytes=$(have) before=$(through "$1") beside=$(through "$other")
    wait_for 20 carries "$1" $((before + 1500000)) && wait_for 20 arrived $((bytes + 2000000)) || return
    beside=$(($(through "$other") - beside))
    at_most $beside 30000
}
control_works() { timeout 2 cnapt usage --socket "$work/cnapt.sock" >/dev/null 2>&1; }
# expect_move N SECONDS TEXT
expect_move() {
    claim "$3" wait_for "$2" is_active "up$1"
    claim "and the download goes on there" goes_over "$1"
    claim "and the control link too" wait_for 15 control_works
}
metric() { ip -n "$(ns node)" route del default via 192.168.1.1 dev "up$1"; ip -n "$(ns node)" route add default via 192.168.1.1 dev "up$1" metric "$2"; }

metric 2 50
expect_move 2 5 "a better metric of the second moves the session there"
metric 2 200
expect_move 1 5 "and back"

swallow() { in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }"; }
swallow 1
expect_move 2 10 "so does silence of the first"
in_ns gw1 nft delete table inet hole
expect_move 1 70 "and back when it delivers again"

ip -n "$(ns node)" addr del 192.168.1.2/24 dev up1
expect_move 2 5 "so does an address that goes"
node_lines 1 100 | ip -n "$(ns node)" -batch -
expect_move 1 5 "and back when it comes"

ip -n "$(ns gw1)" link set lan down
expect_move 2 3 "a cable that is pulled is left at once"
pulled() { cnapt_json paths | json_true "[(p['carrier'], p['state']) for p in d if p['interface'] == 'up1'] == [(False, 'dead')]"; }
claim "and shown as dead and without carrier" pulled
ip -n "$(ns gw1)" link set lan up
expect_move 1 5 "and back when it is plugged"

wait "$download"
kill -INT "$pinging" && wait "$pinging"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "the session is still the first" equal "$(session)" "$first"
sed -n '/packets transmitted/s/^/      ping: /p' "$work/ping.out"
finish
