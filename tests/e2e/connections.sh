#!/usr/bin/env bash
# The kernel's tracked connections of a lease are bounded, also over restarts of snapt, and end before another node gets the lease.
# Those of a user are, too, whatever its nodes and leases, in a table that all share: others and the host have room.
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

# A friend of mallory outside answers whatever its nodes begin, one under another name after the other, in both IP versions. The
# size of the kernel's table is the machine's: that it is 1024 is only shown to snapt. What the kernel tracks here is counted.
stop cnapt
table=1024
host_part=$((table / 8))
user_part=$(((table - host_part) / 4))
echo $table >"$work/table"
mkdir "$work/s2"
in_ns snapt2 snapt init --config "$work/snapt2.toml" --state "$work/s2" --name zrh-2 --public "$(snapt_address 2):9347" >>"$work/init.log" 2>&1
spawn snapt2 snapt2 sh -c 'mount --bind "$0" /proc/sys/net/netfilter/nf_conntrack_max && exec "$@"' "$work/table" \
    snapt run --config "$work/snapt2.toml" --state "$work/s2" --socket "$(snapt_socket 2)"
snapt status --wait up --timeout 15 --socket "$(snapt_socket 2)" >>"$work/snapt2.log" 2>&1 || { echo "snapt2 did not come up"; exit 1; }
connections() { snapt_json 2 status | json "d['connections']['$1']"; }
claim "the SNAPT knows the table" equal "$(connections table)" $table
claim "and leaves an eighth of it to its host" at_most "$(connections limit)" $((table - host_part))
user_limit=$(connections user_limit)
claim "one user may have a quarter of the rest ($user_limit)" at_most "$user_limit" $user_part
claim "the log says that the table is small" grep -q 'connection tracking of this host has 1024 places: a user may have [0-9]* flows' "$work/snapt2.log"
begin_as() { # begin_as USER NODE
    ! is_alive cnapt || stop cnapt
    [ -e "$work/$1.toml" ] || { add_user "$1" 2 && cp "$work/cnapt.toml" "$work/$1.toml"; }
    cp "$work/$1.toml" "$work/cnapt.toml"
    sed -i "s/^# node = .*/node = \"$2\"/" "$work/cnapt.toml"
    rm -rf "$work/c"
    start_cnapt
}
hold() { # hold HOST COUNT : begins so many flows; how many are answered
    in_ns node "$python" -c 'import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
flows, answered = [], 0
for i in range(int(sys.argv[2])):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.connect((sys.argv[1], 5000))
    s.settimeout(3)
    flows.append(s)
    try:
        s.send(b"x")
        s.recv(100)
        answered += 1
    except OSError:
        pass
print(answered)' "$1" "$2"
}
held() { in_ns snapt2 conntrack -L -f ipv4 2>/dev/null; in_ns snapt2 conntrack -L -f ipv6 2>/dev/null; }
tracks_at_most() { at_most "$(held | grep -c 'dport=5000 ')" "$1"; }
offered=0
first=$inet4 second=$inet6
for name in n1 n2 n3 n4 n5 n6; do
    begin_as mallory $name
    claim "$name of mallory is known by that name" equal "$(snapt_json 2 sessions | json '[(s["user"], s["node"]) for s in d]')" "[('mallory', '$name')]"
    offered=$((offered + $(hold $first 100) + $(hold $second 20)))
    host=$first first=$second second=$host
    claim "$name: the kernel tracks no more of mallory than it may have" wait_for 5 tracks_at_most "$user_limit"
done
claim "more were answered ($offered) than that" more_than "$offered" $((2 * user_limit))
claim "mallory has had its part" more_than "$(held | grep -c 'dport=5000 ')" $((user_limit / 3))
claim "its status has what was refused" more_than "$(snapt_json 2 status | json "d['drops']['flow_limit']")" 0
begin_as zoe laptop
claim "another user has connections of its own" equal "$(hold $inet4 40) $(hold $inet6 40)" "40 40"

# All users together.
for user in carol dave erin grace; do
    begin_as $user n1
    hold $inet4 100 >/dev/null
    begin_as $user n2
    hold $inet6 100 >/dev/null
done
claim "all users together leave the host its part" wait_for 5 tracks_at_most $((table - host_part))
claim "the host itself has connections" in_ns snapt2 ping -n -c 3 -i 0.2 -W 2 $inet4
begin_as frank n1
claim "who comes last has some, too" more_than "$(hold $inet4 40)" 30

finish
