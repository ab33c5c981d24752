#!/usr/bin/env bash
# cnapt is started while the better of two uplinks carries nothing, though it has its carrier: it is up within a second, by the
# other. The better one is taken when it carries.
. "$(dirname "$0")/lib.sh"
require ping ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
for cable in gw1-wan gw2-wan; do cable_set $cable both rate 20M delay 10ms queue 100; done
start_snapt 1
add_user alice
up() { cnapt status --wait up --timeout 20 --socket "$work/cnapt.sock" >/dev/null 2>&1; }
runs() { [ -S "$work/cnapt.sock" ]; }
for round in 1 2 3; do
    cable_set gw1-wan both down
    begin_log cnapt
    run_cnapt
    wait_for 5 runs
    claim "$round: it comes up" up
    took=$(until_up)
    claim "$round: within a second ($took s)" at_most "$took" 1
    claim "$round: by the other uplink" is_active up2
    claim "$round: traffic passes" in_ns node ping -n -c 1 -W 2 $inet4
    cable_set gw1-wan both up
    claim "$round: the better one is taken when it carries" wait_for 70 is_active up1
    claim "$round: traffic passes there" in_ns node ping -n -c 1 -W 2 $inet4
    stop cnapt
done
finish
