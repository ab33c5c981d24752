#!/usr/bin/env bash
# A SNAPT at two ports, 9347 and 443: where the way to one of them is closed, the other one is found, for datagrams and for
# the control link.
. "$(dirname "$0")/lib.sh"
require curl
build_topology
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" \
    --public "$(snapt_address 1):443" >"$work/init.out" 2>&1
start_snapt 1
listens_at() { in_ns snapt1 ss -Hln"$1" "sport = :$2" | grep -q .; }
claim "the SNAPT takes datagrams at both ports" eval "listens_at u 9347 && listens_at u 443"
claim "and control links" eval "listens_at t 9347 && listens_at t 443"
add_user alice
claim "a user's file names both" equal "$(grep -c '198.51.100.2:443' "$work/cnapt.toml")" 1

mkdir "$work/www"
head -c 200000 /dev/urandom >"$work/www/small"
http_server "$work/www"
fetches() { equal "$(in_ns node curl -sS -m 20 "http://$inet4/small" | wc -c)" 200000; }
session() { cnapt_json status | json "d['sessions'][0]['$1']"; }
is_at() { equal "$(session address) $(session transport)" "$(snapt_address 1):$1 udp"; }
is_over_tcp() { equal "$(session transport)" tcp; }
# close PROTOCOL PORT : on the way, for what comes from now on and before.
close() {
    in_ns gw1 nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; };
        add rule inet hole pass $1 dport $2 drop; add rule inet hole pass $1 sport $2 drop"
}

start_cnapt
claim "the first port is in use" is_at 9347
close udp 9347
claim "a command goes on where its port is closed" fetches
claim "the other port is found" wait_for 20 is_at 443
claim "and carries what applications send" fetches

stop cnapt
close tcp 9347
start_cnapt
claim "a node comes in by the other port, control link and datagrams" wait_for 20 is_at 443
claim "which carries what applications send" fetches

stop cnapt
close udp 443
start_cnapt
claim "where nothing but TCP to 443 passes, data goes over it" wait_for 20 is_over_tcp
claim "and carries what applications send" fetches

# Each port costs an announcement when it is tried.
stop cnapt
in_ns gw1 nft delete table inet hole
start_cnapt
claim "the first port is in use again" wait_for 10 is_at 9347
stop snapt1
is_dead() { in_ns node ping -n -q -c 1 -W 1 $inet4; cnapt_json paths | json_true "[p['state'] for p in d] == ['dead']"; }
claim "a SNAPT that is away is dead" wait_for 20 is_dead
in_ns gw1 nft "table inet asked { chain pass { type filter hook forward priority 0; udp dport { 443, 9347 } counter; }; }"
asked() { in_ns gw1 nft list table inet asked | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
sleep 20
count=$(asked)
claim "and is asked" more_than "$count" 0
claim "ever less by a node that has nothing to send ($count datagrams in 20 s)" at_most "$count" 80
finish
