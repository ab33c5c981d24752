#!/usr/bin/env bash
# A docked laptop: cable and Wi-Fi are in one network. Its gateway sends to the card that answered last when it asked who has an
# address (ARP), whichever address it was. The session comes up, stays where it is, and each uplink works, by UDP and by TCP;
# also when the laptop is docked or undocked under way. Over IPv6 a card answers for its own addresses only.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
# As Debian sets it: what comes in need not come from where the best route leads.
in_ns node sysctl -qw net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.default.rp_filter=2
# The gateway's LAN is a switch with two ports: up1 is the cable, wifi the other card.
ip -n "$(ns gw1)" link set lan down
ip -n "$(ns gw1)" link set lan name port1
ip -n "$(ns gw1)" link add lan type bridge
ip -n "$(ns gw1)" link set lan up
connect node wifi gw1 port2
for port in port1 port2; do
    ip -n "$(ns gw1)" addr flush dev $port
    ip -n "$(ns gw1)" link set $port master lan up
done
address gw1 lan 192.168.1.1/24
mac() { in_ns node cat "/sys/class/net/$1/address"; }
# answers_by LAST DEV : to whom the gateway sends what is for 192.168.1.LAST.
answers_by() { ip -n "$(ns gw1)" neigh replace "192.168.1.$1" lladdr "$(mac "$2")" dev lan nud permanent; }
plug() { # plug DEV LAST METRIC : as NetworkManager sets it, the network's own route too
    ip -n "$(ns node)" link set "$1" up
    ip -n "$(ns node)" addr replace "192.168.1.$2/24" dev "$1" metric "$3"
    ip -n "$(ns node)" route replace default via 192.168.1.1 dev "$1" metric "$3"
}
unplug() { ip -n "$(ns node)" route flush dev "$1"; ip -n "$(ns node)" addr flush dev "$1"; }
ip -n "$(ns node)" route flush default
unplug up1
mkdir "$work/www"
head -c 1000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
start_snapt 1
add_user alice

moves() { cnapt_json status | json 'd["handovers"]["count"]'; }
# One that is not in use is asked when somebody wants to know.
are_usable() {
    in_ns node cnapt ping zrh-1 --count 1 --socket "$work/cnapt.sock" >/dev/null 2>&1
    equal "$(cnapt_json paths | json '" ".join(sorted(p["interface"] + " " + p["state"] for p in d if p["transport"] == "udp"))')" "up1 usable wifi usable"
}
fetches() { in_ns node curl -sf -m 5 -o /dev/null "http://$inet4/file"; }
received() { in_ns node cat "/sys/class/net/$1/statistics/rx_bytes"; }
control_works() { timeout 2 cnapt usage --socket "$work/cnapt.sock" >/dev/null 2>&1; }
goes_by_tcp() { equal "$(cnapt_json status | json 'd["sessions"][0]["transport"]')" tcp; }
finds() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" | tr -s ' \n' ' ' | grep -qE "$1"; }
pings() { in_ns node ping -n -c 1 -W 1 $inet4; }
# works TEXT DEV : the session is by DEV, and stays there for 8 s, which is longer than what is silent is believed (2 s) four times.
works() {
    local since
    claim "$1: the session is by $2" wait_for 20 is_active "$2"
    claim "$1: the control link works" wait_for 15 control_works
    wait_for 10 pings
    since=$(moves)
    in_ns node ping -n -c 40 -i 0.2 -W 1 $inet4 >"$work/ping.out"
    claim "$1: no ping is lost" equal "$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/ping.out")" 40
    claim "$1: a file comes" fetches
    claim "$1: the path does not change" eval 'is_active '"$2"' && equal "$(moves)" '"$since"
}

# The gateway hears both addresses from either card, or the other way round.
for form in "up1 up1" "wifi wifi" "wifi up1"; do
    read -r of_cable of_wifi <<<"$form"
    plug up1 2 100
    plug wifi 3 600
    answers_by 2 "$of_cable"
    answers_by 3 "$of_wifi"
    before=$(received wifi)
    start_cnapt
    works "answers by $of_cable, $of_wifi" up1
    [ "$of_cable" = up1 ] || claim "which came by the other card" more_than $(($(received wifi) - before)) 1000000
    claim "answers by $of_cable, $of_wifi: both uplinks work" wait_for 15 are_usable
    claim "answers by $of_cable, $of_wifi: doctor says that they are in one network" \
        finds 'ok uplinks up1 and wifi are in one network, 192.168.1.0/24: answers are taken by either; \[uplinks\] deny keeps one out'
    # UDP does not get through: data goes over TCP.
    in_ns gw1 nft 'add table inet hole; add chain inet hole pass { type filter hook forward priority 0; };
        add rule inet hole pass udp dport 9347 drop'
    claim "answers by $of_cable, $of_wifi: over TCP, too" wait_for 20 eval "pings; goes_by_tcp"
    claim "answers by $of_cable, $of_wifi: a file comes over TCP" fetches
    in_ns gw1 nft delete table inet hole
    stop cnapt
    unplug up1
    unplug wifi
done

# Docked under way, and undocked.
plug wifi 3 600
answers_by 3 wifi
start_cnapt
works "Wi-Fi alone" wifi
plug up1 2 100
answers_by 3 up1
answers_by 2 wifi
works "docked" up1
unplug up1
answers_by 3 wifi
works "undocked" wifi
stop cnapt
unplug wifi

# The second form: IPv6 alone.
ipv6_beside 1
leave_ipv6 1
for dev in up1 wifi; do
    ip -n "$(ns node)" link set $dev down # with its address of the link
    ip -n "$(ns node)" link set $dev up
done
sed -i 's|^public = .*|public = ["[2001:db8:1::2]:9347"]|' "$work/snapt1.toml"
stop snapt1
start_snapt 1
add_user bob
plug6() {
    ip -n "$(ns node)" -6 addr add "2001:db8:11::$2/64" dev "$1" metric "$3" nodad
    ip -n "$(ns node)" -6 route add default via 2001:db8:11::1 dev "$1" metric "$3"
}
unplug6() {
    ip -n "$(ns node)" -6 route del default dev "$1"
    ip -n "$(ns node)" -6 addr flush dev "$1" scope global
}
# The counter has packets of programs with a card's address that leave by the other card. A reset of the kernel's
# for a connection that is closed belongs to no socket, and goes as the routes of the moment say.
in_ns node nft 'add table inet cards; add counter inet cards wrong; add chain inet cards out { type filter hook output priority 0; };
    add rule inet cards out ip6 saddr 2001:db8:11::2 oifname "wifi" meta l4proto { tcp, udp } meta skuid < 4294967295 counter name wrong;
    add rule inet cards out ip6 saddr 2001:db8:11::3 oifname "up1" meta l4proto { tcp, udp } meta skuid < 4294967295 counter name wrong'
wrong() { in_ns node nft list counter inet cards wrong | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
plug6 up1 2 100
plug6 wifi 3 600
start_cnapt
works "IPv6" up1
claim "IPv6: both uplinks work" wait_for 15 are_usable
in_ns gw1 nft 'add table inet hole; add chain inet hole pass { type filter hook forward priority 0; };
    add rule inet hole pass udp dport 9347 drop'
claim "IPv6: over TCP, too" wait_for 20 eval "pings; goes_by_tcp"
claim "IPv6: a file comes over TCP" fetches
in_ns gw1 nft delete table inet hole
stop cnapt
unplug6 up1
start_cnapt
works "IPv6, Wi-Fi alone" wifi
plug6 up1 2 100
works "IPv6, docked" up1
unplug6 up1
works "IPv6, undocked" wifi
claim "IPv6: what has a card's address left by that card" equal "$(wrong)" 0
finish
