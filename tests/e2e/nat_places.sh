#!/usr/bin/env bash
# A SNAPT behind a NAT with a forwarded port. The node is behind the same box and reaches it by its public address (hairpin),
# moves behind a carrier's NAT on top of an access point's own, and comes back, in the middle of a download.
#
#   node ── gw1 (NAT, port forwarding) ── core ── inet          node ── gw2 (NAT) ── cgn (NAT) ── core
#            └── snapt1
. "$(dirname "$0")/lib.sh"
require curl ping conntrack
snapt_address() { echo 192.0.2.2; }
new_namespace node gw1 gw2 cgn core snapt1 inet
connect node up1 gw1 lan
connect node up2 gw2 lan
connect gw1 wan core gw1
connect gw1 dmz snapt1 wan
connect gw2 wan cgn lan
connect cgn wan core cgn
connect inet eth core inet
for n in 1 2; do
    address "gw$n" lan "192.168.$n.1/24"
    gateway "gw$n"
    count_inner "gw$n"
done
gateway cgn
address gw1 wan 192.0.2.2/30
address gw1 dmz 192.168.7.1/24
address snapt1 wan 192.168.7.3/24
address gw2 wan 100.64.9.2/24
address cgn lan 100.64.9.1/24
address cgn wan 192.0.2.6/30
address core gw1 192.0.2.1/30
address core cgn 192.0.2.5/30
address core inet 203.0.113.1/24
address inet eth $inet4/24
ip -n "$(ns gw1)" route add default via 192.0.2.1
ip -n "$(ns gw2)" route add default via 100.64.9.1
ip -n "$(ns cgn)" route add default via 192.0.2.5
ip -n "$(ns snapt1)" route add default via 192.168.7.1
ip -n "$(ns inet)" route add default via 203.0.113.1
in_ns core sysctl -qw net.ipv4.ip_forward=1
in_ns gw1 nft "add chain ip nat pre { type nat hook prerouting priority -100; };
    add rule ip nat pre ip daddr 192.0.2.2 tcp dport 9347 dnat to 192.168.7.3;
    add rule ip nat pre ip daddr 192.0.2.2 udp dport 9347 dnat to 192.168.7.3;
    add rule ip nat post oifname dmz ip saddr 192.168.1.0/24 masquerade random"
join 1 2
in_ns inet tc qdisc add dev eth root tbf rate 16mbit burst 32kb latency 60ms

start_snapt 1
add_user alice
start_cnapt
from() { snapt_json 1 sessions | json "d[0]['from'].rsplit(':', 1)[0]"; }
claim "behind the same NAT the SNAPT is reached by its public address" equal "$(from)" 192.168.7.1

mkdir "$work/www"
head -c 24000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 60 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
is_from() { equal "$(from)" "$1"; }
wait_for 10 arrived 2000000
move 2 20
claim "behind two NATs the session goes on" wait_for 10 is_from 192.0.2.6
wait_for 20 arrived 9000000
move 1 21
claim "and back behind the first" wait_for 10 is_from 192.168.7.1
wait_for 20 arrived 14000000
# The carrier's box is started anew while the node is behind it.
move 2 22
wait_for 20 arrived 18000000
in_ns cgn nft "flush chain ip nat post; add rule ip nat post oifname wan masquerade random"
in_ns cgn conntrack -F 2>/dev/null
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "24000000 $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
"$python" "$support_dir/gaps.py" "$work/arrivals" "$work/moves" >"$work/gaps"
read -r longest median < <(longest_silence "$work/gaps" 1 1000)
claim "no move silenced it for more than a second (longest: $longest ms)" at_most "$longest" 1000
finish
