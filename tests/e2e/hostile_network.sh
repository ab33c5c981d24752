#!/usr/bin/env bash
# What the network of an uplink can do to the node: packets forged to cnapt0's addresses, and routes that lead flows past the
# tunnel.
. "$(dirname "$0")/lib.sh"
require curl socat
build_topology
ipv6_beside 1
new_namespace lan1
connect lan1 eth node br-lan
address lan1 eth 192.168.50.11/24 fd50::11/64
address node br-lan 192.168.50.1/24 fd50::1/64
ip -n "$(ns lan1)" route add default via 192.168.50.1
ip -n "$(ns lan1)" -6 route add default via fd50::1
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
mkdir "$work/www"
echo small >"$work/www/small"
http_server "$work/www"

# --- Packets to cnapt0's addresses, which every neighbour knows

inner4=192.0.0.5 inner6=fd43:6f6e:7469::1
ip -n "$(ns gw1)" route add $inner4 via 192.168.1.2
ip -n "$(ns gw1)" -6 route add $inner6 via 2001:db8:11::2
spawn node heard socat -u UDP6-RECV:7000,ipv6-v6only=0 -
wait_for 5 listens node 7000
in_ns node sysctl -qw net.ipv4.conf.all.rp_filter=0
forge() { in_ns "$1" "$python" "$support_dir/attack.py" forge "$2" 53 "$3" 7000 "$4
"; }
injected() { in_ns node nft -j list counter inet continuo_cnapt_cnapt0 injected | json '[o["counter"]["packets"] for o in d["nftables"] if "counter" in o][0]'; }
# In the server's name. What follows to an address of the node's own is heard, so that the rest would have been heard before.
nothing_forged_is_heard() { # nothing_forged_is_heard RP_FILTER
    local before
    before=$(injected)
    turn=$((turn + 1))
    in_ns node sysctl -qw "net.ipv4.conf.up1.rp_filter=$1" "net.ipv4.conf.br-lan.rp_filter=$1"
    forge gw1 $inet4 $inner4 forged
    forge gw1 $inet6 $inner6 forged
    forge lan1 192.168.50.11 $inner4 forged
    forge lan1 fd50::11 $inner6 forged
    forge gw1 $inet4 192.168.1.2 "plain4-$turn" && forge gw1 $inet6 2001:db8:11::2 "plain6-$turn" || return
    wait_for 5 grep -q "plain4-$turn" "$work/heard.log" && wait_for 5 grep -q "plain6-$turn" "$work/heard.log" || return
    equal "$(grep -c forged "$work/heard.log")" 0 && equal "$(($(injected) - before))" 4
}
turn=0
start_snapt 1
add_user alice
stop snapt1
set_capture 'gateway_interfaces = ["br-lan"]'
run_cnapt
has_addresses() { ip -n "$(ns node)" addr show dev cnapt0 | grep -q $inner4 && ip -n "$(ns node)" addr show dev cnapt0 | grep -q $inner6; }
wait_for 10 has_addresses || { echo "cnapt0 has no addresses"; exit 1; }
wait_for 10 in_ns gw1 ping -n -c 1 -W 1 2001:db8:11::2
for filter in 0 2; do
    claim "without a SNAPT forged packets are dropped, rp_filter $filter" nothing_forged_is_heard $filter
done
start_snapt 1
wait_cnapt || { echo "cnapt did not come up"; exit 1; }
for filter in 0 2; do
    claim "with one they are, too, rp_filter $filter" nothing_forged_is_heard $filter
done
from() { # from NS EXPECTED HOST : the server sees the request come from there
    equal "$(in_ns "$1" curl -sS -m 5 "http://$3/small")" small && equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" "$2"
}
tunnelled4=::ffff:198.51.100.2 tunnelled6=2001:db8:1::2
for space in node lan1; do
    claim "answers to $space come in by the tunnel" from $space $tunnelled4 $inet4
    claim "over IPv6, too" from $space $tunnelled6 "[$inet6]"
done
finish
