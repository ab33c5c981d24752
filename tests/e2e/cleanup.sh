#!/usr/bin/env bash
# The host is afterwards as it was before, also after kill -9; and nobody who is logged in over an uplink is locked out.
. "$(dirname "$0")/lib.sh"
removes_rules=1  # on purpose, below: until they are back the guard stops packets, which its counter tells
require ssh sshd ping socat
build_topology
# The access network has IPv6, too: what would be routed wrongly is seen at the gateway.
address node up1 2001:db8:11::2/64
address gw1 lan 2001:db8:11::1/64
ip -n "$(ns node)" -6 route add default via 2001:db8:11::1
# The port forwarding of gateway 1, so that somebody on the Internet can log in at the node.
in_ns gw1 nft "add chain ip nat pre { type nat hook prerouting priority -100; };
    add rule ip nat pre iifname wan tcp dport 2222 dnat to 192.168.1.2:22"
ssh_server node
mapfile -t options < <(ssh_options)

own=(192.0.0.5/32 64:ff9b:1::c000:5/128)
address node up1 "${own[@]}"
in_ns node ping -n -c 1 -W 0.3 -I 192.0.0.5 192.168.1.1
in_ns node ping -n -c 1 -W 0.3 -I 64:ff9b:1::c000:5 2001:db8:11::1
claim "what leaks is counted" eval '[ "$(inner_packets gw1)" -ge 2 ]'
for one in "${own[@]}"; do
    ip -n "$(ns node)" addr del "$one" dev up1
done
in_ns gw1 nft reset counter inet watch inner

snapshot node >"$work/node.before"
snapshot snapt1 >"$work/snapt.before"

# log_in NAME NS SSH_ARGUMENTS... : a session that echoes lines; its ends are descriptors in to_NAME and from_NAME.
log_in() {
    local name=$1 space=$2 input output
    shift 2
    mkfifo "$work/$name.in" "$work/$name.out"
    exec_in_ns "$space" ssh "${options[@]}" "$@" 'while read -r line; do echo "back $line"; done' <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.log" &
    pid_of[$name]=$!
    exec {input}>"$work/$name.in" {output}<"$work/$name.out"
    eval "to_$name=$input from_$name=$output"
}
said=0
echoes() { # echoes NAME : a line goes there and comes back
    local line to from
    to=to_$1 from=from_$1
    said=$((said + 1))
    echo "$said" >&"${!to}" && IFS= read -r -t 10 line <&"${!from}" && equal "$line" "back $said"
}
alive_after() {
    claim "ssh from the LAN goes on after $1" echoes lan
    claim "ssh from the Internet goes on after $1" echoes far
}
# upload NAME HOST : lines without end over one TCP connection.
spawn inet sink socat -u TCP6-LISTEN:7001,fork,reuseaddr,ipv6-v6only=0 "OPEN:$work/sunk,creat,append"
wait_for 5 listens inet 7001
upload() {
    spawn node "$1" sh -c "while echo $1; do sleep 0.02; done 2>/dev/null | socat -u - TCP:$2:7001"
    wait_for 5 grep -q "$1" "$work/sunk"
}
uploads() { upload "six$1" "[$inet6]" && upload "four$1" $inet4; }
goes_on() { local had; had=$(grep -c "$1" "$work/sunk"); wait_for 10 eval "[ \$(grep -c $1 $work/sunk) -gt $((had + 20)) ]"; }
has_socket() { in_ns node ss -Htn6 state all "src [64:ff9b:1::c000:5]" | grep -q .; }

log_in lan gw1 root@192.168.1.2
log_in far inet -p 2222 root@192.0.2.2
alive_after "login"

start_snapt 1
add_user alice
start_cnapt
alive_after "start"
claim "new traffic uses the tunnel" in_ns node ping -n -c 2 -W 5 $inet6
new_login() { equal "$(in_ns inet ssh "${options[@]}" -p 2222 root@192.0.2.2 echo in </dev/null)" in; }
claim "a new login at the uplink works too" new_login
claim "reload succeeds" cnapt reload --socket "$work/cnapt.sock"
alive_after "reload"
check_leaks

same() { diff "$work/$1.before" <(snapshot "$2"); }
claim "uploads begin over IPv6 and IPv4" uploads 1
claim "over IPv6 with cnapt0's address" has_socket
stop cnapt
claim "stop leaves the node as it was" same node node
claim "no IPv6 connection is left that would go on beside the tunnel" eval '! has_socket'
claim "after stop no packet with cnapt0's address leaves an uplink" stays_without_inner_packets
alive_after "stop"

start_cnapt
alive_after "the second start"
claim "the IPv4 upload goes on" goes_on four1

# Somebody flushes what is not his.
repaired() { in_ns node nft list table inet continuo_cnapt_cnapt0 && rules_are "$rules"; }
rules_are() { equal "$(ip -n "$(ns node)" -4 rule; ip -n "$(ns node)" -6 rule)" "$1"; }
rules=$(ip -n "$(ns node)" -4 rule; ip -n "$(ns node)" -6 rule)
ruleset() { in_ns node nft list tables | sort | while read -r table; do in_ns node nft -s list $table; done; }  # in one order
ruleset=$(ruleset)
in_ns node nft flush ruleset
claim "after nft flush ruleset the table is there again within two seconds" wait_for 2 repaired
claim "and is the same" equal "$(ruleset)" "$ruleset"
told() { equal "$(grep -c 'removed by another program; restored' "$work/cnapt.log")" "$1"; }
# Five times: once could be luck. The table is there before the repair has ended, and a flush in between makes another one due.
repairs_took() {
    local began=$EPOCHREALTIME before
    before=$(grep -c 'removed by another program; restored' "$work/cnapt.log")
    for repair in 1 2 3 4 5; do
        in_ns node nft flush ruleset
        wait_for 2 told $((before + repair)) && repaired || return
    done
    at_most "$(since "$began")" 2
}
claim "it does not take that long" repairs_took
in_ns node nft flush table inet continuo_cnapt_cnapt0
claim "its rules are, after nft flush table" wait_for 2 eval 'equal "$(ruleset)" "$ruleset"'
for version in -4 -6; do
    ip -n "$(ns node)" $version rule flush
    # A flush passes over rules while others come.
    while ip -n "$(ns node)" $version rule del priority 32766 2>/dev/null; do :; done
    while ip -n "$(ns node)" $version rule del priority 32767 2>/dev/null; do :; done
    ip -n "$(ns node)" $version rule add priority 32766 lookup main
    [ $version = -6 ] || ip -n "$(ns node)" rule add priority 32767 lookup default
done
claim "after ip rule flush our rules are there again within two seconds, in their order" wait_for 2 rules_are "$rules"
ip -n "$(ns node)" rule del priority 9351
claim "and after one was deleted" wait_for 2 rules_are "$rules"
routes() { ip -n "$(ns node)" -4 route show table 9347; ip -n "$(ns node)" -6 route show table 9347; }
routes=$(routes)
ip -n "$(ns node)" -4 route flush table 9347
claim "after ip route flush of its table the route is there again within two seconds" wait_for 2 eval 'equal "$(routes)" "$routes"'
claim "it was told, eight times at once at most" wait_for 2 told 8
claim "and that it goes on" grep -q 'this keeps happening; restored at most once a second now' "$work/cnapt.log"
claim "new traffic uses the tunnel" in_ns node ping -n -c 2 -W 5 $inet6
alive_after "the repairs"

claim "uploads begin over IPv6 and IPv4 again" uploads 2
stop cnapt KILL
alive_after "kill -9"
start_cnapt
alive_after "the start after kill -9"
claim "the IPv6 upload goes on after kill -9" goes_on six2
claim "and the IPv4 upload" goes_on four2
claim "the tunnel works again" in_ns node ping -n -c 2 -W 5 $inet6
check_leaks
stop cnapt
claim "start and stop after kill -9 leave the node as it was" same node node
claim "and no packet with cnapt0's address left an uplink" stays_without_inner_packets

stop snapt1
claim "stop leaves the SNAPT's host as it was" same snapt snapt1
start_snapt 1
stop snapt1 KILL
start_snapt 1
stop snapt1
claim "so do start and stop after kill -9" same snapt snapt1
finish
