#!/usr/bin/env bash
# The shortest way to a tunnel, as an operator would type it, works as it stands. It uses the namespaces node, snapt and
# inet by these names, and is skipped where somebody else has one of them.
. "$(dirname "$0")/lib.sh"
require ping
for name in node snapt inet; do
    [ ! -e "/run/netns/$name" ] || skip "a namespace $name is there already"
done

run_sample() { timeout 50 "$lib_dir/by-hand-sample.sh" >"$work/sample.log" 2>&1; }
claim "the sample runs to its end" run_sample
claim "three pings are answered by the Internet host" grep -q ' 3 received' "$work/sample.log"
claim "cnapt shows the flow" grep -q 'icmp.*198\.51\.100\.2' "$work/sample.log"
claim "snapt shows the session" grep -q 'alice' "$work/sample.log"
nothing_left() { ! ls /run/netns | grep -qx 'node\|snapt\|inet'; }
claim "nothing is left behind" nothing_left
finish
