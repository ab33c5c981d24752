#!/usr/bin/env bash
# The uplink of the better metric leads nowhere, or dies, and the other one lets no UDP pass: the SNAPT is reached by the one that
# works, over TCP if need be, and the control link follows the data.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
two_uplinks
start_snapt 1
add_user alice
swallow() { in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; policy drop; }"; }
block_udp() { in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; }; add rule inet hole pass udp dport 9347 drop"; }
open() { in_ns "gw$1" nft delete table inet hole; }
pings() { in_ns node ping -n -q -c 1 -W 1 $inet4; }
transport() { cnapt_json status | json "d['sessions'][0]['transport']"; }
goes_over() { equal "$(transport)" "$1"; }
# control_by N : the control link begins at the address of uplink N, and answers.
control_by() { in_ns node ss -Htn state established 'dport = :9347' | grep -q "192.168.$1.2[%:]" && timeout 2 cnapt usage --socket "$work/cnapt.sock" >/dev/null 2>&1; }
carries_by() { pings && goes_over "$1"; }  # an idle node notices nothing

# The first of its addresses leads nowhere either: each is tried by each uplink.
sed -i 's/"198.51.100.2:9347"/"192.0.2.254:9347", &/' "$work/cnapt.toml"
swallow 1
run_cnapt
wait_cnapt 40
claim "a SNAPT that the better uplink does not reach is reached by the other" wait_for 5 carries_by udp
claim "by it" is_active up2
claim "as control" control_by 2
open 1
claim "the better one is taken when it delivers" wait_for 20 is_active up1
claim "and control follows" wait_for 10 control_by 1

block_udp 2
ip -n "$(ns gw1)" link set lan down
claim "without carrier it gives way to TCP by the other" wait_for 15 carries_by tcp
claim "with control" wait_for 5 control_by 2
ip -n "$(ns gw1)" link set lan up
claim "and UDP by the first is taken back" wait_for 20 carries_by udp
claim "with control" wait_for 10 control_by 1

swallow 1
claim "when it is silent, too, within five seconds" wait_for 5 carries_by tcp
claim "with control" wait_for 5 control_by 2
open 1
claim "and UDP by the first is taken back" wait_for 30 carries_by udp

open 2
ip -n "$(ns node)" addr del 192.168.2.2/24 dev up2
block_udp 1
claim "alone and without UDP it carries TCP" wait_for 20 carries_by tcp
ip -n "$(ns node)" addr add 192.168.2.2/24 dev up2
ip -n "$(ns node)" route add default via 192.168.2.1 dev up2 metric 200
claim "an uplink with UDP comes and is taken" wait_for 20 carries_by udp
claim "and control follows" wait_for 10 control_by 2
ip -n "$(ns node)" addr del 192.168.1.2/24 dev up1
claim "so that the first may go" wait_for 5 pings
claim "which control does not notice" control_by 2
finish
