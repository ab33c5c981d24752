#!/usr/bin/env bash
# NetworkManager itself, with systemd-resolved, sets up the uplinks: cnapt follows it, its device is left alone, and names go through
# the tunnel, while connections are ended and begun, networking is switched off and on, and NetworkManager starts anew.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_resolved.sh"
require curl nmcli NetworkManager dnsmasq
[ -d /var/lib/NetworkManager ] || skip "needs /var/lib/NetworkManager"
mkdir -p "$work/var"
resolved_host 'mount --bind "$0/var" /var/lib/NetworkManager'
mkdir -p "$work/etc/NetworkManager/system-connections" "$work/etc/NetworkManager/conf.d"
rm -f "$work/etc/NetworkManager/system-connections/"* "$work/etc/NetworkManager/conf.d/"*
cat >"$work/etc/NetworkManager/NetworkManager.conf" <<END
[main]
plugins=keyfile
dns=systemd-resolved
dhcp=internal
auth-polkit=false
no-auto-default=*
END
for n in 1 2; do
    cat >"$work/etc/NetworkManager/system-connections/net$n.nmconnection" <<END
[connection]
id=net$n
uuid=00000000-0000-4000-8000-00000000000$n
type=ethernet
interface-name=up$n
autoconnect=true
[ipv4]
method=auto
route-metric=$((n * 100))
[ipv6]
method=disabled
END
    chmod 600 "$work/etc/NetworkManager/system-connections/net$n.nmconnection"
    spawn "gw$n" "dhcp$n" dnsmasq --no-daemon --conf-file=/dev/null --port=0 --interface=lan --bind-interfaces --leasefile-ro --pid-file= \
        --dhcp-range="192.168.$n.50,192.168.$n.99,1h" --dhcp-option="option:router,192.168.$n.1" --dhcp-option="option:dns-server,192.168.$n.1"
    ip -n "$(ns node)" addr flush dev "up$n"
done
ip -n "$(ns node)" route flush default
# With a /sys that can be written NetworkManager waits for udev.
start_manager() {
    spawn node manager sh -c 'mount -o remount,bind,ro /sys && exec NetworkManager --no-daemon --pid-file="$0/manager.pid"' "$work"
    wait_for 20 in_ns node nmcli general
}
nm() { in_ns node nmcli "$@"; }
has_address() { ip -n "$(ns node)" -4 addr show "up$1" | grep -q "192.168.$1\."; }
device() { ip -n "$(ns node)" -o addr show cnapt0 | sed 's/valid_lft.*//' | sort; ip -n "$(ns node)" route show table 9347; ip -n "$(ns node)" -6 route show table 9347; }
session_is() { equal "$(session)" "$1"; }
twelve_names() {
    local i
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        in_ns node getent ahostsv4 "$1$i.example" | grep -q '^203.0.113.80 ' || { echo "$1$i.example is not found through the tunnel"; return 1; }
    done
}
mkdir "$work/www"
echo small >"$work/www/small"
http_server "$work/www"
in_tunnel() { in_ns node curl -sf -m 4 -o /dev/null "http://$inet4/small" && equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" ::ffff:198.51.100.2; }
# holds TEXT UPLINK
holds() {
    claim "$1: by $2" wait_for 20 is_active "$2"
    claim "$1: the session is the same" session_is "$began"
    claim "$1: programs are in the tunnel" wait_for 10 in_tunnel
    claim "$1: cnapt's device is as it was" equal "$(device)" "$as_it_was"
    claim "$1: names are looked up through the tunnel" wait_for 20 twelve_names "$2-$SECONDS-"
}

start_resolved
start_manager
claim "NetworkManager sets up both uplinks" wait_for 20 eval 'has_address 1 && has_address 2'
claim "without cnapt the access point resolves" wait_for 20 resolves_to 198.51.100.2
start_cnapt
claim "with it, names are looked up through the tunnel" wait_for 20 goes_through_tunnel
as_it_was=$(device) began=$(session)
holds "at once" up1
claim "NetworkManager did not make cnapt's device its own" eval '! nm -t -f DEVICE,STATE device | grep -E "^cnapt0:connected$"'
nm device disconnect up1
holds "one connection is ended" up2
nm device connect up1
holds "and begun again" up1
nm connection down net1
holds "taken down" up2
nm connection up net1
holds "and up" up1
nm networking off
claim "without networking nothing is left of the uplinks" wait_for 10 eval '! has_address 1 && ! has_address 2'
nm networking on
holds "networking is switched off and on" up1
stop manager
holds "NetworkManager ends" up1
start_manager
wait_for 20 eval 'has_address 1 && has_address 2'
holds "and starts anew" up1
nm connection modify net1 ipv4.route-metric 300
nm connection up net1
holds "another metric" up2
stop cnapt
claim "without cnapt the access point resolves again" wait_for 20 resolves_to 198.51.100.2
finish
