#!/usr/bin/env bash
# One uplink has IPv4 alone, the other IPv6 alone, and the SNAPT has both: they are two paths of one session, and a download, an
# upload's connection and a ping go on as often as the first uplink goes and comes back. An interface that has both versions is one
# path, and the other version takes over where the first is swallowed.
. "$(dirname "$0")/lib.sh"
require curl ping tc
build_topology
ip -n "$(ns node)" addr flush dev up1
ip -n "$(ns node)" addr add 192.168.1.2/24 dev up1
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 metric 100
ipv6_beside 2
ip -n "$(ns node)" -6 route replace default via 2001:db8:12::1 dev up2 metric 200
ip -n "$(ns node)" -6 route del default via 2001:db8:12::1 dev up2 metric 2
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public '198.51.100.2:9347,[2001:db8:1::2]:9347' >"$work/snapt1.log" 2>&1
start_snapt 1
add_user alice
claim "the user's file has both addresses of the SNAPT" eval 'grep -q "198.51.100.2:9347.*\[2001:db8:1::2\]:9347" "$work/cnapt.toml"'
start_cnapt

# paths [FIELD] : of each path of the session, by interface.
paths() { cnapt_json paths | json "sorted((p['interface'], p['local'].count(':') > 0 and 6 or 4${1:+, p['$1']}) for p in d)"; }
claim "each uplink is a path by the version it has" equal "$(paths)" "[('up1', 4), ('up2', 6)]"
claim "the better metric is in use" is_active up1
first=$(session)

size=80000000
mkdir "$work/www"
head -c $size /dev/urandom >"$work/www/file"
sum=$(sha256sum <"$work/www/file" | cut -d' ' -f1)
http_server "$work/www"
ip netns exec "$(ns inet)" tc qdisc add dev eth root handle 1: tbf rate 24mbit burst 64kb latency 40ms
exec_in_ns node curl -sS -m 150 "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
spawn node ping ping -n -D -i 0.05 $inet4
wait_for 20 arrived 2000000

# timed NAME LINES : ip -batch on the node; "began done" goes to NAME.
timed() {
    local began=$EPOCHREALTIME
    ip -n "$(ns node)" -batch - <<<"$2" && echo "$began $EPOCHREALTIME" >>"$work/$1"
}
control_by() { in_ns node ss -Htn state established "dport = :9347" | grep -q "$1"; }
go_on() { local bytes; bytes=$(have) && wait_for 10 arrived $((bytes + 2000000)); }

# It stays "up" and delivers nothing.
now=$EPOCHREALTIME
in_ns gw1 nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }"
echo "$now $now" >>"$work/swallowed"
claim "silence makes the uplink of the other version take its place" wait_for 5 is_active up2
# Packets and datagrams that the SNAPT has sent in the download's class.
sent() { snapt_json 1 status | json "d['classes']['$class']['$1']"; }
class=$(cnapt_json flows | json "[f['class'] for f in d if f['proto'] == 'tcp'][0]")
packets=$(sent packets) datagrams=$(sent datagrams)
claim "the download goes on over it" go_on
ratio=$("$python" -c "print(round(($(sent datagrams) - $datagrams) / ($(sent packets) - $packets), 2))")
claim "its segments fit one datagram each by either version ($ratio datagrams a packet)" at_most "$ratio" 1.1
claim "and control follows" wait_for 5 control_by '2001:db8:1::2'
in_ns gw1 nft delete table inet hole
claim "the better uplink is taken back when it delivers" wait_for 60 is_active up1
claim "and the download goes on over it" go_on

made=0
while [ $made -lt 4 ]; do
    timed away 'addr del 192.168.1.2/24 dev up1' && go_on && is_active up2 && wait_for 3 control_by '2001:db8:1::2' || break
    timed back $'addr add 192.168.1.2/24 dev up1\nroute add default via 192.168.1.1 dev up1 metric 100' &&
        wait_for 10 is_active up1 && go_on && wait_for 3 control_by '198.51.100.2' || break
    made=$((made + 1))
done
claim "four times the first uplink went and came back, data and control followed each time" equal $made 4
stop ping
wait "$download"
claim "the download is whole and right" equal "$(cat "$work/result") $(cat "$work/curl.log")" "$size $sum "
claim "it was one TCP connection" equal "$(grep -c . "$work/http.log")" 1
claim "the session is still the first" equal "$(session)" "$first"
sed -n 's/^\[\([0-9.]*\)\] .*bytes from.*/\1/p' "$work/ping.log" >"$work/ping"
# silences FLOW MOVES BOUND_MS : "LONGEST MEDIAN" in ms, of which the link's own outage is no part.
silences() {
    "$python" "$support_dir/gaps.py" "$work/$1" "$work/$2" >"$work/gaps"
    longest_silence "$work/gaps" 3 "$3"
}
# A silent uplink costs T_doubt (2 s at most), a round trip of the other (0.05 s) and 0.2 s of repeats: 2.3 s. The download has its
# TCP besides (twice that and an RTO, 4.8 s); it is held to 3 s.
for row in "arrivals 3" "ping 2.3"; do
    read -r flow most_s <<<"$row"
    most_ms=$("$python" -c "print(round($most_s * 1000))")
    read -r longest median < <(silences "$flow" swallowed "$most_ms")
    claim "$flow, swallowed: silent for $most_s s at most ($longest ms)" at_most "$longest" "$most_ms"
done
# A move that the node knows of: that without T_doubt, and for TCP twice that and an RTO of 0.25 s.
for moves in away back; do
    for flow in arrivals ping; do
        read -r longest median < <(silences $flow $moves 800)
        claim "$flow, $moves: the longest silence is at most 0.8 s ($longest ms)" at_most "$longest" 800
        speaks_of_median "$work/gaps" 3 100
        claim "$flow, $moves: the median at most 100 ms ($median ms)" at_most "$median" 100
    done
done

# An interface with both versions: one path of it, by the version in use.
ipv6_beside 1
ip -n "$(ns node)" -6 route replace default via 2001:db8:11::1 dev up1 metric 100
works() { in_ns node ping -n -q -c 1 -W 1 $inet4; }
settled() { works; [ "$(paths)" = "$1" ]; }
claim "an interface that has both is one path" wait_for 10 settled "[('up1', 4), ('up2', 6)]"
ip -n "$(ns node)" link set up2 down
in_ns gw1 nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; }; add rule inet hole pass meta nfproto ipv4 drop"
spawn node ping2 ping -n -i 0.2 $inet4
by_six() { equal "$(cnapt_json paths | json "[p['local'] for p in d if p['active']]")" "['2001:db8:11::2']"; }
claim "where IPv4 is swallowed, IPv6 of the same interface takes over" wait_for 10 by_six
claim "and traffic goes over it" wait_for 3 works
claim "and control" wait_for 5 control_by '2001:db8:1::2'

# Two addresses of one network on it, as a stable and a temporary one.
ip -n "$(ns node)" addr add 2001:db8:11::3/64 dev up1 nodad
ip -n "$(ns node)" addr change 2001:db8:11::2/64 dev up1 preferred_lft 0 valid_lft 600
locals() { cnapt_json paths | json "[(p['local'], p['active']) for p in d if ':' in p['local']]"; }
is_alone() { works; [ "$(locals)" = "[('2001:db8:11::3', True)]" ]; }
claim "the fresh one takes the deprecated one's place, which is no path beside it" wait_for 10 is_alone
claim "the session is still the first" equal "$(session)" "$first"
finish
