#!/usr/bin/env bash
# A Kubernetes node: rules as kubelet and kube-proxy 1.33 write them, set by iptables-nft, and the one of earlier versions that drops
# packets with the mark 0x8000. The host is in the tunnel, pods are beside it or in it, and both reach a service by its address. A
# tunnel whose mark has that bit does not come up.
. "$(dirname "$0")/lib.sh"
require curl iptables-nft-restore
build_topology
in_ns node sysctl -qw net.ipv4.ip_forward=1
ip -n "$(ns node)" link add cni0 type bridge
ip -n "$(ns node)" link set cni0 up
address node cni0 10.244.0.1/24
new_namespace pod2 pod3
mkdir "$work/www" "$work/pod"
echo small >"$work/www/small"
echo "page of the pod" >"$work/pod/page"
for n in 2 3; do
    connect node "veth$n" "pod$n" eth
    ip -n "$(ns node)" link set "veth$n" master cni0
    address "pod$n" eth "10.244.0.$n/24"
    ip -n "$(ns "pod$n")" route add default via 10.244.0.1
done
http_server "$work/www"
spawn pod2 page "$python" "$support_dir/http_server.py" --directory "$work/pod" --port 80
wait_for 10 listens pod2 80

# The last rule of nat is that of a CNI plugin.
in_ns node iptables-nft-restore <<'END' || { echo "iptables-nft-restore failed"; exit 1; }
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 10.96.0.20 --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 10.96.0.20 --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
-A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80" -j KUBE-SEP-SXIVWICOYRO3J4NJ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment "ns1/svc1:p80" -s 10.244.0.2 -j KUBE-MARK-MASQ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment "ns1/svc1:p80" -m tcp -p tcp -j DNAT --to-destination 10.244.0.2:80
-A POSTROUTING -s 10.244.0.0/24 ! -d 10.244.0.0/16 -j MASQUERADE
COMMIT
END
dropped() { in_ns node iptables-nft -L KUBE-FIREWALL -v -x -n | awk '/marked packets/ { print $1 }'; }

gateway=::ffff:192.0.2.2 snapt=::ffff:198.51.100.2
# seen_as WHO : whom the server in the Internet sees when that one asks it.
seen_as() {
    in_ns "$1" curl -sf -m 4 -o /dev/null "http://$inet4/small" || return
    tail -n 1 "$work/http.log" | cut -d' ' -f1
}
comes_from() { equal "$(seen_as "$1")" "$2"; }
reaches_service() { in_ns "$1" curl -sf -m 4 http://10.96.0.20/page | grep -q 'page of the pod'; }
# holds TEXT HOST POD : as whom the server sees the host and a pod.
holds() {
    claim "$1: the server sees the host as $2" wait_for 10 comes_from node "$2"
    claim "$1: and a pod as $3" wait_for 10 comes_from pod3 "$3"
    claim "$1: the host reaches a service by its address" reaches_service node
    claim "$1: a pod does" reaches_service pod3
    claim "$1: no packet was dropped for its mark" equal "$(dropped)" 0
}

holds "without cnapt" "$gateway" "$gateway"
start_snapt 1
add_user alice
set_capture 'exclude = ["10.244.0.0/16", "10.96.0.0/12"]'
start_cnapt
holds "beside the tunnel" "$snapt" "$gateway"
stop cnapt
set_capture 'gateway_interfaces = ["cni0"]'
set_capture 'kill_switch = true'
start_cnapt
holds "pods in the tunnel, kill switch" "$snapt" "$snapt"
stop cnapt

set_capture 'fwmark = 0x9347'
run_cnapt
claim "a mark with the bit 0x8000: its packets are dropped" wait_for 10 eval 'more_than "$(dropped)" 0'
is_up() { cnapt status --wait up --timeout 1 --socket "$work/cnapt.sock"; }
claim "a mark with the bit 0x8000: the tunnel does not come up" eval '! is_up'
finish
