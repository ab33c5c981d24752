#!/usr/bin/env bash
# An idle node sends no more because of many routes, and of routes and interfaces that change all the time.
. "$(dirname "$0")/lib.sh"
. "$lib_dir/lib_many_routes.sh"
require
one_tunnel
two_uplinks
far_links node

# It is idle when it has sent nothing for 5 s: a question for the MTU, which follows traffic by itself, comes within a second (PATHS,
# Search for the MTU).
in_ns gw1 nft 'add table ip idle; add counter ip idle up; add chain ip idle in { type filter hook prerouting priority -300; };
    add rule ip idle in iifname "lan" meta l4proto { tcp, udp } th dport 9347 counter name up'
sent() { in_ns gw1 nft list counter ip idle up | sed -n 's/.*bytes \([0-9]*\).*/\1/p'; }
sends_nothing() {
    local before
    before=$(sent)
    sleep 5
    equal "$(sent)" "$before"
}
# sent_idle COMMAND... : the bytes of an idle node in 30 s, the first 28 of them beside the command.
sent_idle() {
    local before load
    wait_for 60 sends_nothing || return
    before=$(sent)
    "$@" &
    load=$!
    sleep 30
    echo $(($(sent) - before))
    wait $load
}
nothing() { :; }
restless() {
    changes 30.1.%d.0/24 192.168.1.1 up1 "$1" &
    pairs "$1"
    wait $!
}
for version in 4 6; do batch add $version; done
claim "the routes are there" wait_for 5 leaves_out $((many * 9 / 10))
beside=$(sent_idle restless 28)
for version in 4 6; do batch del $version; done
claim "and gone" wait_for 10 gone
alone=$(sent_idle nothing)
claim "the node was idle before both" eval 'more_than "$beside" -1 && more_than "$alone" -1'
echo "      an idle node sends $beside bytes in 30 s beside routes that change, $alone without"
claim "routes that change cost an idle node at most 1 MB a day more" at_most $(((beside - alone) * 86400 / 30)) 1000000
finish
