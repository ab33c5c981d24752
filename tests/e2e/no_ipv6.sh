#!/usr/bin/env bash
# Hosts with IPv6 switched off: both daemons run with IPv4 and say so once. And what else a host may refuse at the start.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
for host in node snapt1; do in_ns $host sysctl -qw net.ipv6.conf.all.disable_ipv6=1; done
start_snapt 1
add_user alice
start_cnapt
says() { equal "$(grep -c "IPv6 is switched off on this host (net.ipv6.conf.all.disable_ipv6 = 1)" "$work/$1.log")" "$2"; }
claim "the SNAPT says once that it has IPv4 only" says snapt1 1
claim "the node, too" says cnapt 1
works() { in_ns node ping -n -c 1 -W 5 $inet4; }
claim "traffic passes" works
claim "a reload wants no restart" equal "$(snapt reload --socket "$(snapt_socket 1)"; cnapt reload --socket "$work/cnapt.sock")" "reloaded; nothing changed
reloaded; nothing changed"
device() { ip -n "$(ns snapt1)" -o link show snapt0 | cut -d: -f1; }
before=$(device)
stop snapt1 USR2
start_snapt 1
claim "a restart keeps the kernel's part" equal "$(device)" "$before"
claim "traffic passes again" wait_for 20 works

# Only one of the two has it off.
inner_ipv6() { cnapt_json status | json '[s["inner_ipv6"] for s in d["sessions"]]'; }
stop cnapt
in_ns node sysctl -qw net.ipv6.conf.all.disable_ipv6=0
start_cnapt
claim "a node with IPv6 uses such a SNAPT" works
claim "with IPv4 alone" equal "$(inner_ipv6)" "[None]"
logs() { [ "$(grep -c "$2" "$work/$1.log")" = "$3" ]; }
in_ns snapt1 sysctl -qw net.ipv6.conf.all.disable_ipv6=0
claim "switched on there, the SNAPT says so" wait_for 10 logs snapt1 'IPv6 is switched on again on this host' 1
stop cnapt
start_cnapt
has_inner_ipv6() { inner_ipv6 | grep -q 'fd93:47::'; }
claim "and who logs in then has IPv6" wait_for 5 has_inner_ipv6
stop cnapt
stop snapt1
# Only interfaces that are new have none.
in_ns snapt1 sysctl -qw net.ipv6.conf.default.disable_ipv6=1
in_ns node sysctl -qw net.ipv6.conf.default.disable_ipv6=1
wan_ipv6() {
    address snapt1 wan 2001:db8:1::2/64
    ip -n "$(ns snapt1)" -6 route replace default via 2001:db8:1::1
}
wan_ipv6
start_snapt 1
start_cnapt
claim "where other interfaces have IPv6, both have it" wait_for 10 in_ns node ping -n -c 1 -W 5 $inet6
claim "and say nothing" eval 'says snapt1 2 && says cnapt 1'
stop cnapt
in_ns node sysctl -qw net.ipv6.conf.all.disable_ipv6=1
start_cnapt
claim "a node without IPv6 uses a SNAPT that has it" works
claim "and says so" says cnapt 2

# Switched while it runs.
off() { in_ns node sysctl -qw net.ipv6.conf.all.disable_ipv6=1; }
on() { in_ns node sysctl -qw net.ipv6.conf.all.disable_ipv6=0; }
six() { in_ns node ping -n -c 1 -W 5 $inet6; }
has_rules() { [ "$(ip -n "$(ns node)" -6 rule | grep -c 'proto 147')" -gt 0 ]; }
no_rules() { ! has_rules && equal "$(ip -n "$(ns node)" -6 route show table 9347)" ""; }
claim "without IPv6 there are no rules for it" no_rules
on
claim "switched on while it runs, IPv6 goes through the tunnel" wait_for 10 six
claim "which is said" equal "$(grep -c 'IPv6 is switched on again on this host' "$work/cnapt.log")" 1
off
claim "switched off, nothing is left of it" wait_for 10 no_rules
claim "which is said" equal "$(grep -c 'IPv6 was switched off on this host' "$work/cnapt.log")" 1
claim "and IPv4 goes on" works
on
claim "on again, IPv6 goes through the tunnel" wait_for 10 six
for _ in 1 2 3; do off; on; done
claim "also after it was off for a moment" wait_for 10 six
in_ns node sysctl -qw net.ipv6.conf.cnapt0.disable_ipv6=1
claim "or on cnapt0 alone" wait_for 10 six
claim "nothing failed in all this" eval '! grep -E "cannot|error" "$work/cnapt.log"'

# At the SNAPT, too. What the host had on its own interfaces is for the host to restore.
server_off() { in_ns snapt1 sysctl -qw net.ipv6.conf.all.disable_ipv6=1; }
server_on() { in_ns snapt1 sysctl -qw net.ipv6.conf.all.disable_ipv6=0 && wan_ipv6; }
server_ipv6() { ip -n "$(ns snapt1)" -6 -o addr show dev snapt0 scope global | grep -q 'inet6 fd93:47::1/64' && ip -n "$(ns snapt1)" -6 route show fd93:47::/64 | grep -q snapt0; }
server_rules() { in_ns snapt1 nft -s list ruleset | grep -E 'ip6|fd93' | grep -v '::[0-9]* [.] ' | sed -E 's/( th sport [0-9-]+)? masquerade.*/ masquerade/' | sort -u; }
rules=$(server_rules)
claim "snapt0 has its IPv6 address and route" server_ipv6
server_off
claim "switched off at the SNAPT, it says so" wait_for 10 logs snapt1 'IPv6 was switched off on this host' 1
claim "it has no IPv6 then" eval '! server_ipv6'
claim "and IPv4 goes on" works
server_on
claim "on again, IPv6 passes in the same session" wait_for 10 six
claim "with address and route" server_ipv6
claim "and the same rules" diff <(echo "$rules") <(server_rules)
claim "which is said once" logs snapt1 'IPv6 is switched on again on this host' 2
for _ in 1 2 3; do server_off; server_on; done
claim "also after it was off for a moment" wait_for 10 six
in_ns snapt1 sysctl -qw net.ipv6.conf.snapt0.disable_ipv6=1
claim "or on snapt0 alone" wait_for 10 eval 'server_ipv6 && six'
claim "nothing failed at the SNAPT" eval '! grep -E "cannot|error" "$work/snapt1.log"'
stop cnapt
stop snapt1

# refused TEXT : the SNAPT does not start and says that.
refused() {
    ! in_ns snapt1 timeout 20 snapt run --config "$work/snapt1.toml" --state "$work/s1" --socket "$(snapt_socket 1)" >"$work/refusal" 2>&1 &&
        grep -qF "$1" "$work/refusal" || { cat "$work/refusal"; return 1; }
}
spawn snapt1 other "$python" -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9347))
time.sleep(60)'
wait_for 5 eval 'in_ns snapt1 ss -Huln "sport = :9347" | grep -q .'
claim "a port that is taken: who has it, and what to do" refused 'another program has this port (`ss -lntup` shows it): stop it, or change `listen`'
stop other
sed -i 's/^listen = .*/listen = ["192.0.2.77:9347"]/' "$work/snapt1.toml"
claim "an address that the host does not have" refused 'no interface of this host has the address'
sed -i -e 's/^listen = .*/listen = ["0.0.0.0:9347"]/' -e 's/^ipv4 = .*/ipv4 = ""/' "$work/snapt1.toml"
in_ns snapt1 sysctl -qw net.ipv6.conf.all.disable_ipv6=1
claim "IPv6 alone where it is switched off" refused 'set inner.ipv4'

finish
