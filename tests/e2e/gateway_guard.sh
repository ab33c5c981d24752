#!/usr/bin/env bash
# Traffic of LAN clients that a gateway lets out beside the tunnel: excluded and bypassed destinations, everything when no SNAPT
# answers, and with the kill switch only excluded ones, IPv4 and IPv6.
. "$(dirname "$0")/lib.sh"
require curl ping tcpdump
build_topology
new_namespace lan1
connect lan1 eth node br-lan
address lan1 eth 192.168.50.11/24 fd50::11/64
address node br-lan 192.168.50.1/24 fd50::1/64
ip -n "$(ns lan1)" route add default via 192.168.50.1
ip -n "$(ns lan1)" -6 route add default via fd50::1
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
# Traffic outside the tunnel is translated to the uplink's address by rules of the host; IPv6 has a route, too.
in_ns node nft 'add table inet host; add chain inet host post { type nat hook postrouting priority srcnat + 1; };
    add rule inet host post oifname "up1" masquerade'
ipv6_beside 1
address inet eth 203.0.113.20/24 2001:db8:3::20/64

mkdir "$work/www"
echo small >"$work/www/small"
for port in 80 8080; do
    spawn inet "http$port" "$python" "$support_dir/http_server.py" --directory "$work/www" --port $port
    wait_for 10 listens inet $port
done
policy_file=$work/policy.toml
printf 'version = 1\n\n[[rule]]\napp = "alternative"\nmatch = { proto = "tcp", dport = 8080 }\naction = "bypass"\n' >"$policy_file"
start_snapt 1
add_user alice
set_capture 'gateway_interfaces = ["br-lan"]'
set_capture 'exclude = ["203.0.113.20/32", "2001:db8:3::20/128"]'
snapshot node >"$work/before"

plain4=::ffff:192.0.2.2 plain6=2001:db8:11::2
tunnelled4=::ffff:198.51.100.2 tunnelled6=2001:db8:1::2
from() { # from EXPECTED PORT HOST : the server sees the client's request come from there
    equal "$(in_ns lan1 curl -sS -m 5 "http://$3:$2/small")" small && equal "$(tail -n 1 "$work/http$2.log" | cut -d' ' -f1)" "$1"
}
fails() { ! in_ns lan1 curl -sS -m 1 -o /dev/null "http://$2:$1/small"; }
wait_for 5 in_ns lan1 ping -n -c 1 -W 1 $inet6
claim "without cnapt the client goes plain" from $plain4 80 $inet4
claim "without cnapt the client goes plain over IPv6" from $plain6 80 "[$inet6]"

# --- As it is by default

start_cnapt
claim "the LAN is no uplink" eval 'cnapt_json paths | json_true "all(p[\"interface\"] == \"up1\" for p in d)"'
claim "the client is tunnelled" from $tunnelled4 80 $inet4
claim "the client is tunnelled over IPv6" from $tunnelled6 80 "[$inet6]"
claim "what is excluded goes plain" from $plain4 80 203.0.113.20
claim "what is excluded goes plain over IPv6" from $plain6 80 "[2001:db8:3::20]"
claim "what is bypassed goes plain" from $plain4 8080 $inet4
claim "what is bypassed goes plain over IPv6" from $plain6 8080 "[$inet6]"
none_in_tunnel() { cnapt_json flows | json_true "not any(f['dst'] in ('203.0.113.20', '2001:db8:3::20') or f['dport'] == 8080 for f in d)"; }
claim "none of it was ever a flow of the tunnel" none_in_tunnel
stop snapt1 KILL
claim "when no SNAPT answers new connections go plain" wait_for 30 from $plain4 80 $inet4
claim "over IPv6, too" from $plain6 80 "[$inet6]"
start_snapt 1
claim "when it answers again they are tunnelled" wait_for 30 from $tunnelled4 80 $inet4
claim "over IPv6, too" from $tunnelled6 80 "[$inet6]"
stop cnapt
claim "after the end the host is as it was" diff "$work/before" <(snapshot node)

# --- With the kill switch

set_capture 'kill_switch = true'
start_cnapt
spawn node capture tcpdump -Z root -n -Q out -i up1 -U -s 100 -w "$work/up1.pcap"
wait_for 5 grep -q 'listening on' "$work/capture.log"
claim "with the kill switch the client is tunnelled" from $tunnelled4 80 $inet4
claim "over IPv6, too" from $tunnelled6 80 "[$inet6]"
claim "what is excluded goes plain still" from $plain4 80 203.0.113.20
claim "over IPv6, too" from $plain6 80 "[2001:db8:3::20]"
claim "what is bypassed does not" fails 8080 $inet4
claim "nor over IPv6" fails 8080 "[$inet6]"
insists_on_all() {
    in_ns lan1 ping -n -c 2 -i 0.2 -W 1 $inet4
    in_ns lan1 ping -n -c 2 -i 0.2 -W 1 $inet6
    fails 80 $inet4 && fails 80 "[$inet6]"
}
was_counted() { in_ns node nft list counter inet continuo_cnapt_cnapt0 kill_switch_forward | grep -q 'packets [1-9]'; }
# Until cnapt sees that the SNAPT is gone what comes still goes to it.
insists_until_counted() {
    local turn
    for turn in {1..10}; do
        insists_on_all || { echo "something passed, turn $turn"; return 1; }
        ! was_counted || return 0
    done
    echo "never counted"
    return 1
}
stop snapt1 KILL
claim "without a SNAPT nothing passes, and that is counted" insists_until_counted
stop cnapt KILL
claim "nor after kill -9 of cnapt" insists_on_all
run_cnapt
start_snapt 1
wait_cnapt 30
claim "afterwards the client is tunnelled" wait_for 20 from $tunnelled4 80 $inet4
stop capture INT
# To the SNAPT's port 80 goes the question whether there is a captive portal.
plain() {
    tcpdump -n -r "$work/up1.pcap" "not arp and not (icmp6 and ip6[40] >= 133 and ip6[40] <= 136) and not dst ff02::16
        and not host 203.0.113.20 and not host 2001:db8:3::20 and not (host 198.51.100.2 and (port 9347 or tcp port 80))" 2>/dev/null | head -n 5
}
claim "nothing else left the uplink" equal "$(plain)" ""
stop cnapt
claim "after the end the host is as it was" diff "$work/before" <(snapshot node)
finish
