# Checks for every run: nothing of the tunnel leaks.

counter() { in_ns "$1" nft list counter inet "$2" leak 2>/dev/null | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
# leaks_of DAEMON : packets in the leak counters of its namespace; nothing where it has none.
leaks_of() {
    local space
    space=$(ip netns identify "${pid_of[$1]}") && [ -n "$space" ] || return
    ip netns exec "$space" nft list counters 2>/dev/null | awk '
        /^table / { ours = /^table inet continuo_/ }
        /counter / { is_leak = $2 == "leak" }
        /packets / && ours && is_leak { sum += $2; found = 1 }
        END { if (found) print sum }'
}
# Daemons that were stopped, each with what it had leaked.
stopped_with=
leaky=
note_leaks() {
    [[ $1 == cnapt* || $1 == snapt* ]] && is_alive "$1" || return 0
    local packets
    packets=$(leaks_of "$1")
    [ -n "$packets" ] || return 0
    stopped_with+="$1 "
    [ "$packets" = 0 ] || leaky+="$1: $packets "
}
# count_inner GW : counts from now on what comes in there with an address that belongs on cnapt0.
count_inner() {
    in_ns "$1" nft "add table inet watch; add counter inet watch inner;
        add chain inet watch pre { type filter hook prerouting priority -400; };
        add rule inet watch pre iifname lan ip saddr 192.0.0.0/29 counter name inner;
        add rule inet watch pre iifname lan ip6 saddr 64:ff9b:1::/48 counter name inner"
}
inner_packets() { in_ns "$1" nft list counter inet watch inner | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
# count_beside : counts from now on what the node would send beside the tunnel with an address of cnapt0, also what cnapt's table then drops.
count_beside() {
    in_ns node nft 'add table inet beside; add counter inet beside inner;
        add chain inet beside post { type filter hook postrouting priority 105; };
        add rule inet beside post oifname != { "lo", "cnapt0" } ip saddr 192.0.0.5 counter name inner;
        add rule inet beside post oifname != { "lo", "cnapt0" } ip6 saddr 64:ff9b:1::c000:5 counter name inner'
}
sent_beside() { in_ns node nft list counter inet beside inner | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
# At both gateways; the same when cnapt is stopped or dead.
no_inner_packets() { equal "$(inner_packets gw1) $(inner_packets gw2)" "0 0"; }
# The same after as long as a retransmission or the next datagram of a program takes.
stays_without_inner_packets() { sleep 5; no_inner_packets; }
check_leaks() {
    local n
    if [ -n "$here_gateway" ]; then claim "no packet with cnapt0's address came to a gateway" no_inner_packets; fi
    if [ -n "$stopped_with" ] && [ -z "${removes_rules-}" ]; then claim "no daemon that was stopped had let one out" equal "$leaky" ""; fi
    if is_alive cnapt; then claim "no packet of cnapt0 left an uplink" equal "$(counter node continuo_cnapt_cnapt0)" 0; fi
    for n in 1 2; do
        if is_alive "snapt$n"; then claim "no packet of a lease left snapt$n" equal "$(counter "snapt$n" continuo_snapt_snapt0)" 0; fi
    done
}
