#!/usr/bin/env bash
# Another VPN has the default route: in halves as OpenVPN takes it, by rules and a table of its own as wg-quick (both IP versions),
# in the place of the uplink's, or named in `allow`. It may be there before cnapt or come later, also with rules that have no priority. What is behind it and the Internet
# stay reachable, the session goes beside it while another uplink works, and neither carries the other round and round.
. "$(dirname "$0")/lib.sh"
require curl ping
build_topology
in_ns inet sysctl -qw net.ipv4.ip_forward=1
in_ns inet nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; };
    add rule ip nat post ip saddr 10.99.0.0/24 oifname eth masquerade'
ip -n "$(ns inet)" addr add 203.0.113.81/24 dev eth
# Behind an address without a route of its own at the node.
ip -n "$(ns inet)" addr add 10.99.7.1/32 dev lo
mkdir "$work/www"
head -c 200000 /dev/urandom >"$work/www/file"
http_server "$work/www"
spawn inet vpn-server "$python" "$support_dir/udp_tunnel.py" --device tun9 --port 1194
wait_for 5 ip -n "$(ns inet)" link set tun9 up mtu 1400
ip -n "$(ns inet)" addr add 10.99.0.1 peer 10.99.0.2 dev tun9
address inet tun9 fd99::1/64
ip -n "$(ns inet)" -6 route add fd99:7::1/128 dev lo
in_ns node nft 'add table inet seen; add counter inet seen tunnel; add chain inet seen out { type filter hook output priority 300; };
    add rule inet seen out oifname tun9 meta l4proto { tcp, udp } th dport 9347 counter name tunnel'

lines() { printf '%s\n' "$@" | ip -n "$(ns node)" -batch -; }
lines6() { printf '%s\n' "$@" | ip -n "$(ns node)" -6 -batch -; }
uplink_route="default via 192.168.1.1 dev up1"
# As wg-quick makes it: nobody else may send to its address, and answers have the mark of what they answer.
wg_quick_table='table ip wg-quick-tun9 {
    chain preraw { type filter hook prerouting priority -300; iifname != "tun9" ip daddr 10.99.0.2 fib saddr type != local drop; }
    chain premangle { type filter hook prerouting priority -150; meta l4proto udp meta mark set ct mark; }
    chain postmangle { type filter hook postrouting priority -150; meta l4proto udp meta mark 51820 ct mark set meta mark; }
}'
# vpn KIND : takes the default route. `unranked` are rules without a priority, `first` such as stand before all others on purpose.
vpn() {
    local mark=()
    case $1 in rules | unranked | unranked6 | first) mark=(--mark 51820) ;; esac
    spawn node vpn "$python" "$support_dir/udp_tunnel.py" --device tun9 --port 1194 --remote $inet4 "${mark[@]}"
    wait_for 5 ip -n "$(ns node)" link set tun9 up mtu 1400
    lines "addr add 10.99.0.2 peer 10.99.0.1 dev tun9"
    case $1 in
        halves) lines "route add $inet4 via 192.168.1.1 dev up1" "route add 0.0.0.0/1 dev tun9" "route add 128.0.0.0/1 dev tun9" ;;
        whole) lines "route add $inet4 via 192.168.1.1 dev up1" "route del $uplink_route" "route add default dev tun9" ;;
        rules | unranked | first)
            local two=("rule add not fwmark 51820 table 51820" "rule add table main suppress_prefixlength 0")
            case $1 in
                rules) two=("${two[0]} priority 32765" "${two[1]} priority 32764") ;;
                first) two=("${two[0]} priority 5001" "${two[1]} priority 5000") ;;
            esac
            address node tun9 fd99::2/128
            lines "route add default dev tun9 table 51820" "${two[@]}"
            lines6 "route add default dev tun9 table 51820" "${two[@]}"
            in_ns node nft "$wg_quick_table"
            ;;
        unranked6)
            address node tun9 fd99::2/128
            lines6 "route add default dev tun9 table 51820" "rule add not fwmark 51820 table 51820" "rule add table main suppress_prefixlength 0"
            ;;
    esac
}
# clear_vpn KIND : what it leaves behind when it ends without a word.
clear_vpn() {
    case $1 in
        halves) lines "route del $inet4 via 192.168.1.1 dev up1" ;;
        whole) lines "route del $inet4 via 192.168.1.1 dev up1" "route replace $uplink_route" ;;
        rules | unranked | first)
            # As wg-quick takes them away, wherever they stand.
            lines "rule del table 51820" "rule del table main suppress_prefixlength 0"
            lines6 "rule del table 51820" "rule del table main suppress_prefixlength 0"
            in_ns node nft delete table ip wg-quick-tun9
            ;;
        unranked6) lines6 "rule del table 51820" "rule del table main suppress_prefixlength 0" ;;
    esac
}
no_vpn() {
    stop vpn
    clear_vpn "$1"
    wait_for 5 eval '! ip -n "$(ns node)" link show tun9'
}
pings() { in_ns node ping -n -c 1 -W 1 "$1"; }
fetches() { in_ns node curl -sf -m 5 -o /dev/null http://203.0.113.81/file; }
bytes() { in_ns node cat "/sys/class/net/$1/statistics/tx_bytes"; }
of_tunnel() { in_ns node nft list counter inet seen tunnel | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
says() { cnapt status --socket "$work/cnapt.sock" | tr -s ' \n' ' ' | grep -E "$1"; }
doctor() { in_ns node cnapt doctor --config "$work/cnapt.toml" --state "$work/c" --socket "$work/cnapt.sock" || true; }
finds() { doctor | tr -s ' \n' ' ' | grep -E "$1"; }
moves() { cnapt_json status | json 'd["handovers"]["count"]'; }
has_no_path() { equal "$(cnapt_json paths | json '[p["interface"] for p in d if p["interface"] == "tun9"]')" "[]"; }

# rounds TEXT HOST... : 20 pings to each host, none is lost. Each of them, its answer and what both cost in two tunnels are less
# than 500 bytes; what goes round would be thousands of times that.
rounds() {
    local text=$1 host before before9 count waits=()
    shift
    before=$(bytes up1) before9=$(bytes tun9)
    for host in "$@"; do
        exec_in_ns node ping -n -c 20 -i 0.2 -W 1 "$host" >"$work/ping-$host" &
        waits+=($!)
    done
    wait "${waits[@]}"
    for host in "$@"; do
        claim "$text: $host answers" equal "$(sed -n 's/.* \([0-9]*\) received.*/\1/p' "$work/ping-$host")" 20
    done
    count=$((20 * $#))
    claim "$text: the cable carries them once" at_most $(($(bytes up1) - before)) $((500 * count))
    claim "$text: so does the other VPN" at_most $(($(bytes tun9) - before9)) $((500 * count))
}

leads_into_tunnel() {
    for host in 203.0.113.81 2001:db8:3::81; do
        in_ns node ip route get $host ipproto tcp | grep -q " dev cnapt0 " || return
    done
}

# beside ORDER KIND HOST... : the session goes beside the VPN.
beside() {
    local text="$2, $1" kind=$2 since by_vpn remedy='\[uplinks\] allow = .*"tun9"' state='d[0]["state"]'
    case $kind in rules | unranked) remedy='public places behind it belong into capture.exclude' ;; esac
    if [ "$1" = "VPN first" ]; then
        vpn "$kind"
        start_cnapt
    else
        start_cnapt
        exec_in_ns node curl -sf -m 60 --limit-rate 40k -o "$work/slow" http://203.0.113.81/file &
        local slow=$!
        wait_for 10 test -s "$work/slow"
        vpn "$kind"
        claim "$text: a connection in the tunnel goes on" eval 'wait $slow && cmp -s "$work/www/file" "$work/slow"'
        rm "$work/slow"
    fi
    claim "$text: programs go by cnapt" wait_for 2 leads_into_tunnel
    since=$(moves) by_vpn=$(of_tunnel)
    shift 2
    wait_for 10 pings "$1"
    rounds "$text" "$@" 203.0.113.81
    claim "$text: a file comes from the Internet" fetches
    claim "$text: the session stays where it is" eval 'is_active up1 && equal "$(moves)" '"$since"
    claim "$text: the VPN is no path" has_no_path
    claim "$text: status says who has the default route, and what to do" \
        says "tun9: another VPN has the default route; data goes beside it \($remedy"
    # The uplink is in doubt: copies and questions go by another, if there is one.
    in_ns gw1 nft 'add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }'
    claim "$text: the uplink in use is in doubt" wait_for 5 eval 'equal "$(cnapt_json paths | json "$state")" doubtful'
    in_ns gw1 nft delete table inet hole
    claim "$text: and back" wait_for 10 pings 203.0.113.81
    claim "$text: nothing of the session went by the VPN" equal "$(of_tunnel)" "$by_vpn"
    claim "$text: doctor says who has the default route, too" finds "ok vpn tun9: another VPN has the default route; data goes beside it; $remedy"
    no_vpn "$kind"
    claim "$text: the VPN ends, the Internet answers" fetches
    claim "$text: and status says nothing of it" eval '! says "another VPN"'
    stop cnapt
}

start_snapt 1
add_user alice
vpn halves
claim "without cnapt what is behind the VPN answers" wait_for 5 pings 10.99.7.1
claim "without cnapt doctor says who has the default route" finds 'ok vpn tun9: another VPN has the default route'
no_vpn halves
beside "cnapt first" halves 10.99.0.1 10.99.7.1
beside "VPN first" halves 10.99.0.1 10.99.7.1
beside "cnapt first" rules 10.99.0.1 10.99.7.1 fd99::1
beside "VPN first" rules 10.99.0.1 10.99.7.1 fd99::1
# ranks [-6] : the priorities of cnapt's rules.
ranks() { ip -n "$(ns node)" "${1:--4}" rule | sed -n 's/:.* proto 147$//p' | sort -u | tr '\n' ' '; }
beside "cnapt first" unranked 10.99.0.1 10.99.7.1 fd99::1

# Its rules come and go, and cnapt with them: also a new one, and one that takes over from the run before.
start_cnapt
usual=$(ranks) usual6=$(ranks -6)
vpn unranked
claim "rules without a priority: cnapt goes before them" wait_for 2 eval '! equal "$(ranks)" "$usual"'
claim "with IPv6, too" wait_for 2 eval '! equal "$(ranks -6)" "$usual6"'
stop cnapt KILL
start_cnapt
claim "after kill -9, too" wait_for 2 leads_into_tunnel
stop cnapt USR2
start_cnapt
claim "and after a restart" wait_for 2 leads_into_tunnel
no_vpn unranked
claim "without the VPN the rules are in their place again" wait_for 5 eval 'equal "$(ranks) $(ranks -6)" "$usual $usual6"'
vpn unranked6
claim "rules of IPv6 alone: cnapt goes before them" wait_for 2 eval '! equal "$(ranks -6)" "$usual6"'
claim "and programs go by it" wait_for 2 leads_into_tunnel
claim "what is behind the VPN answers" wait_for 10 pings fd99::1
no_vpn unranked6
claim "without them all are in their place again" wait_for 5 eval 'equal "$(ranks) $(ranks -6)" "$usual $usual6"'

# It dies, and the node moves before anybody takes its rules away.
vpn unranked
wait_for 10 pings 10.99.0.1
stop vpn
move 2 11
claim "a VPN that dies before a move: the session goes on" wait_for 10 is_active up2
claim "and the Internet answers" wait_for 10 fetches
clear_vpn unranked
claim "without its rules those of cnapt are in their place" wait_for 5 eval 'equal "$(ranks) $(ranks -6)" "$usual $usual6"'
move 1 2
wait_for 10 is_active up1
vpn unranked
stop cnapt
claim "nothing of ours is left" eval '! { ip -n "$(ns node)" rule; ip -n "$(ns node)" -6 rule; } | grep "proto 147"'
no_vpn unranked

# through ORDER KIND : the VPN carries the session, and goes beside it itself.
through() {
    local text="$2, $1" kind=$2
    if [ "$1" = "VPN first" ]; then
        vpn "$kind"
        start_cnapt
    else
        start_cnapt
        vpn "$kind"
    fi
    claim "$text: the session goes through the VPN" wait_for 20 is_active tun9
    wait_for 10 pings 203.0.113.81
    rounds "$text" 10.99.0.1 203.0.113.81
    claim "$text: a file comes from the Internet" fetches
    claim "$text: status says so, and what to do" says 'tun9: another VPN has the default route; data goes through it \(\[uplinks\] deny'
    claim "$text: and so does doctor" finds 'warn vpn tun9: another VPN has the default route; data goes through it; \[uplinks\] deny'
    no_vpn "$kind"
    claim "$text: the VPN ends, the session is back beside it" wait_for 20 is_active up1
    claim "$text: and the Internet answers" wait_for 10 fetches
    stop cnapt
}
through "cnapt first" whole
through "VPN first" whole

start_cnapt
vpn whole
goes_beside() { ip -n "$(ns node)" rule | grep "^9349:.* to $inet4 "; }
claim "the session goes through a VPN" wait_for 20 is_active tun9
claim "whose own datagrams go beside cnapt0" wait_for 5 goes_beside
stop vpn
move 2 11
claim "that dies before a move: it goes on beside it" wait_for 20 is_active up2
claim "and the Internet answers" wait_for 10 fetches
claim "and nothing is left of the VPN's own way" wait_for 5 eval '! goes_beside'
move 1 2
stop cnapt

cp "$work/cnapt.toml" "$work/plain.toml"
printf '\n[uplinks]\nallow = ["*", "tun9"]\n' >>"$work/cnapt.toml"
through "VPN first" halves
cp "$work/plain.toml" "$work/cnapt.toml"

# With the kill switch nothing leaves by the VPN, whoever comes, goes or dies.
in_ns node nft 'add counter inet seen programs; add chain inet seen left { type filter hook postrouting priority 300; };
    add rule inet seen left oifname != cnapt0 ip daddr 203.0.113.81 counter name programs'
beside_tunnel() { in_ns node nft list counter inet seen programs | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
set_capture 'kill_switch = true'
start_cnapt
exec_in_ns node ping -n -i 0.02 -W 1 203.0.113.81 >"$work/all-the-time" &
all_the_time=$!
vpn unranked
claim "kill switch: the Internet answers beside a VPN" wait_for 10 fetches
stop cnapt KILL
claim "kill switch: not after kill -9" eval '! pings 203.0.113.81'
start_cnapt
claim "kill switch: the next run goes before the VPN's rules" wait_for 2 leads_into_tunnel
claim "kill switch: and the Internet answers" wait_for 10 fetches
stop cnapt USR2
start_cnapt
claim "kill switch: after a restart, too" wait_for 10 fetches
no_vpn unranked
claim "kill switch: and without the VPN" wait_for 10 fetches
kill "$all_the_time"
wait "$all_the_time" 2>/dev/null
claim "kill switch: nothing has left by another interface" equal "$(beside_tunnel)" 0
stop cnapt
cp "$work/plain.toml" "$work/cnapt.toml"

# Who gives rules a place before those of cnapt wants them there. That is said.
start_cnapt
vpn first
claim "rules before those of cnapt: status says who gets the traffic, and what to do" \
    says 'tun9: another VPN has the default route, and its rules stand before those of cnapt; programs go past cnapt \(give its rules a priority'
claim "rules before those of cnapt: and so does doctor" finds 'warn vpn tun9: another VPN .* programs go past cnapt; give its rules a priority'
claim "rules before those of cnapt: what is behind the VPN answers" wait_for 10 pings 10.99.7.1
before=$(bytes up1) before9=$(bytes tun9)
claim "rules before those of cnapt: the Internet answers" pings 203.0.113.81
sleep 3
claim "rules before those of cnapt: nothing goes round" at_most $(($(bytes up1) - before)) 20000
no_vpn first
stop cnapt

# A VPN that lost its own way is no way for the session: it would carry its own packets. In another network both go on.
start_cnapt
vpn halves
wait_for 10 pings 10.99.0.1
before9=$(bytes tun9)
ip -n "$(ns node)" addr del 192.168.1.2/24 dev up1
sleep 3
claim "without a network the VPN goes on" is_alive vpn
claim "and nothing goes round" at_most $(($(bytes tun9) - before9)) 20000
join 2 11
claim "in the next network the session goes on" wait_for 10 is_active up2
claim "and the VPN in it" wait_for 10 pings 10.99.0.1
finish
