#!/usr/bin/env bash
# Destinations that nodes may not reach are rejected at once, not swallowed: the SNAPT's own host, other nodes, denied prefixes.
# `allow_self` opens single services of the host.
. "$(dirname "$0")/lib.sh"
require ping
uplink_cable=emulated_cable policy_file=$work/policy.toml
printf 'version = 1\n\n[admission]\nwhen_unmet = "refuse"\n\n[[rule]]\napp = "urgent"\nmatch = { dport = 81 }\nmax_delay_ms = 1\n' >"$policy_file"
one_tunnel

self4=198.51.100.2 self6=2001:db8:1::2
# outcome HOST PORT : what the first program of a user would see.
outcome() {
    in_ns node "$python" -c '
import os, socket, sys, time
began = time.monotonic()
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as connection:
        connection.sendall(b"hello")
        word = connection.recv(100).decode()
except TimeoutError:
    word = "swallowed"
except OSError as error:
    word = os.strerror(error.errno)
print(word if time.monotonic() - began < 3 else "late: " + word)' "$@"
}
# An application hears at once that it may not: EHOSTUNREACH over IPv4, EACCES over IPv6. The kernel sends six such errors to a node
# at once and then one a second, so no more are asked for.
# Private ones that the SNAPT denies are not asked for there (names_own_network.sh): those for benchmarks and of 6to4 are.
for host in $self4 100.64.0.1 100.64.0.77 198.18.0.1; do
    claim "TCP to $host is rejected" equal "$(outcome $host 22)" "No route to host"
done
for host in $self6 fd93:47::1 fd93:47::77 2002:a01:203::1; do
    claim "TCP to $host is rejected" equal "$(outcome $host 22)" "Permission denied"
done
ping_says() { in_ns node ping -n -c 1 -W 3 "$1" >"$work/ping"; cat "$work/ping"; grep -q "$2" "$work/ping"; }
claim "a ping of the server says why" ping_says $self4 "Packet filtered"
claim "and of another node" ping_says 100.64.0.77 "Packet filtered"
claim "and over IPv6" ping_says $self6 "Administratively prohibited"

# A flow that needs a shorter delay than any SNAPT has, where the policy says so.
cable_set gw1-wan both delay 10ms
is_far() {
    in_ns node ping -n -q -c 1 -W 1 $inet4 >/dev/null
    cnapt_json status | json_true "d['sessions'][0]['one_way_ms'] > 2"
}
claim "the SNAPT is more than 1 ms away" wait_for 10 is_far
claim "a flow that needs 1 ms is refused" equal "$(outcome 203.0.113.9 81)" "Connection refused"
urgent() { cnapt_json flows | json_true "[f['refused_reason'] for f in d if f['dst'] == '203.0.113.9'] == ['no SNAPT meets the delay']"; }
claim "flows says why" urgent
cable_set gw1-wan both delay 0ms

relay_counter() { in_ns snapt1 nft list counter inet continuo_snapt_snapt0 "$1" | sed -n 's/.*packets \([0-9]*\) .*/\1/p'; }
claim "they are counted" equal "$(relay_counter to_self) $(relay_counter client_to_client) $(relay_counter denied)" "6 3 2"

# With a service allowed. It says who asks.
spawn snapt1 service "$python" -c '
import socket, threading
def serve(port):
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        connection, peer = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(peer[0].encode())
threading.Thread(target=serve, args=(23,), daemon=True).start()
serve(22)'
wait_for 10 listens snapt1 22
wait_for 10 listens snapt1 23
stop snapt1
sed -i 's/^allow_self = .*/allow_self = ["tcp\/22", "ping"]/' "$work/snapt1.toml"
start_snapt 1
# cnapt may not have noticed yet that the SNAPT was away, so ask the SNAPT.
has_session() { snapt_json 1 sessions | json_true "len(d) == 1"; }
claim "the node is back" wait_for 10 has_session
lease4=$(snapt_json 1 sessions | json "d[0]['inner_ipv4']")
lease6=$(snapt_json 1 sessions | json "d[0]['inner_ipv6']")
for host in $self4 100.64.0.1; do
    claim "the allowed service at $host answers" equal "$(outcome $host 22)" "::ffff:$lease4"
    claim "another port of $host is rejected" equal "$(outcome $host 23)" "No route to host"
    claim "$host answers a ping" in_ns node ping -n -q -c 1 -W 3 $host
done
claim "the allowed service at $self6 answers" equal "$(outcome $self6 22)" "$lease6"
claim "another port of $self6 is rejected" equal "$(outcome $self6 23)" "Permission denied"
claim "status tells what is allowed" equal "$(snapt_json 1 status | json "d['allow_self']")" "['tcp/22', 'ping']"
finish
