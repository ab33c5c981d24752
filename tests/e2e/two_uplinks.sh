#!/usr/bin/env bash
# Two uplinks of 10 Mbit/s each at once: with mode "packet" one TCP connection, and with mode "flow" several, get more than
# one uplink has, in both directions; when one of them dies the transfer goes on. How much more is a figure of bench multipath.
. "$(dirname "$0")/lib.sh"
require iperf3 tc
build_topology
two_uplinks
rate=10  # Mbit/s of each
limit() { ip netns exec "$(ns "$1")" tc qdisc replace dev "$2" root handle 1: tbf rate ${rate}mbit burst 32kb latency 60ms; }
for n in 1 2; do
    limit "gw$n" wan
    limit core "gw$n"
done
start_snapt 1
add_user alice
spawn inet iperf iperf3 -s
wait_for 10 listens inet 5201 || { echo "no iperf3"; exit 1; }
policy_file=$work/policy.toml

with_mode() { # MODE: cnapt, anew, with that policy
    printf 'version = 1\n\n[[rule]]\napp = "transfer"\nmatch = { proto = "tcp", dport = 5201 }\nclass = "ht-hd"\nmode = "%s"\n' "$1" >"$policy_file"
    if is_alive cnapt; then stop cnapt; fi
    start_cnapt
}
# megabits ARGUMENT... : of the receiver, of which the next claim speaks.
megabits() {
    local began=$EPOCHREALTIME
    in_ns node iperf3 -c $inet4 -t 6 -O 2 -J "$@" >"$work/iperf.json" 2>&1
    speaks_of "$began" "$EPOCHREALTIME" 6
    "$python" -c 'import json,sys; print(round(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] / 1e6, 1))' "$work/iperf.json"
}

with_mode handover
one=$(megabits)
echo "      handover: $one Mbit/s up"
claim "one uplink has no more than $rate Mbit/s" at_most "$one" $rate

with_mode packet
for way in up down; do
    got=$(megabits $([ $way = down ] && echo -R))
    echo "      packet, one connection: $got Mbit/s $way"
    claim "mode packet: one connection gets more than one uplink has $way" more_than "$got" $rate
done
claim "packets were put in order at the node" more_than "$(cnapt_json status | json "d['sessions'][0]['order']['held']")" 0
claim "and at the SNAPT" more_than "$(snapt_json 1 sessions | json "d[0]['order']['held']")" 0

began=$EPOCHREALTIME
in_ns node iperf3 -c $inet4 -t 12 -J >"$work/dying.json" 2>&1 &
transfer=$!
sleep 4
ip -n "$(ns gw2)" link set wan down
wait "$transfer"
rates() { json "[round(i['sum']['bits_per_second'] / 1e6, 1) for i in d['intervals']]" <"$work/dying.json"; }
echo "      up, second by second, one uplink dies after 4 s: $(rates)"
speaks_of "$began" "$EPOCHREALTIME" 1  # each second of it
claim "with one uplink dead the transfer goes on" json_true "min(i['sum']['bits_per_second'] for i in d['intervals'][-3:]) > 5e6" <"$work/dying.json"
ip -n "$(ns gw2)" link set wan up
ip -n "$(ns gw2)" route replace default via 192.0.2.5

with_mode flow
for way in up down; do
    got=$(megabits -P 6 $([ $way = down ] && echo -R))
    echo "      flow, six connections: $got Mbit/s $way"
    claim "mode flow: six connections get more than one uplink has $way" more_than "$got" $rate
done
finish
