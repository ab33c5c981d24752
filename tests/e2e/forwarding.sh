#!/usr/bin/env bash
# The daemons say at their start what keeps a gateway or a SNAPT from forwarding: an interface that is not there, forwarding that
# is off, a chain of the host's own that drops.
. "$(dirname "$0")/lib.sh"
require
build_topology
new_namespace lan1
connect lan1 eth node br-lan
address lan1 eth 192.168.50.11/24
address node br-lan 192.168.50.1/24
says() { grep -qF "$2" <(said "$1") || { said "$1"; return 1; }; }
says_nothing_of() { ! grep -F "$2" <(said "$1"); }
restart_snapt() { stop snapt1; begin_log snapt1; start_snapt 1 "${1-}"; }
restart_cnapt() { stop cnapt; begin_log cnapt; start_cnapt; }
closed_chain='add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
open_chain() { echo "add rule ip filter FORWARD iifname $1 accept; add rule ip filter FORWARD oifname $1 accept"; }
dropped='forward policy: chain ip filter FORWARD drops what is forwarded by'

start_snapt 1
claim "a SNAPT whose host forwards says nothing" says_nothing_of snapt1 'forward policy'
in_ns snapt1 nft "$closed_chain"
restart_snapt degraded
claim "one whose host drops what is forwarded says so" says snapt1 "$dropped snapt0"
in_ns snapt1 nft "$(open_chain snapt0)"
restart_snapt
claim "not with a rule for its device" says_nothing_of snapt1 'forward policy'
sed -i 's/^egress = .*/egress = ["wann"]/' "$work/snapt1.toml"
restart_snapt degraded
claim "an egress interface that is not there is named" says snapt1 'egress wann: there is no such interface, but there are'
sed -i 's/^egress = .*/egress = ["wan"]/' "$work/snapt1.toml"
restart_snapt
claim "a right one is not" says_nothing_of snapt1 'there is no such interface'

add_user alice
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
start_cnapt
claim "a node without a LAN says nothing of it" says_nothing_of cnapt 'forward'
set_capture 'gateway_interfaces = ["br-lan"]'
restart_cnapt
claim "a gateway that forwards says nothing" says_nothing_of cnapt 'forward'
in_ns node sysctl -qw net.ipv4.ip_forward=0
restart_cnapt
claim "one that does not forward IPv4 says so" says cnapt 'forwarding: is off: nothing of the LAN gets through; sysctl -w net.ipv4.ip_forward=1'
in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=0
restart_cnapt
claim "one that does not forward IPv6 says so" says cnapt 'sysctl -w net.ipv6.conf.all.forwarding=1'
in_ns node sysctl -qw net.ipv6.conf.all.forwarding=1
in_ns node nft "$closed_chain"
restart_cnapt
claim "one whose firewall drops says so" says cnapt "$dropped cnapt0 and br-lan"
in_ns node nft "$(open_chain br-lan)"
restart_cnapt
claim "not with a rule for the LAN's interface" says_nothing_of cnapt 'forward policy'
in_ns node nft delete table ip filter
set_capture 'gateway_interfaces = ["br-lam"]'
restart_cnapt
claim "an interface that is misspelt is named, with those that are there" says cnapt 'gateway br-lam: there is no such interface, but there are'
claim "among them the one that was meant" eval 'said cnapt | grep "gateway br-lam" | grep -cF br-lan'
finish
