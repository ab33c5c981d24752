#!/usr/bin/env bash
# Containers behind bridges of the node, IPv4 and IPv6. Without LAN sides what they send stays beside the tunnel, and with the kill
# switch nothing of it leaves; published ports answer, and containers of one bridge reach each other. As LAN sides they are in the
# tunnel, those of bridges that come later from their first packet on. Docker's own rules stand meanwhile: what is forwarded and
# not of a bridge is dropped, and so is what is for a container's address and comes in by an uplink.
. "$(dirname "$0")/lib.sh"
require curl ping tcpdump
build_topology
ipv6_beside 1
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1

# container BRIDGE NUMBER HOST : at that bridge, which is made if need be, as Docker and libvirt make them.
container() {
    local bridge=$1 net=$2 host=$3 name=c$2$3
    if ! ip -n "$(ns node)" link show "$bridge" >/dev/null 2>&1; then
        ip -n "$(ns node)" link add "$bridge" type bridge
        ip -n "$(ns node)" link set "$bridge" up
        address node "$bridge" "172.$net.0.1/16" "2001:db8:11:$net::1/64"
        in_ns node nft "add rule ip docker post ip saddr 172.$net.0.0/16 oifname != \"$bridge\" masquerade"
        in_ns node nft "add rule inet docker_filter forward oifname \"$bridge\" ct state established,related accept;
            add rule inet docker_filter forward iifname \"$bridge\" accept"
    fi
    new_namespace "$name"
    connect node "v$name" "$name" eth
    ip -n "$(ns node)" link set "v$name" master "$bridge"
    address "$name" eth "172.$net.0.$host/16" "2001:db8:11:$net::$host/64"
    ip -n "$(ns "$name")" route add default via "172.$net.0.1"
    ip -n "$(ns "$name")" -6 route add default via "2001:db8:11:$net::1"
    mkdir -p "$work/$name"
    echo "page of $name" >"$work/$name/page"
    spawn "$name" "http-$name" "$python" "$support_dir/http_server.py" --directory "$work/$name" --port 80
    wait_for 10 listens "$name" 80
}
in_ns node nft 'add table ip docker; add chain ip docker post { type nat hook postrouting priority 100; };
    add chain ip docker pre { type nat hook prerouting priority -100; };
    add rule ip docker pre fib daddr type local tcp dport 8080 dnat to 172.17.0.2:80'
in_ns node nft 'add table inet docker_filter; add chain inet docker_filter forward { type filter hook forward priority 0; policy drop; };
    add chain inet docker_filter raw { type filter hook prerouting priority -300; };
    add rule inet docker_filter raw ip daddr 172.17.0.2 iifname != "docker0" drop;
    add rule inet docker_filter forward iifname != "docker0" oifname "docker0" tcp dport 80 accept;
    add rule inet docker_filter forward iifname "br0" accept'
in_ns gw1 nft 'add chain ip nat pre { type nat hook prerouting priority -100; }; add rule ip nat pre iifname wan tcp dport 8080 dnat to 192.168.1.2'
# The prefixes of the containers are routed to the node: IPv6 is not translated.
ip -n "$(ns gw1)" -6 route add 2001:db8:11:17::/64 via 2001:db8:11::2
ip -n "$(ns gw1)" -6 route add 2001:db8:11:18::/64 via 2001:db8:11::2
ip -n "$(ns core)" -6 route add 2001:db8:11::/48 via 2001:db8:21::2
container docker0 17 2
container docker0 17 3

# Requests to the server that the gateway sees, whoever sends them.
in_ns gw1 nft 'add table inet seen; add counter inet seen beside; add chain inet seen pre { type filter hook prerouting priority -300; };
    add rule inet seen pre iifname lan ip daddr 203.0.113.10 tcp dport 80 counter name beside;
    add rule inet seen pre iifname lan ip6 daddr 2001:db8:3::10 tcp dport 80 counter name beside;
    add rule inet seen pre iifname lan ip daddr 203.0.113.10 meta l4proto { icmp, udp } counter name beside;
    add rule inet seen pre iifname lan ip6 daddr 2001:db8:3::10 icmpv6 type echo-request counter name beside'
seen() { in_ns gw1 nft list counter inet seen beside | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
mkdir "$work/www"
echo small >"$work/www/small"
http_server "$work/www"
web() { in_ns "$1" curl -sf -m "${patience:-4}" -o /dev/null "http://$2/small"; }
both() { web "$1" $inet4 && web "$1" "[$inet6]"; }
neither() { local patience=1; ! web "$1" $inet4 && ! web "$1" "[$inet6]"; }
published() { in_ns inet curl -sf -m 4 http://192.0.2.2:8080/page | grep -q 'page of c172'; }
published6() { in_ns inet curl -gsf -m 4 'http://[2001:db8:11:17::2]/page' | grep -q 'page of c172'; }
neighbours() { in_ns c172 curl -sf -m 4 http://172.17.0.3/page && in_ns c172 curl -gsf -m 4 'http://[2001:db8:11:17::3]/page'; }
# beside COMMAND... : how many packets the gateway saw of it; the command fails, or does not.
beside() { local before; before=$(seen); "$@" >/dev/null 2>&1; echo $(($(seen) - before)); }
insists() { neither "$1"; in_ns "$1" ping -n -c 2 -i 0.2 -W 1 $inet4; in_ns "$1" ping -n -c 2 -i 0.2 -W 1 $inet6; echo x | in_ns "$1" curl -s -m 1 tftp://$inet4/x; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; }
finds() { doctor | tr '\n' ' ' | tr -s ' ' >"$work/found"; grep -qE "$1 forwarded $2" "$work/found" || { grep -o 'forwarded.*' "$work/found"; return 1; }; }

wait_for 10 both c172
claim "plain: a container fetches pages" both c172
claim "plain: its port answers, and its IPv6 address" eval 'published && published6'
claim "plain: containers of one bridge reach each other" neighbours

start_snapt 1
add_user alice
start_cnapt
claim "with cnapt: its port answers, and its IPv6 address" eval 'published && published6'
claim "with cnapt: doctor says that its traffic stays beside the tunnel" finds ok 'what comes from docker0 stays beside the tunnel'
stop cnapt

# --- The kill switch, without LAN sides

set_capture 'kill_switch = true'
start_cnapt
claim "kill switch: doctor names the bridge that gets nowhere" finds ok 'what comes from docker0 goes nowhere \(kill switch\); capture.gateway_interfaces'
claim "kill switch: no packet of a container leaves beside the tunnel" equal "$(beside insists c172)" 0
claim "kill switch: its port answers, and its IPv6 address" eval 'published && published6'
for passes in 0 1; do
    in_ns node sysctl -qw net.bridge.bridge-nf-call-iptables=$passes net.bridge.bridge-nf-call-ip6tables=$passes 2>/dev/null ||
        { echo "      no br_netfilter here"; break; }
    claim "kill switch: containers of one bridge reach each other (br_netfilter: $passes)" neighbours
done
claim "kill switch: doctor says what it has stopped, and the remedy" finds warn 'the kill switch has stopped [1-9].* packets that this host forwards, as from docker0; capture.gateway_interfaces'
container br-77 18 2
claim "kill switch: nothing of a bridge that comes later leaves" equal "$(beside insists c182)" 0
claim "kill switch: nor of one bridge to another" eval '! in_ns c182 curl -sf -m 1 http://172.17.0.3/page'
stop snapt1 KILL
claim "kill switch and no SNAPT: nothing leaves" equal "$(beside insists c172)" 0
stop cnapt KILL
claim "after kill -9: nothing leaves" equal "$(beside insists c172)" 0
claim "after kill -9: its port answers" published
start_snapt 1
start_cnapt
# A router on a stick: the bridge has the default route itself, and what comes in by it must not leave by it.
ip -n "$(ns node)" link add br0 type bridge
ip -n "$(ns node)" link set br0 up
ip -n "$(ns node)" addr add 192.168.3.1/24 dev br0
new_namespace stick
connect node vstick stick eth
ip -n "$(ns node)" link set vstick master br0
address stick eth 192.168.3.2/24
ip -n "$(ns stick)" route add default via 192.168.3.1
spawn stick capture tcpdump -Z root -n -i eth -U -w "$work/stick.pcap" "host $inet4"
wait_for 5 grep -q 'listening on' "$work/capture.log"
# Somebody deletes the table at the same moment.
kill -STOP "${pid_of[cnapt]}"
in_ns node nft delete table inet continuo_cnapt_cnapt0
ip -n "$(ns node)" route add default via 192.168.3.2 dev br0 metric 500
kill -CONT "${pid_of[cnapt]}"
judged() { in_ns node nft list set inet continuo_cnapt_cnapt0 uplinks | grep -q br0; }
claim "a bridge with a default route becomes an uplink for the kill switch, though its table was deleted" wait_for 5 judged
ip -n "$(ns node)" route add $inet4 via 192.168.3.2 dev br0
in_ns stick ping -n -c 2 -i 0.2 -W 1 $inet4 >/dev/null
ip -n "$(ns node)" route del $inet4 via 192.168.3.2 dev br0
stop capture INT
returned() { tcpdump -n -e -r "$work/stick.pcap" "ether src $(ip -n "$(ns node)" -br link show br0 | awk '{print $3}') and icmp" 2>/dev/null | wc -l; }
claim "and nothing that came in by it is sent out by it" equal "$(returned)" 0
ip -n "$(ns node)" link del br0
stop cnapt

# --- As LAN sides

claim "how names begin is a LAN side" eval 'set_capture "gateway_interfaces = [\"docker0\", \"br-*\"]"; cnapt check --config "$work/cnapt.toml"'
declare -A says=([true]='what comes from docker0, br-77 goes through the tunnel or nowhere \(kill switch\)'
    [false]='what comes from docker0, br-77 goes through the tunnel')
for switch in true false; do
    set_capture "kill_switch = $switch"
    start_cnapt
    for name in c172 c182; do
        claim "LAN sides, kill switch $switch: $name fetches pages" wait_for 10 both $name
        claim "and nothing of it goes beside the tunnel" equal "$(beside both $name)" 0
    done
    claim "LAN sides, kill switch $switch: the port answers, and the IPv6 address" eval 'published && published6'
    claim "LAN sides, kill switch $switch: doctor names the bridges that are in the tunnel" finds ok "${says[$switch]}"
    ip -n "$(ns node)" link del br-77
    ip netns pids "$(ns c182)" | xargs -r kill
    ip netns del "$(ns c182)"
    before=$(seen)
    container br-77 18 2
    claim "LAN sides, kill switch $switch: a bridge that comes later fetches pages" wait_for 10 both c182
    claim "and from its first packet on nothing goes beside the tunnel" equal $(($(seen) - before)) 0
    stop cnapt
done
finish
