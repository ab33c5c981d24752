# Further hosts of the topology of lib.sh.

# two_lan_hosts : lan1 and lan2 at the node's interfaces port1 and port2, 10.7.1.2 and 10.7.2.2; the node forwards.
two_lan_hosts() {
    local n
    new_namespace lan1 lan2
    for n in 1 2; do
        connect node "port$n" "lan$n" eth
        address node "port$n" "10.7.$n.1/24" "fd07:$n::1/64"
        address "lan$n" eth "10.7.$n.2/24" "fd07:$n::2/64"
        ip -n "$(ns "lan$n")" route add default via "10.7.$n.1"
        ip -n "$(ns "lan$n")" -6 route add default via "fd07:$n::1"
    done
    in_ns node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

# new_stranger : a host at the core that has no key.
new_stranger() {
    new_namespace stranger
    connect stranger eth core stranger
    address stranger eth 192.0.2.130/25 2001:db8:32::2/64
    address core stranger 192.0.2.129/25 2001:db8:32::1/64
    ip -n "$(ns stranger)" route add default via 192.0.2.129
    ip -n "$(ns stranger)" -6 route add default via 2001:db8:32::1
}
