#!/usr/bin/env bash
# The shortest way to a tunnel, as an operator would type it, works as it stands. Its namespaces have fixed names, so it
# sees a /run/netns of its own.
. "$(dirname "$0")/lib.sh"
require ping unshare

run_sample() {
    unshare -m sh -c 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && timeout 50 "$1" && ls /run/netns >"$2"' - \
        "$lib_dir/by-hand-sample.sh" "$work/left" >"$work/sample.log" 2>&1
}
claim "the sample runs to its end" run_sample
claim "three pings are answered by the Internet host" grep -q ' 3 received' "$work/sample.log"
claim "cnapt shows the flow" grep -q 'icmp.*198\.51\.100\.2' "$work/sample.log"
claim "snapt shows the session" grep -q 'alice' "$work/sample.log"
nothing_left() { [ -e "$work/left" ] && [ ! -s "$work/left" ]; }
claim "nothing is left behind" nothing_left
finish
