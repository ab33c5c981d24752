#!/usr/bin/env bash
# The kernel's tracked connections of a lease are bounded, also over restarts of snapt, and end before another node gets the lease.
# So are those of a user whose nodes change their names, and answered ones.
. "$(dirname "$0")/lib.sh"
require conntrack
build_topology
mkdir "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$(snapt_address 1):9347" >"$work/init.log" 2>&1
# Two flows a user, so 8 connections a lease; and one lease.
sed -i -e 's/^user_flows = .*/user_flows = 2/' -e 's|^ipv4 = .*|ipv4 = "100.64.0.0/30"|' -e 's|^ipv6 = .*|ipv6 = false|' "$work/snapt1.toml"
start_snapt 1
add_user bob
cp "$work/cnapt.toml" "$work/bob.toml"
add_user alice
start_cnapt

# Each datagram that comes becomes a line "TEXT PORT-OF-SENDER" of $work/arrived.
spawn inet far "$python" -uc 'import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", 5000))
log = open(sys.argv[1], "w", buffering=1)
while True:
    text, sender = s.recvfrom(2000)
    log.write(f"{text.decode()} {sender[1]}\n")
    s.sendto(b"answer", sender)' "$work/arrived"
wait_for 10 eval 'in_ns inet ss -Huln "sport = :5000" | grep -q .'
# send PORT : from that inner port; tells how it went.
send() {
    in_ns node "$python" -c 'import errno, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
s.connect((sys.argv[2], 5000))
s.settimeout(5)
try:
    s.send(sys.argv[1].encode())
    print(s.recv(100).decode())
except OSError as error:
    print(errno.errorcode.get(error.errno, error))' "$1" $inet4
}
arrives() { send "$1" >/dev/null; grep -q "^$1 " "$work/arrived"; }
refused() { snapt_json 1 status | json 'd["drops"]["connection_limit"]'; }
tracked() { in_ns snapt1 conntrack -L -p udp 2>/dev/null | grep -c "src=100.64.0.2 " || true; }
login_again() { stop cnapt; start_cnapt; }

port=10000
fill() { # two connections more, which is what a session's flows allow
    local i
    for i in 1 2; do
        port=$((port + 1))
        wait_for 10 arrives $port || { echo "FAIL  port $port"; claims_failed=$((claims_failed + 1)); }
    done
}
fill
login_again
fill
stop snapt1 KILL
start_snapt 1
login_again
fill
snapt reload --socket "$(snapt_socket 1)" >>"$work/snapt1.log"
login_again
fill
claim "connections outlive the flows of their sessions" equal "$(tracked) $(refused)" "8 0"
stop snapt1 USR2
start_snapt 1
login_again
claim "above the limit a new one is refused with a word, after restarts too" equal "$(send 20000)" EHOSTUNREACH
claim "and counted" more_than "$(refused)" 0
claim "and not tracked" equal "$(tracked)" 8
claim "the snapt says so" eval 'snapt status --socket "$(snapt_socket 1)" | grep -q connection_limit'

# Another user gets the lease when it has expired.
stop cnapt
"$python" -c 'import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=10)
database.execute("UPDATE lease SET expires=0")
database.commit()' "$work/s1/ledger.db"
cp "$work/bob.toml" "$work/cnapt.toml"
rm -rf "$work/c"
start_cnapt
claim "another user has the lease" equal "$(snapt_json 1 sessions | json '[(s["user"], s["inner_ipv4"]) for s in d]')" "[('bob', '100.64.0.2')]"
claim "and nothing of the former one is tracked" equal "$(tracked)" 0
claim "so it has connections of its own" wait_for 10 arrives 30000
stop snapt1
claim "a regular end leaves no connection" equal "$(tracked)" 0
claim "a regular end leaves no table" equal "$(in_ns snapt1 nft list tables)" ""

# One user cannot fill the kernel's table, neither with the connections of one session nor of one after the other. The table is
# the machine's, so another size of it is only shown to snapt: sessions of a user have a quarter of 1024, 64 each and version.
stop cnapt
table=1024
echo $table >"$work/table"
mkdir "$work/s2"
in_ns snapt2 snapt init --config "$work/snapt2.toml" --state "$work/s2" --name zrh-2 --public "$(snapt_address 2):9347" >>"$work/init.log" 2>&1
sed -i 's/^user_sessions = .*/user_sessions = 2/' "$work/snapt2.toml"
claim "a user may have two sessions" grep -q '^user_sessions = 2' "$work/snapt2.toml"
spawn snapt2 snapt2 sh -c 'mount --bind "$0" /proc/sys/net/netfilter/nf_conntrack_max && exec "$@"' "$work/table" \
    snapt run --config "$work/snapt2.toml" --state "$work/s2" --socket "$(snapt_socket 2)"
snapt status --wait up --timeout 15 --socket "$(snapt_socket 2)" >>"$work/snapt2.log" 2>&1 || { echo "snapt2 did not come up"; exit 1; }
claim "the log says that the table is small" grep -q 'a node may have 64 connections of each IP version' "$work/snapt2.log"
add_user bob 2
cp "$work/cnapt.toml" "$work/bob.toml"
add_user mallory 2
cp "$work/cnapt.toml" "$work/mallory.toml"
begin_as() { # begin_as USER NODE
    ! is_alive cnapt || stop cnapt
    cp "$work/$1.toml" "$work/cnapt.toml"
    sed -i "s/^# node = .*/node = \"$2\"/" "$work/cnapt.toml"
    rm -rf "$work/c"
    start_cnapt
}
hold() { # hold HOST COUNT : so many flows, until one is refused; how many are answered
    in_ns node "$python" -c 'import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
flows = []
for i in range(int(sys.argv[2])):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.connect((sys.argv[1], 5000))
    s.settimeout(5)
    try:
        s.send(b"x")
        s.recv(100)
        flows.append(s)
    except OSError:
        break
print(len(flows))' "$1" "$2"
}
held() { in_ns snapt2 conntrack -L -f "$1" 2>/dev/null | grep -c 'dport=5000 ' || true; }
for name in n1 n2 n3 n4; do
    begin_as mallory $name
    claim "$name of mallory is known by that name" equal "$(snapt_json 2 sessions | json '[(s["user"], s["node"]) for s in d]')" "[('mallory', '$name')]"
    for host in $inet4 $inet6; do
        claim "$name, $host: of 100 flows 64 are answered, as the bound of a lease is" equal "$(hold $host 100)" 64
    done
done
is_within() { at_most "$(held ipv4)" $((2 * 64)) && at_most "$(held ipv6)" $((2 * 64)); }
claim "those of two sessions are tracked, the others forgotten ($(held ipv4) of IPv4, $(held ipv6) of IPv6)" wait_for 5 is_within
claim "that is what the user has" more_than $(($(held ipv4) + $(held ipv6))) $((table / 4 - 1))
begin_as bob laptop
claim "another user has its own part" equal "$(hold $inet4 50) $(hold $inet6 50)" "50 50"

finish
