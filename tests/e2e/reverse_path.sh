#!/usr/bin/env bash
# Strict reverse path filters drop what comes in by an uplink whose default route is not the best, and what comes in by any while a
# routing rule leads elsewhere. While cnapt runs nothing of its own is dropped: IPv4 as ufw and Fedora filter it, by a sysctl, and
# IPv6 as firewalld does, by nftables. Their chains for what comes in stand beside: answers pass, and what keeps the uplinks alive.
# Doctor tells, and all is afterwards as it was.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
two_uplinks
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public '198.51.100.2:9347,[2001:db8:1::2]:9347' >"$work/snapt1.log" 2>&1
start_snapt 1
add_user alice
mkdir "$work/www"
echo hello >"$work/www/f"
http_server "$work/www"

in_ns node sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.up1.rp_filter=1 net.ipv4.conf.up2.rp_filter=1
in_ns node nft 'table inet firewalld {
    counter strict { }
    chain filter_PREROUTING {
        type filter hook prerouting priority filter + 10; policy accept;
        icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept
        meta nfproto ipv6 fib saddr . mark . iif oif missing counter name strict drop
    }
    counter refused { }
    chain filter_INPUT {
        type filter hook input priority filter + 10; policy drop;
        ct state { established, related } accept
        iifname "lo" accept
        icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-query } accept
        counter name refused drop
    }
    chain filter_FORWARD { type filter hook forward priority filter + 10; policy drop; }
    chain filter_OUTPUT { type filter hook output priority filter + 10; policy accept; ct state invalid counter name refused drop; }
}' || skip "needs nft_fib_inet"
dropped() {
    in_ns node awk '$1 == "TcpExt:" && !named { for (i = 2; i <= NF; i++) name[i] = $i; named = 1; next }
        $1 == "TcpExt:" { for (i = 2; i <= NF; i++) if (name[i] == "IPReversePathFilter") print $i }' /proc/net/netstat
    in_ns node nft list counters table inet firewalld | sed -n 's/.*packets \([0-9]*\).*/\1/p'
}
# reaches UPLINK HOST, fetches UPLINK HOST : beside the tunnel.
reaches() { in_ns node ping -n -q -c 1 -W 1 -I "$1" "$2"; }
fetches() { in_ns node curl -gsf -m 5 --interface "$1" -o /dev/null "http://$2/f"; }
# Each path is asked, as data is.
works() { cnapt_json ping zrh-1 --count 1 | json_true "len(d['paths']) == 2 and all(p['answered'] == 1 for p in d['paths'])"; }
hole() { in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }"; }
no_hole() { in_ns "gw$1" nft delete table inet hole; }
finds() { { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; } | tr -s ' \n' ' ' | grep -qE "$1"; }
ours() { ip -n "$(ns node)" -4 rule; ip -n "$(ns node)" -6 rule; }
from() { ours | grep -cE "^(9346|32764|32765):\s+from $1 .*proto 147"; }

# moves VERSION : the uplink in use falls silent and the other one takes its place, and nothing is dropped meanwhile.
moves() {
    local before began
    before=$(dropped)
    spawn node "ping$1" ping -n -D -i 0.05 $inet4
    wait_for 5 grep -q 'bytes from' "$work/ping$1.log"
    began=$EPOCHREALTIME
    hole 1
    claim "$1: the uplink in use falls silent, the other one takes its place" wait_for 5 is_active up2
    answered=$(grep -c 'bytes from' "$work/ping$1.log")
    claim "$1: and carries" wait_for 3 eval '[ "$(grep -c "bytes from" "$work/ping'"$1"'.log")" -gt $((answered + 20)) ]'
    stop "ping$1"
    sed -n 's/^\[\([0-9.]*\)\] .*bytes from.*/\1/p' "$work/ping$1.log" >"$work/answers"
    gap=$(longest_gap "$began" answers)
    claim "$1: within 2.3 s ($gap s)" at_most "$gap" 2.3
    claim "$1: nothing was dropped" equal "$(dropped)" "$before"
    no_hole 1
    claim "$1: the better one is taken back" wait_for 60 is_active up1
}

claim "IPv4: on the plain host the second uplink is dead" eval '! reaches up2 $inet4'
snapshot node >"$work/node.before"
same() { diff "$work/node.before" <(snapshot node); }
claim "IPv4: doctor says that cnapt mends it" finds 'ok reverse path strict \(rp_filter = 1\): what comes in by up2 passes only while cnapt runs, by its routing rules; without it: sysctl -w net.ipv4.conf.all.rp_filter=2'
start_cnapt
claim "IPv4: both uplinks work" wait_for 10 works
claim "IPv4: doctor says why" finds 'ok reverse path strict \(rp_filter = 1\), and up1, up2 work: .* nothing to do, and without cnapt: sysctl -w net.ipv4.conf.all.rp_filter=2'
moves IPv4
claim "IPv4: so do programs that use the second one" eval 'reaches up2 $inet4 && fetches 192.168.2.2 $inet4'
claim "and those that use the first" eval 'reaches up1 $inet4 && fetches 192.168.1.2 $inet4'

ip -n "$(ns node)" -batch - <<END
addr del 192.168.2.2/24 dev up2
addr add 192.168.2.7/24 dev up2
route add default via 192.168.2.1 dev up2 metric 200
END
claim "the rules follow its address" wait_for 5 eval '[ "$(from 192.168.2.7) $(from 192.168.2.2)" = "3 0" ]'
claim "and it works" wait_for 10 works
ours >"$work/rules"
ip -n "$(ns node)" rule del priority 9346 from 192.168.2.7
ip -n "$(ns node)" rule del priority 32765 from 192.168.2.7
claim "rules that somebody removes are back within two seconds" wait_for 2 eval 'ours | diff - "$work/rules"'

# A rule of somebody's that comes before all of ours.
ip -n "$(ns node)" route add default via 192.168.1.1 dev up1 table 77
ip -n "$(ns node)" rule add priority 100 from 192.168.2.7 lookup 77
claim "where that does not help, doctor says what to do" \
    finds 'warn reverse path strict \(rp_filter = 1\), and answers to 192.168.2.7 would leave by up1: what comes in by up2 is dropped; sysctl -w net.ipv4.conf.all.rp_filter=2'
ip -n "$(ns node)" rule del priority 100
ip -n "$(ns node)" route flush table 77
ip -n "$(ns node)" -batch - <<END
addr del 192.168.2.7/24 dev up2
addr add 192.168.2.2/24 dev up2
route add default via 192.168.2.1 dev up2 metric 200
END
stop cnapt
claim "stop leaves the node as it was" same
start_cnapt
stop cnapt KILL
start_cnapt
stop cnapt
claim "so do start and stop after kill -9" same

# --- IPv6 alone, and a route that leads to the SNAPT by the first uplink only
for n in 1 2; do
    ip -n "$(ns node)" addr flush dev "up$n"
    ipv6_beside $n
done
ip -n "$(ns node)" -6 route add 2001:db8:1::/64 via 2001:db8:11::1 dev up1
claim "IPv6: on the plain host the second uplink is dead" eval '! reaches up2 $inet6'
start_cnapt
claim "IPv6: both uplinks work" wait_for 10 works
claim "IPv6: doctor says why" finds 'ok reverse path strict \(nftables table inet firewalld\), and up1, up2 work: .* nothing to do, and without cnapt: take .iif. out of its rule'
moves IPv6
claim "IPv6: so do programs that use the second one" eval 'reaches up2 $inet6 && fetches 2001:db8:12::2 "[$inet6]"'
stop cnapt
claim "nothing of ours is left" eval '! ours | grep "proto 147"'
finish
