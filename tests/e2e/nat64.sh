#!/usr/bin/env bash
# A network with IPv6 alone and NAT64, and a SNAPT that is given by an IPv4 address: it is reached by the address that NAT64 makes,
# there only. The name server tells how, or the router's advertisements alone do. What stands for NAT64 is a gateway that translates those addresses to the SNAPT's own IPv6 address, which nobody tells.
. "$(dirname "$0")/lib.sh"
require curl conntrack
build_topology
ip -n "$(ns node)" -4 addr flush dev up1
ipv6_beside 1
mkdir "$work/www"
head -c 3000000 /dev/urandom >"$work/www/file"
http_server "$work/www"
etc=/etc/netns/$(ns node)
mkdir -p "$etc" || skip "cannot write to /etc/netns"
trap 'status=$?; rm -rf "$etc"; rmdir /etc/netns 2>/dev/null; (exit $status); clean_up' EXIT
echo "127.0.0.1 localhost" >"$etc/hosts"
echo "nameserver 2001:db8:11::1" >"$etc/resolv.conf"
start_snapt 1
add_user alice

# leads N PREFIX : gateway N leads to the SNAPT by that prefix, of 96 bits.
leads() {
    in_ns "gw$1" nft "add table ip6 nat64; flush table ip6 nat64; add chain ip6 nat64 pre { type nat hook prerouting priority -100; };
        add rule ip6 nat64 pre ip6 daddr ${2}c633:6402 dnat to 2001:db8:1::2"
}
# nat64 N PREFIX : its name server tells it, too.
nat64() {
    leads "$@"
    ! is_alive "dns$1" || stop "dns$1"
    spawn "gw$1" "dns$1" "$python" "$support_dir/dns_responder.py" --port 53 --nat64 "$2/96"
    wait_for 10 listens "gw$1" 53
}
# no_nat64 N : its name server knows nothing of it; what is asked of it is counted in $work/askedN.
no_nat64() {
    stop "dns$1"
    : >"$work/asked$1"
    spawn "gw$1" "dns$1" "$python" "$support_dir/dns_responder.py" --port 53 --log "$work/asked$1"
    wait_for 10 listens "gw$1" 53
}
prefix() { cnapt_json snapts | json "d[0]['nat64']"; }
remote() { cnapt_json snapts | json "d[0]['address']"; }
is_at() { equal "$(remote)" "$1" && equal "$(cnapt_json status | json "d['state']")" up; }
doctor_says() {
    in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" >"$work/said"
    tr -s ' \n' ' ' <"$work/said" | grep -F "$1" >"$work/found" || { cat "$work/said"; return 1; }
}
tunnelled() { in_ns node curl -gsf -m 5 -o /dev/null "http://$inet4/file" && equal "$(tail -n 1 "$work/http.log" | cut -d' ' -f1)" ::ffff:198.51.100.2; }

# --- No NAT64 yet
run_cnapt
says_what_is_missing() { cnapt_json snapts | json_true "'give it a name or an IPv6 address' in d[0]['last_error']['text']"; }
claim "without NAT64 the failure says what is missing" wait_for 10 says_what_is_missing
claim "so does doctor" doctor_says 'give the SNAPT a name or an IPv6 address'

# --- The well-known prefix
nat64 1 64:ff9b::
claim "with NAT64 the tunnel comes up" wait_cnapt 30
claim "by the address that it makes" is_at "[64:ff9b::c633:6402]:9347"
claim "traffic passes" tunnelled
claim "doctor says so" doctor_says 'reached by its NAT64, 64:ff9b::/96'

# --- The name server forgets it, and another default route has it asked again
no_nat64 1
ip -n "$(ns node)" -6 route add default via 2001:db8:11::9 dev up1 metric 900
claim "after a change of the network the name server is asked" wait_for 10 test -s "$work/asked1"
sleep 2 # two looks of cnapt
claim "an answer without a prefix displaces none that works" equal "$(prefix)" 64:ff9b::/96
claim "which is used" is_at "[64:ff9b::c633:6402]:9347"
claim "traffic passes" tunnelled
ip -n "$(ns node)" -6 route del default via 2001:db8:11::9 dev up1 metric 900
nat64 1 64:ff9b::

# --- Away to a network with IPv4, with a download, and to another one with a prefix of its own
before=$(session)
exec_in_ns node curl -gsS -m 60 --limit-rate 300k "http://$inet4/file" 2>"$work/curl.log" | "$python" "$support_dir/arrivals.py" "$work/arrivals" >"$work/result" &
download=$!
wait_for 10 arrived 300000
ip -n "$(ns node)" addr add 192.168.2.2/24 dev up2
ip -n "$(ns node)" route add default via 192.168.2.1 dev up2
ip -n "$(ns node)" -6 addr flush dev up1 scope global
ip -n "$(ns node)" -6 route flush default
claim "a network with IPv4 is used by that" wait_for 20 is_at 198.51.100.2:9347
claim "and nothing is left of NAT64" eval '! cnapt_json paths | grep -q 64:ff9b'
nat64 2 2001:db8:64::
ipv6_beside 2
echo "nameserver 2001:db8:12::1" >"$etc/resolv.conf"
ip -n "$(ns node)" -4 addr flush dev up2
claim "another prefix is used in its network" wait_for 30 is_at "[2001:db8:64::c633:6402]:9347"
wait "$download"
claim "a download goes on through all that" equal "$(cut -d' ' -f1 "$work/result") $(cat "$work/curl.log")" "3000000 "
claim "in the same session" equal "$(session)" "$before"

# --- To a network whose router tells a prefix at once (PREF64, RFC 8781), which leads nowhere: its name server, which knows nothing, was not asked
tells() { in_ns gw1 "$python" "$support_dir/router_advert.py" lan "$1" "$2"; }
leads 1 2001:db8:65::
no_nat64 1
tells 2001:db8:69::/96 1800
begin_log cnapt
address node up1 2001:db8:11::2/64
ip -n "$(ns node)" -6 route add default via 2001:db8:11::1 dev up1 metric 1
echo "nameserver 2001:db8:11::1" >"$etc/resolv.conf"
ip -n "$(ns node)" -6 addr flush dev up2 scope global
ip -n "$(ns node)" -6 route flush default dev up2
leads_nowhere() { in_ns node ping -n -c 1 -W 1 $inet4; grep -q 'NAT64: 2001:db8:69::/96, which a router tells, leads nowhere' <(said cnapt); }
claim "a prefix of the router's that leads nowhere is found out" wait_for 60 leads_nowhere
sleep 3 # three looks of cnapt
claim "that of the former network's name server is not used in its place" eval '! grep "by NAT64, 2001:db8:64::" <(said cnapt)'

# --- The router withdraws it, and tells others
tells 2001:db8:69::/96 0
claim "nothing is left of it, nor of the network before" wait_for 20 eval 'equal "$(prefix)" None'
tells 2001:db8:65::/96 1800
claim "a prefix that the router tells is used" wait_for 10 is_at "[2001:db8:65::c633:6402]:9347"
claim "traffic passes by it" wait_for 10 tunnelled
claim "doctor says which it is" doctor_says 'reached by its NAT64, 2001:db8:65::/96'
claim "in the same session still" equal "$(session)" "$before"
leads 1 2001:db8:66::
tells 2001:db8:66::/96 1800
tells 2001:db8:65::/96 0
claim "another one takes the place of one that is withdrawn" wait_for 10 is_at "[2001:db8:66::c633:6402]:9347"
claim "traffic passes by that" wait_for 10 tunnelled
tells 2001:db8:66::/96 0
claim "withdrawn, it is used no more" wait_for 20 eval 'equal "$(prefix)" None'
tells 2001:db8:66::/96 24
claim "told again, it is used" wait_for 20 is_at "[2001:db8:66::c633:6402]:9347"
claim "at the end of its lifetime it is used no more" wait_for 40 eval 'equal "$(prefix)" None'

# --- The router goes without a word, and leaves a prefix behind that nobody serves; the name server knows the one that is served
forget_mappings() { in_ns gw1 conntrack -F 2>/dev/null; }
# An idle node would not notice.
asks_and_is_at() { in_ns node ping -n -c 1 -W 1 $inet4 || true; is_at "$1"; }
leads 1 2001:db8:67::
tells 2001:db8:67::/96 1800
claim "a third prefix that the router tells is used" wait_for 20 is_at "[2001:db8:67::c633:6402]:9347"
claim "traffic passes by it" wait_for 10 tunnelled
nat64 1 2001:db8:68::
forget_mappings
claim "when it leads nowhere it gives way to that of the name server" wait_for 60 asks_and_is_at "[2001:db8:68::c633:6402]:9347"
claim "the log says so" grep -q 'NAT64: 2001:db8:67::/96, which a router tells, leads nowhere' "$work/cnapt.log"
claim "traffic passes by it" wait_for 10 tunnelled
tells 2001:db8:67::/96 1800
sleep 3 # three looks at what routers tell
claim "told again, it does not displace one that works" is_at "[2001:db8:68::c633:6402]:9347"
leads 1 2001:db8:67::
forget_mappings
claim "when that leads nowhere it is tried again" wait_for 60 asks_and_is_at "[2001:db8:67::c633:6402]:9347"
claim "traffic passes by it" wait_for 10 tunnelled
claim "in the same session to the end" equal "$(session)" "$before"
finish
