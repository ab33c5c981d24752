#!/usr/bin/env bash
# Attacks by the network of an uplink on the node: packets forged to cnapt0's addresses, and routes that lead flows past the tunnel.
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

inner4=192.0.0.5 inner6=64:ff9b:1::c000:5
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
stop cnapt

# --- Routes that lead past the tunnel

# A VPN of the host's own, with routes to public destinations; and a host in the server's name beside the uplink's gateway.
new_namespace vpn
vpn_end() { spawn "$1" "vpn-$1" socat "TUN,tun-name=vpn0,tun-type=tun,iff-no-pi" "UNIX-SENDTO:$work/vpn.$2,bind=$work/vpn.$1"; }
vpn_end node vpn
vpn_end vpn node
for space in node vpn; do
    wait_for 5 test -S "$work/vpn.$space" || { echo "no end of the VPN in $space"; exit 1; }
done
for space in node vpn; do ip -n "$(ns $space)" link set vpn0 up; done
address node vpn0 10.8.0.2/24 fd08::2/64
address vpn vpn0 10.8.0.1/24 fd08::1/64 198.51.100.200/32 2001:db8:77::1/128
ip -n "$(ns node)" route add 198.51.100.128/25 dev vpn0 src 10.8.0.2
ip -n "$(ns node)" -6 route add 2001:db8:77::/48 dev vpn0 src fd08::2
mkdir "$work/evil" "$work/vpn"
echo evil >"$work/evil/small"
echo vpn >"$work/vpn/small"
spawn gw1 evil "$python" "$support_dir/http_server.py" --directory "$work/evil" --port 80
spawn vpn vpn "$python" "$support_dir/http_server.py" --directory "$work/vpn" --port 80
wait_for 10 listens gw1 80 && wait_for 10 listens vpn 80
# Plain packets of this host to the server or the VPN over the uplinks, except cnapt's own to a SNAPT (the kernel's resets of its
# connections have no mark).
in_ns node nft 'add table inet plain; add counter inet plain past; add chain inet plain out { type filter hook output priority 300; };
    add rule inet plain out tcp flags & rst == rst return;
    add rule inet plain out meta mark != 0x1034 oifname { "up1", "up2" } ip daddr { 203.0.113.10, 198.51.100.200 } counter name past;
    add rule inet plain out meta mark != 0x1034 oifname { "up1", "up2" } ip6 daddr { 2001:db8:3::10, 2001:db8:77::1 } counter name past'
past() { in_ns node nft -j list counter inet plain past | json '[o["counter"]["packets"] for o in d["nftables"] if "counter" in o][0]'; }
body() { equal "$(in_ns node curl -sS -m 5 "http://$2/small")" "$1"; } # body EXPECTED HOST
tunnelled() {
    local space
    for space in node lan1; do from $space $tunnelled4 $inet4 && from $space $tunnelled6 "[$inet6]" || return; done
    equal "$(past)" 0
}
by_vpn() { body vpn 198.51.100.200 && body vpn "[2001:db8:77::1]" && equal "$(past)" 0; }
routes() { # routes add|del PREFIX4... -- PREFIX6... : over the uplink's gateway
    local verb=$1 version=-4 gateway=192.168.1.1 prefix
    shift
    for prefix in "$@"; do
        [ "$prefix" != -- ] || { version=-6 gateway=2001:db8:11::1; continue; }
        ip -n "$(ns node)" $version route "$verb" "$prefix" via $gateway dev up1 || return
    done
}

# One name of the SNAPT leads to the server: only what cnapt itself sends goes there.
etc=/etc/netns/$(ns node)
mkdir -p "$etc" || skip "cannot write to /etc/netns"
trap 'status=$?; rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
echo "$inet4 liar.example.org" >"$etc/hosts"
: >"$etc/resolv.conf"
sed -i 's/^addresses = \["198.51.100.2:9347"/&, "liar.example.org:9347"/' "$work/cnapt.toml"
groups() { ip -n "$(ns node)" -o link show | sed 's/.* group \([^ ]*\) .*/\1/' | sort | uniq -c; }
groups >"$work/groups"
start_cnapt
claim "with a SNAPT's name that leads to it the server is reached through the tunnel" tunnelled
claim "what a VPN has a route to goes by the VPN" wait_for 5 by_vpn

routes add 0.0.0.0/1 128.0.0.0/1 -- ::/1 8000::/1
claim "a default route in parts leads nobody past the tunnel" tunnelled
claim "nor takes what the VPN has a route to" by_vpn
routes add $inet4/32 198.51.100.200/32 -- $inet6/128 2001:db8:77::1/128
claim "nor does a route to the server alone" tunnelled
reaches_vpn_plain() { in_ns node curl -sS -m 1 -o /dev/null "http://$1/small"; }
taken_from_vpn() { ! reaches_vpn_plain 198.51.100.200 && ! reaches_vpn_plain "[2001:db8:77::1]" && equal "$(past)" 0; }
claim "a route inside that of the VPN leads nothing out of the uplink" taken_from_vpn
routes del 0.0.0.0/1 128.0.0.0/1 $inet4/32 198.51.100.200/32 -- ::/1 8000::/1 $inet6/128 2001:db8:77::1/128
claim "afterwards the VPN has its traffic again" by_vpn

# A second network that was not even asked for a default route.
lease() { ip -n "$(ns node)" addr "$1" "$2" dev up2 "${@:3}"; }
for lifetime in 600 forever; do
    for own in 203.0.113.99/8 2001:db8:3::99/48; do lease add $own valid_lft $lifetime preferred_lft $lifetime; done
    claim "nor does that of another uplink, without a default route there, leased for $lifetime" tunnelled
    for own in 203.0.113.99/8 2001:db8:3::99/48; do lease del $own; done
done
ip -n "$(ns node)" -6 route flush 2001:db8:3::/48 dev up2

# The network says that the server is in it, and somebody there answers.
address gw1 lan 203.0.113.10/32 203.0.113.78/32 2001:db8:3::10/128
ip -n "$(ns gw1)" route add 203.0.113.77/32 dev lan
ip -n "$(ns gw1)" -6 route add 2001:db8:3::77/128 dev lan
address node up1 203.0.113.77/8 2001:db8:3::77/48
claim "a server that the network claims as its own is reached through the tunnel" tunnelled
ip -n "$(ns node)" route replace default via 203.0.113.78 dev up1
claim "also when the gateway has a public address" tunnelled
spawn node inbound socat TCP4-LISTEN:7001,fork,reuseaddr EXEC:'echo answered'
wait_for 5 listens node 7001
inbound() { equal "$(in_ns gw1 socat -T 2 - "TCP4:$1:7001,bind=$2" </dev/null)" answered; }
claim "a neighbour with a public address is answered" inbound 203.0.113.77 203.0.113.78
claim "and one with a private address" inbound 192.168.1.2 192.168.1.1
# The SNAPT itself is said to be there: proxy ARP hands on what is meant for it.
in_ns gw1 sysctl -qw net.ipv4.conf.lan.proxy_arp=1 net.ipv4.neigh.lan.proxy_delay=0
address node up1 198.51.100.3/29
claim "a SNAPT that is in the uplink's own network is reached" tunnelled
stop cnapt
claim "after the end the host is as it was" diff "$work/groups" <(groups)

# Destinations that the configuration names stay near, if a route says so.
set_capture "near = [\"$inet4/32\", \"$inet6/128\"]"
start_cnapt
claim "what is listed as near stays in the network of the uplink" body evil $inet4
claim "over IPv6, too" body evil "[$inet6]"
ip -n "$(ns node)" addr del 203.0.113.77/8 dev up1
ip -n "$(ns node)" -6 addr del 2001:db8:3::77/48 dev up1
ip -n "$(ns node)" route replace default via 192.168.1.1 dev up1
claim "and is tunnelled where no route says so" from node $tunnelled4 $inet4
claim "over IPv6, too" from node $tunnelled6 "[$inet6]"
finish
