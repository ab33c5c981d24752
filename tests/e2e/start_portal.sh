#!/usr/bin/env bash
# cnapt is started while what stands behind the better of two uplinks takes every TCP connection sooner than the SNAPT could, and
# lets nothing else pass: a captive portal, one that closes what it has taken, and one that says nothing. It is up by the other
# within a second, as where the better one carries nothing at all.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
two_uplinks
start_snapt 1
add_user alice
taker='import socket, sys
door = socket.create_server(("", 8080), backlog=50)
taken = []
while True:
    taken.append(door.accept()[0])
    if sys.argv[1] == "closes":
        taken.pop().close()'
in_ns gw1 nft "add table ip portal
    add chain ip portal lead { type nat hook prerouting priority -100; }
    add rule ip portal lead iifname lan ip daddr != 192.168.1.1 tcp dport { 80, 443, 9347 } redirect to :8080
    add chain ip portal refuse { type filter hook forward priority 0; }
    add rule ip portal refuse iifname lan drop"
up() { cnapt status --wait up --timeout 20 --socket "$work/cnapt.sock" >/dev/null 2>&1; }
runs() { [ -S "$work/cnapt.sock" ]; }
# comes_up KIND COMMAND... : what stands there.
comes_up() {
    local kind=$1 took
    shift
    spawn gw1 portal "$@"
    wait_for 10 listens gw1 8080
    begin_log cnapt
    run_cnapt
    wait_for 5 runs
    claim "$kind: it comes up" up
    took=$(until_up)
    claim "$kind: within a second ($took s)" at_most "$took" 1
    claim "$kind: by the other uplink" is_active up2
    claim "$kind: traffic passes" in_ns node ping -n -c 1 -W 2 $inet4
    stop cnapt
    stop portal
}
comes_up "a portal" "$python" "$support_dir/portal.py" --port 8080 --url http://192.168.1.1:8080/login
comes_up "what closes" "$python" -c "$taker" closes
comes_up "what is silent" "$python" -c "$taker" waits

# While it runs: the other uplink is silent for a while, and control is tried by the portal as well.
answers() { timeout 2 cnapt usage --socket "$work/cnapt.sock" >/dev/null 2>&1; }
hole='table inet hole { chain pass { type filter hook forward priority 0; policy drop; }; }'
# loses_control KIND : what stands there takes the connections that control tries.
loses_control() {
    spawn gw1 portal "$python" -c "$taker" "$1"
    wait_for 10 listens gw1 8080
    in_ns gw2 nft "$hole"
    spawn node ping ping -q -n -i 0.2 $inet4
    sleep 5
    in_ns gw2 nft delete table inet hole
    claim "$1: after a silence of the uplink that works control is there again" wait_for 15 answers
    claim "$1: and traffic passes" in_ns node ping -n -c 1 -W 2 $inet4
    stop ping
    stop portal
}
run_cnapt
claim "once more it comes up" up
loses_control closes
loses_control waits
finish
