#!/usr/bin/env bash
# A policy refuses flows that need more than a SNAPT can carry, which is known once the path to it was full: one that needs more is
# refused at once, and one that needs less is let in.
. "$(dirname "$0")/lib.sh"
require socat
uplink_cable=emulated_cable
build_topology
cable_set gw1-wan both rate 2M delay 10ms queue 100
start_snapt 1
add_user alice
policy_file=$work/policy.toml
cat >"$policy_file" <<'TOML'
version = 1

[admission]
when_unmet = "refuse"

[[rule]]
app = "wide"
match = { proto = "tcp", dport = 7001 }
class = "ht-hd"
min_bits_per_s = 5000000

[[rule]]
app = "narrow"
match = { proto = "tcp", dport = 7002 }
class = "ht-hd"
min_bits_per_s = 500000
TOML
start_cnapt
for port in 7001 7002; do
    spawn inet "sink$port" socat -u TCP4-LISTEN:$port,fork,reuseaddr /dev/null
    wait_for 10 listens inet $port
done

connects() { in_ns node socat -u OPEN:/dev/null "TCP4:$inet4:$1,connect-timeout=5" 2>"$work/connect.log"; }
is_refused() { ! connects "$1" && grep -q 'Connection refused' "$work/connect.log"; }
spawn node upload socat -u OPEN:/dev/urandom "TCP4:$inet4:7002"
# Its queue stands, so that the rate is the path's and not the upload's.
is_full() { cnapt_json paths | json_true "[1.6e6 < (p['delivery_bits_per_s'] or 0) < 2.2e6 and p['rtt_ms'] > 2 * p['minimum_rtt_ms'] and p['delivered_bytes'] > 500000 for p in d if p['active']] == [True]"; }
claim "an upload fills the path" wait_for 20 is_full
claim "a flow that needs 5 Mbit/s is refused at once" wait_for 5 is_refused 7001
claim "one that needs 0.5 Mbit/s is let in" connects 7002
stop upload
finish
