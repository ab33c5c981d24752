#!/usr/bin/env bash
# Uplinks without an address of their own: PPPoE with a delegated prefix (IPv6; the address is on the bridge of the LAN), and an
# unnumbered link (IPv4; the address is on a bridge that came after cnapt0, so that the kernel itself would take cnapt0's).
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
ip -n "$(ns node)" -4 addr flush dev up1
size=3000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
mkdir -p "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public '198.51.100.2:9347,[2001:db8:1::2]:9347' >"$work/snapt1.log" 2>&1
start_snapt 1
add_user alice

local_address() { cnapt_json paths | json "','.join(p['interface'] + ' ' + p['local'] for p in d if p['active'])"; }
sends_with() { equal "$(local_address)" "$1"; }
doctor_says() {
    in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" >"$work/said"
    tr -s ' \n' ' ' <"$work/said" | grep -F "$1" >"$work/found" || { cat "$work/said"; return 1; }
}
# tunnelled HOST FROM : the server sees the request come from the SNAPT.
tunnelled() { in_ns node curl -gsf -m 5 -o /dev/null "http://$1/file" && equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" "$2"; }

# --- PPPoE: the provider and the node know each other by link-local addresses, and 2001:db8:11::/64 is the node's

ip -n "$(ns node)" link add br-lan type bridge
ip -n "$(ns node)" link set br-lan up
link_local() { ip -n "$(ns "$1")" -6 -o addr show dev "$2" scope link | sed 's/.*inet6 \([^/]*\).*/\1/'; }
has_link_local() { [ -n "$(link_local "$1" "$2")" ]; }
wait_for 5 has_link_local node up1 && wait_for 5 has_link_local gw1 lan || { echo "no link-local addresses"; exit 1; }
address gw1 wan 2001:db8:21::2/64
address core gw1 2001:db8:21::1/64
in_ns gw1 sysctl -qw net.ipv6.conf.all.forwarding=1
ip -n "$(ns gw1)" -6 route add default via 2001:db8:21::1
for prefix in 2001:db8:11 2001:db8:12; do
    ip -n "$(ns core)" -6 route add $prefix::/64 via 2001:db8:21::2
    ip -n "$(ns gw1)" -6 route add $prefix::/64 via "$(link_local node up1)" dev lan
done
address node br-lan 2001:db8:11::1/64
ip -n "$(ns node)" -6 route add default via "$(link_local gw1 lan)" dev up1
claim "PPPoE: the plain host reaches the Internet" wait_for 5 in_ns node ping -n -c 1 -W 1 2001:db8:1::2
run_cnapt
claim "PPPoE: the tunnel comes up" wait_cnapt
claim "it sends with the address of the delegated prefix" sends_with "up1 2001:db8:11::1"
claim "IPv4 goes through the tunnel" tunnelled $inet4 ::ffff:198.51.100.2
claim "IPv6, too" tunnelled "[$inet6]" 2001:db8:1::2
claim "doctor names it" doctor_says 'up1 has no IPv6 address of its own: it sends with 2001:db8:11::1 of br-lan'

# The provider delegates another prefix.
before=$(session)
exec_in_ns node curl -sS -m 60 --limit-rate 1M "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 1000000
address node br-lan 2001:db8:12::1/64
ip -n "$(ns node)" addr del 2001:db8:11::1/64 dev br-lan
claim "another prefix is followed" wait_for 10 sends_with "up1 2001:db8:12::1"
wait "$download"
claim "a download goes on over it" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "in the same session" equal "$(session)" "$before"

# No address at all, then one of its own.
ip -n "$(ns node)" addr del 2001:db8:12::1/64 dev br-lan
claim "without any address doctor says what to do" doctor_says 'up1 has no IPv6 address of its own, and no other interface has one for it'
claim "nothing is borrowed then" equal "$(cnapt_json paths)" "[]"
address node up1 2001:db8:11::9/64
claim "an address of its own is used when it comes" wait_for 10 sends_with "up1 2001:db8:11::9"
stop cnapt
ip -n "$(ns node)" -6 route flush default
ip -n "$(ns node)" -6 addr flush dev up1 scope global

# --- An unnumbered link: 192.0.2.200 is the node's, wherever it is

ip -n "$(ns gw1)" route add 192.0.2.200/32 dev lan
unnumbered() {
    run_cnapt
    wait_for 10 eval 'ip -n "$(ns node)" addr show dev cnapt0 | grep -q 192.0.0.5'
    ip -n "$(ns node)" link add br0 type bridge
    ip -n "$(ns node)" link set br0 up
    address node br0 192.0.2.200/32
    ip -n "$(ns node)" route replace default via 192.168.1.1 dev up1 onlink
}
source_of_kernel() { ip -n "$(ns node)" route get 198.51.100.2 mark 0x1034 oif up1 | sed -n 's/.* src \([^ ]*\).*/\1/p'; }
unnumbered
claim "unnumbered: the kernel would send with cnapt0's address" equal "$(source_of_kernel)" 192.0.0.5
claim "unnumbered: the tunnel comes up" wait_cnapt
claim "it sends with the address of the other interface" sends_with "up1 192.0.2.200"
claim "IPv4 goes through the tunnel" tunnelled $inet4 ::ffff:198.51.100.2
claim "IPv6, too" tunnelled "[$inet6]" 2001:db8:1::2
claim "doctor names it" doctor_says 'up1 has no IPv4 address of its own: it sends with 192.0.2.200 of br0'
stop cnapt
ip -n "$(ns node)" link del br0
set_capture 'kill_switch = true'
# Counts packets of the node that are not for the SNAPT's port.
in_ns gw1 nft 'add table inet seen; add counter inet seen plain; add chain inet seen in { type filter hook prerouting priority 0; };
    add rule inet seen in iifname lan meta nfproto ipv4 ip daddr != 198.51.100.2 counter name plain;
    add rule inet seen in iifname lan ip daddr 198.51.100.2 meta l4proto { tcp, udp } th dport != 9347 counter name plain'
seen() { in_ns gw1 nft list counter inet seen plain | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
unnumbered
claim "with the kill switch, too" wait_cnapt
claim "IPv4 goes through the tunnel" tunnelled $inet4 ::ffff:198.51.100.2
in_ns node ping -n -c 1 -W 1 -I up1 $inet4
claim "and nothing goes plain" equal "$(seen)" 0
finish
