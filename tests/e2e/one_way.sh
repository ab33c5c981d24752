#!/usr/bin/env bash
# An uplink of which one direction dies while the other carries on is left for another one that works: beside a TCP
# connection and a stream of datagrams down, and beside both up. No connection notices.
#
# The bound of 2.8 s (docs/PROTOCOL.md section 5.1): T_doubt is 2 s at most. Proof of what was sent before still comes in for a
# T_report and the way back, 0.4 s with the queues of these links full; the other uplink answers within 0.1 s, and the first packet
# that comes by it ends the move, within 0.3 s. Datagrams miss no more than that. TCP tries again after intervals that double (RFC 6298), so
# it misses twice as much.
. "$(dirname "$0")/lib.sh"
require ethtool
uplink_cable=emulated_cable
build_topology
two_uplinks
cable_set gw1-wan both delay 20ms rate 12M queue 100
cable_set gw2-wan both delay 20ms rate 12M queue 100
start_snapt 1
add_user alice
start_cnapt

# traffic.py ROLE ADDRESS PORT LOG : who receives logs "UNIX_TIME NUMBER-OR-BYTES".
# tcp-serve sends and tcp-take receives what the first connection brings, from tcp-get and tcp-put; udp-serve sends a
# datagram every 10 ms to whom sent a first word, udp-listen, and udp-take receives those of udp-put.
cat >"$work/traffic.py" <<'END'
import itertools, os, socket, struct, sys, time
role, address, port, log = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

def accept():
    server = socket.create_server((address, port))
    connection, _ = server.accept()
    server.close()
    return connection
def push(connection):
    while True:
        connection.sendall(os.urandom(65536))
def read(connection):
    total = 0
    with open(log, "w", buffering=1) as out:
        while data := connection.recv(65536):
            total += len(data)
            out.write(f"{time.time():.6f} {total}\n")
def send(flow, peer):
    began = time.monotonic()
    for number in itertools.count():
        try:
            flow.sendto(struct.pack("!I", number) + os.urandom(196), peer)
        except OSError:
            pass  # no route for a moment: a lost packet
        time.sleep(max(0, began + number * 0.01 - time.monotonic()))
def receive(flow):
    with open(log, "w", buffering=1) as out:
        while True:
            number, = struct.unpack_from("!I", flow.recv(2048))
            out.write(f"{time.time():.6f} {number}\n")
def datagrams(bound=False):
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if bound:
        flow.bind((address, port))
    return flow

if role == "tcp-serve":
    push(accept())
elif role == "tcp-take":
    read(accept())
elif role == "tcp-get":
    read(socket.create_connection((address, port)))
elif role == "tcp-put":
    push(socket.create_connection((address, port)))
elif role == "udp-serve":
    flow = datagrams(True)
    send(flow, flow.recvfrom(2048)[1])
elif role == "udp-take":
    receive(datagrams(True))
elif role == "udp-listen":
    flow = datagrams()
    flow.sendto(bytes(4), (address, port))
    receive(flow)
elif role == "udp-put":
    send(datagrams(), (address, port))
END
traffic() { spawn "$1" "$2" "$python" "$work/traffic.py" "$2" "$inet4" "$3" "$work/$2.times"; }
is_there() { in_ns inet ss -Hln"$1" "sport = :$2" | grep -q .; }

# The gateway loses what the node sends (up) or what SNAPT sends (down); TCP of the control link too.
kill_direction() {
    local from=lan
    [ "$2" = up ] || from=wan
    in_ns "gw$1" nft "add table inet hole; add chain inet hole pass { type filter hook forward priority 0; }; add rule inet hole pass iifname $from drop"
}
sum() { "$python" -c 'import sys; print(sum(map(float, sys.argv[1:])))' "$@"; }
revive() { in_ns "gw$1" nft delete table inet hole; }
state_of() { cnapt_json paths | json "[p['state'] for p in d if p['interface'] == '$1'][0]"; }
# left_within SECONDS FROM : up1 for up2, by the time that cnapt logs: to ask it takes long on a busy machine.
left_within() {
    local at
    wait_for 10 has_left "$2" || return
    took=$(since "$2" "$at")
    at_most "$took" "$1"
}
has_left() {
    at=$(sed -n 's/ .*moved from .* to up2 .*//p' "$work/cnapt.log" | tail -n 1)
    at=$(date -d "${at:-@0}" +%s.%N)
    more_than "$at" "$1"
}
taken_back() { claim "the better uplink is taken back when it works both ways" wait_for 60 is_active up1; }

# --- Down traffic: the direction up dies, then the direction down
traffic inet tcp-serve 8000
traffic inet udp-serve 6000
wait_for 10 is_there t 8000
wait_for 10 is_there u 6000
traffic node tcp-get 8000
traffic node udp-listen 6000
wait_for 10 arrived 3000000 tcp-get.times
wait_for 10 arrived 100 udp-listen.times
claim "the uplink of the smaller metric is in use" is_active up1

# sender_rto_s TCP-LOG
sender_rto_s() {
    local at=inet port='sport = :8000'
    [ "$1" = tcp-get.times ] || at=node port='dport = :8001'
    in_ns $at ss -tinH "$port" | sed -n 's/.* rto:\([0-9.]*\).*/\1/p' | "$python" -c 'print(max(float(line) for line in open(0)) / 1000)'
}
# dies DIRECTION TCP-LOG UDP-LOG : of up1, while both receive.
dies() {
    local began gap before rto
    rto=$(sender_rto_s "$2") began=$EPOCHREALTIME
    takes_effect kill_direction 1 "$1"
    claim "nothing gets $1: the uplink is left within 2.8 s" left_within 2.8 "$began"
    echo "      after $took s"
    before=$(have "$2")
    claim "the connection goes on" wait_for 20 arrived $((before + 2000000)) "$2"
    gap=$(longest_gap "$began" "$2")
    # Its sender's first attempt after that (RFC 6298).
    claim "it was silent for twice that and an RTO ($rto s) at most ($gap s)" at_most "$gap" "$(sum "$took" "$took" "$rto" 0.3)"
    gap=$(longest_gap "$began" "$3")
    claim "the datagrams were for no longer than that ($gap s)" at_most "$gap" "$(sum "$took" 0.3)"
    revive 1
    taken_back
    before=$(have "$2")
    wait_for 20 arrived $((before + 2000000)) "$2"
}
dies up tcp-get.times udp-listen.times
dies down tcp-get.times udp-listen.times
reported_down() { snapt_json 1 sessions | json_true "d[0]['loss'] is not None and d[0]['delivery_bits_per_s'] > 1000000"; }
claim "loss and delivery rate down are known at the SNAPT" wait_for 5 reported_down

# --- The node itself has nothing to say: SNAPT asks over control, after 2 s at most if it has asked a moment before, and the node
# waits 1 s at most for its answer.
stop tcp-get
stop tcp-serve
sleep 2  # what was under way
began=$EPOCHREALTIME
takes_effect kill_direction 1 up
claim "beside a stream down alone: the uplink whose way up is dead is left within 4 s" left_within 4 "$began"
echo "      after $took s"
revive 1
taken_back
stop udp-listen
stop udp-serve

# --- Up traffic
traffic inet tcp-take 8001
traffic inet udp-take 6001
wait_for 10 is_there t 8001
wait_for 10 is_there u 6001
traffic node tcp-put 8001
traffic node udp-put 6001
wait_for 10 arrived 3000000 tcp-take.times
wait_for 10 arrived 100 udp-take.times
dies up tcp-take.times udp-take.times
dies down tcp-take.times udp-take.times
reported() {
    cnapt_json paths | json_true "[p['loss'] is not None and p['delivery_bits_per_s'] > 1000000 for p in d if p['active']] == [True]"
}
claim "loss and delivery rate up are known at the node" wait_for 5 reported
claim "no path was in doubt but those" equal "$(cnapt_json status | json "d['handovers']['count'] - 10")" 0
finish
