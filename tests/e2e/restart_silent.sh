#!/usr/bin/env bash
# SNAPT is killed and started again where nothing tells the node that its control connection is gone, as behind a firewall that
# drops resets: the new one's word that it does not know the session is enough.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice
start_cnapt
spawn node ping ping -n -i 0.1 "$inet4"
replies() { grep -c 'bytes from' "$work/ping.log"; }
go_on() { local before; before=$(replies); wait_for 10 more_replies $((before + 5)); }
more_replies() { [ "$(replies)" -gt "$1" ]; }
has_session() { [ "$(snapt_json 1 sessions | json 'len(d)')" = 1 ]; }
leases() { snapt_json 1 sessions | json "[(s['inner_ipv4'], s['inner_ipv6']) for s in d]"; }
claim "pings are answered" go_on
first=$(leases)
in_ns snapt1 nft -f - <<'END'
table inet silence {
    counter told { }
    chain out {
        type filter hook output priority 0
        tcp sport 9347 tcp flags & (rst | fin) != 0 counter name told drop
    }
}
END
for round in 1 2; do
    stop snapt1 KILL
    sleep 0.3
    start_snapt 1
    up=$EPOCHREALTIME
    wait_for 30 has_session
    took=$(since "$up")
    claim "$round: the session is back two seconds after snapt is ($took s)" at_most "$took" 2
    claim "$round: with the same leases" equal "$(leases)" "$first"
    claim "$round: pings are answered again" go_on
done
told=$(in_ns snapt1 nft list counter inet silence told | sed -n 's/.*packets \([0-9]*\) .*/\1/p')
claim "nothing else told the node ($told packets were dropped)" more_than "$told" 1
finish
