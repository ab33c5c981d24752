# Counts of a router between the SNAPT and the Internet, packet by packet. Sourced after lib.sh.

# tally_at_router : counters of the core for TCP and UDP between snapt1 and inet. No super-packets there, which have their headers
# once: those of UDP would pass whole without tx-udp-segmentation off, gso and tso off or not.
tally_at_router() {
    local end
    for end in "inet eth" "snapt1 wan" "core inet" "core snapt1"; do
        # shellcheck disable=SC2086
        set -- $end
        offload "$1" "$2" off
    done
    in_ns core nft -f - <<END
table inet tally {
    counter up { }
    counter down { }
    chain pre {
        type filter hook prerouting priority -300;
        iifname "snapt1" ip daddr $inet4 meta l4proto { tcp, udp } counter name up
        iifname "snapt1" ip6 daddr $inet6 meta l4proto { tcp, udp } counter name up
        iifname "inet" ip saddr $inet4 meta l4proto { tcp, udp } counter name down
        iifname "inet" ip6 saddr $inet6 meta l4proto { tcp, udp } counter name down
    }
}
END
}
# metered up|down : "PACKETS BYTES"
metered() { in_ns core nft list counter inet tally "$1" | sed -n "s/.*packets \([0-9]*\) bytes \([0-9]*\).*/\1 \2/p"; }
metered_bytes() { metered "$1" | cut -d' ' -f2; }
# True once nothing has passed for a while.
router_is_silent() {
    local before
    before="$(metered up) $(metered down)"
    sleep 0.5
    [ "$before" = "$(metered up) $(metered down)" ]
}
