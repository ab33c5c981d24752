#!/usr/bin/env bash
# An uplink that goes on being "up" but delivers nothing is noticed by its silence, and another one takes its place; when
# the better one delivers again, it is taken back. No connection notices.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
two_uplinks
start_snapt 1
add_user alice
start_cnapt

mkdir "$work/www"
head -c 90000000 /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
exec_in_ns node curl -sS -m 120 --limit-rate 2500k "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 1000000
claim "the uplink of the smaller metric is in use" is_active up1

swallow() { in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }"; }
swallow 1
claim "silence makes the other uplink take its place" wait_for 30 is_active up2
before=$(have)
claim "and the download goes on over it" wait_for 20 arrived $((before + 2000000))
state_of() { cnapt_json paths | json "[p['state'] for p in d if p['interface'] == '$1'][0]"; }
is_dead() { equal "$(state_of up1)" dead; }
claim "the silent path is dead in the end" wait_for 15 is_dead

in_ns gw1 nft delete table inet hole
claim "the better uplink is taken back when it delivers" wait_for 60 is_active up1
before=$(have)
claim "and the download goes on over it" wait_for 20 arrived $((before + 2000000))
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "90000000 $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1

# Both uplinks change their addresses at once; the better one has never delivered anything.
swallow 1
ip -n "$(ns node)" -batch - <<END
addr del 192.168.1.2/24 dev up1
addr del 192.168.2.2/24 dev up2
addr add 192.168.1.3/24 dev up1
addr add 192.168.2.3/24 dev up2
route add default via 192.168.1.1 dev up1 metric 100
route add default via 192.168.2.1 dev up2 metric 200
END
claim "an uplink that never delivered is left for one that does" wait_for 6 is_active up2
pings() { in_ns node ping -n -q -c 1 -W 1 $inet4; }
claim "and traffic goes over it" wait_for 3 pings

# The route goes while the address stays: the other uplink is taken, though it delivers again only now.
in_ns gw1 nft delete table inet hole
claim "the better uplink is taken back" wait_for 60 is_active up1
ip -n "$(ns node)" route del default via 192.168.1.1 dev up1
claim "an uplink without a route is left" wait_for 3 is_active up2
claim "and traffic goes over the other" wait_for 3 pings
finish
