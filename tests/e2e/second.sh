#!/usr/bin/env bash
# A second daemon on the state of a running one is refused and takes nothing away from it.
. "$(dirname "$0")/lib.sh"
require ping
one_tunnel
works() { in_ns node ping -n -c 2 -i 0.1 -W 5 $inet4; }
claim "traffic passes" works
snapshot node >"$work/node.before"
refused() { ! in_ns "$@"; }
claim "a second cnapt is refused" refused node timeout 20 cnapt run --config "$work/cnapt.toml" --state "$work/c" --socket "$work/second.sock"
same() { diff "$work/node.before" <(snapshot node); }
claim "and leaves rules, routes and nftables of the first alone" same
device() { ip -n "$(ns snapt1)" -o link show snapt0 | cut -d: -f1; }
before=$(device)
claim "a second snapt is refused" refused snapt1 timeout 20 snapt run --config "$work/snapt1.toml" --state "$work/s1" --socket "$work/second.sock"
claim "and leaves the device of the first alone" equal "$(device)" "$before"
# Of its own but for the device.
sed 's/9347/9348/g' "$work/snapt1.toml" >"$work/other.toml"
mkdir "$work/other"
other() {
    local code=0
    in_ns snapt1 timeout 20 snapt run --config "$work/other.toml" --state "$work/other" --socket "$work/other.sock" 2>"$work/other.log" || code=$?
    equal "$code" 1
}
claim "a snapt with the first one's device is refused" other
claim "because the device is in use" grep -q 'TUN device snapt0.*busy' "$work/other.log"
claim "and leaves the device of the first alone, too" equal "$(device)" "$before"
claim "traffic still passes" works
finish
