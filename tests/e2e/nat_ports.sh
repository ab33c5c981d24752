#!/usr/bin/env bash
# Ports that NAT must not hand out: a user whose connection had one of them would get what others send to the SNAPT, or to
# another service of its host. And what else passes the host: a redirected port, a LAN behind it.
. "$(dirname "$0")/lib.sh"
require ping conntrack
build_topology
new_stranger  # the victim: what it sends comes from 192.0.2.130, port 5000
victim=192.0.2.130
host=$(snapt_address 1)

# The SNAPT is also reached at 443, which a rule of its host redirects. NAT may hand out any port.
in_ns snapt1 nft "add table ip front; add chain ip front pre { type nat hook prerouting priority dstnat; };
    add rule ip front pre udp dport 443 redirect to :9347; add rule ip front pre tcp dport 443 redirect to :9347"
# The node's way to the other port is closed.
in_ns snapt1 nft "add chain ip front raw { type filter hook prerouting priority raw; };
    add rule ip front raw ip saddr 192.0.2.2 udp dport 9347 drop"
mkdir "$work/s1"
in_ns snapt1 snapt init --config "$work/snapt1.toml" --state "$work/s1" --name zrh-1 --public "$host:443" >"$work/init.log" 2>&1
sed -i -e 's/^listen = .*/listen = ["0.0.0.0:9347", "[::]:9347"]/' -e 's/^source_ports = .*/source_ports = "1-65535"/' "$work/snapt1.toml"
start_snapt 1
add_user mallory
start_cnapt
# And it is the router of a LAN, whose own rule translates whatever leaves.
new_namespace lan
connect lan eth snapt1 lan
address lan eth 192.168.77.2/24
address snapt1 lan 192.168.77.1/24
ip -n "$(ns lan)" route add default via 192.168.77.1
gateway snapt1
by_redirect() { cnapt_json status | json_true 'd["sessions"][0]["address"] == "'"$host"':443" and d["sessions"][0]["transport"] == "udp"'; }
claim "a node reaches the SNAPT at a port that is redirected to its own" in_ns node ping -q -c 1 -W 5 $inet4
claim "over UDP" wait_for 10 by_redirect

# listen_at NS NAME PORT : each datagram that comes becomes a line "PORT-OF-SENDER TEXT" of $work/NAME.
listen_at() {
    spawn "$1" "$2" "$python" -uc 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
log = open(sys.argv[2], "w", buffering=1)
while True:
    text, sender = s.recvfrom(2000)
    log.write(f"{sender[1]} {text.decode()}\n")
    if text.startswith(b"echo"):
        s.sendto(b"answer", sender)' "$3" "$work/$2"
    wait_for 5 bound "$1" "$3"
}
bound() { in_ns "$1" ss -Huln "sport = :$2" | grep -q .; }
# send NS FROM-PORT ADDRESS PORT TEXT : one datagram, beside whoever listens at that port.
send() {
    in_ns "$1" "$python" -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("", int(sys.argv[1])))
s.sendto(sys.argv[4].encode(), (sys.argv[2], int(sys.argv[3])))' "${@:2}"
}
# take_over PORT TEXT : a user of the SNAPT sends that from PORT to the victim's port 5000, as often as it takes.
take_over() {
    try() { send node "$1" $victim 5000 "$2"; grep -q " $2$" "$work/victim"; }
    wait_for 5 try "$1" "$2"
}
seen_from() { sed -n "s/^\([0-9]*\) $1$/\1/p" "$work/victim" | tail -n 1; }
# The victim sends this from its port 5000.
victim_sends() {
    stop victim
    for _ in 1 2 3; do send stranger 5000 "$host" "$1" "$2"; done
    listen_at stranger victim 5000
}
unknown() { snapt_json 1 status | json 'd["drops"]["unknown_session"] + d["drops"]["too_short"] + d["drops"]["bad_version"]'; }
has_grown() { [ "$(unknown)" -ge "$1" ]; }
got() { grep -c " $2$" "$work/$1" || true; }
entries() { in_ns snapt1 conntrack -L 2>/dev/null | grep -c "src=$victim dst=$host sport=5000 dport=$1 .*" || true; }

listen_at stranger victim 5000
claim "a datagram from inner port 9347 reaches a victim" take_over 9347 first
claim "and not from the SNAPT's own port" more_than "$(seen_from first | sed 's/^9347$/0/')" 0
take_over 443 second
claim "nor from one that is redirected to it" more_than "$(seen_from second | sed 's/^443$/0/')" 0
before=$(unknown)
victim_sends 9347 hello
victim_sends 443 hello
claim "what the victim sends to these ports reaches the SNAPT" wait_for 5 has_grown $((before + 6))

# A service that starts later, at a port that a user has.
take_over 51820 third
claim "a port that nobody listens at stays as it is" equal "$(seen_from third)" 51820
claim "and connection tracking knows it" equal "$(entries 51820)" 1
look() { snapt reload --socket "$(snapt_socket 1)" >>"$work/snapt1.log"; }
# listen_tcp PORT : until a look has found it, and so all looks before are over.
listen_tcp() {
    spawn snapt1 "tcp$1" "$python" -c 'import socket, sys, time
s = socket.create_server(("", int(sys.argv[1])))
time.sleep(600)' "$1"
    wait_for 5 eval "in_ns snapt1 ss -Htln 'sport = :$1' | grep -q ."
    look
    wait_for 5 eval "in_ns snapt1 nft list ruleset | grep -q -- '[-:]$(($1 - 1))\b'"
}
listen_tcp 51820
listen_tcp 40000
claim "a listener of another protocol ends no connection" equal "$(entries 51820)" 1
stop tcp51820
listen_at snapt1 service 51820
look
look  # the port is one of those that sockets have for an answer's time
forgotten() { equal "$(entries 51820)" 0; }
claim "a look at who listens forgets that connection" wait_for 5 forgotten
take_over 51820 fourth
claim "from then on that port is not handed out" more_than "$(seen_from fourth | sed 's/^51820$/0/')" 0
victim_sends 51820 hello
claim "what the victim sends to the service reaches it" wait_for 5 equal "$(got service hello)" 3
take_over 51821 fifth
claim "the port beside it is" equal "$(seen_from fifth)" 51821

listen_at snapt2 echo 9347
claim "a LAN behind the SNAPT's host reaches another SNAPT's port" in_ns lan "$python" -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(b"echo", (sys.argv[1], 9347))
assert s.recvfrom(100)[0] == b"answer"' "$(snapt_address 2)"

finish
