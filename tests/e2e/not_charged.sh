#!/usr/bin/env bash
# A user pays neither for what the server itself refuses nor for what is sent to a node that is gone, and sees the latter
# in a column of its own. Both IP versions; the node vanishes behind a link that is cut off, and by a stop of its process.
. "$(dirname "$0")/lib.sh"
require ping ethtool
uplink_cable=emulated_cable
build_topology
start_snapt 1
add_user alice
start_cnapt
# Each datagram is counted by itself: with offloads several of them would pass as one, whose headers count once.
offload snapt1 wan off
in_ns core nft 'add table inet t; add counter inet t outer; add counter inet t came;
  add chain inet t f { type filter hook forward priority 0; };
  add rule inet t f iifname snapt1 meta l4proto { tcp, udp } th sport 9347 counter name outer;
  add rule inet t f iifname "inet" udp sport 7777 counter name came'
counted() { in_ns core nft list counter inet t "$1" | sed -n 's/.*bytes \([0-9]*\).*/\1/p'; }
outer() { counted outer; }    # what the SNAPT sends to the node, over UDP or TCP
usage() { snapt_json 1 usage --by user | json "sum(r['$1'] for r in d['rows'])"; }
dropped() { snapt_json 1 status | json "d['drops']['$1']"; }

cat >"$work/send.py" <<'PY'
import socket, sys, time
host, packets = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
for n in range(packets):
    try: s.sendto(bytes(1000), (host, 9999))
    except OSError: pass
    time.sleep(0.001)
PY
# --- Refused: denied, this host, another node's lease
for to in 198.18.0.1 198.51.100.2 100.64.0.77 fd00::1 2001:db8:1::2 fd93:47::77 64:ff9b::10.1.1.1; do
    before=$(usage inner_up)
    refused=$(dropped refused)
    in_ns node "$python" "$work/send.py" $to 1000
    claim "nothing that the server refuses ($to) is charged" equal "$(usage inner_up)" "$before"
    claim "of it the rules see little ($to)" more_than "$(dropped refused)" $((refused + 500))
done
claim "the node is told, as before" eval '! in_ns node ping -n -c 2 -W 2 198.18.0.1 >"$work/ping"; grep -q "Packet filtered" "$work/ping"'
before=$(usage inner_up)
in_ns node "$python" "$work/send.py" 203.0.113.10 1000
claim "what goes out is charged" equal "$(($(usage inner_up) - before))" 1028000

# --- A stream to the node: inet answers a socket of it, at the rate in a file
cat >"$work/hole.py" <<'PY'
import socket, sys, time
host = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
n, last = 0, 0
while True:
    if time.time() - last > 1: s.sendto(b"open", (host, 7777)); last = time.time()
    try: n += len(s.recv(65536))
    except OSError: pass
    open(sys.argv[2], "w").write(str(n))
PY
cat >"$work/stream.py" <<'PY'
import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 7777))
_, peer = s.recvfrom(100)
while True: s.sendto(bytes(1000), peer); time.sleep(0.004)
PY
has_come() { [ "$(cat "$work/came" 2>/dev/null || echo 0)" -gt "${1:-0}" ]; }
begin_stream() {
    rm -f "$work/came"
    spawn inet stream "$python" "$work/stream.py"
    wait_for 10 listens inet 7777
    spawn node hole "$python" "$work/hole.py" "$1" "$work/came"
    wait_for 10 has_come 100000
}
end_stream() { stop stream; stop hole; }
second=250000  # bytes at most

is_charged() { [ "$(usage inner_down)" -gt "$1" ]; }
vanishes() { # vanishes HOW BACK
    local charged late sent
    charged=$(usage inner_down) late=$(usage undelivered)
    eval "$2"
    sleep 14  # 10 s make it gone
    sent=$(outer)
    sleep 10
    sent=$(($(outer) - sent))
    claim "$1: nothing more is sent, but what asks for it ($sent bytes)" at_most "$sent" 34000
    claim "$1: three seconds are charged at most" at_most $(($(usage inner_down) - charged)) $((3 * second))
    claim "$1: the rest that was sent is undelivered" more_than $(($(usage undelivered) - late)) $((5 * second))
    charged=$(usage inner_down)
    eval "$3"
    came=$(cat "$work/came")
    claim "$1: the stream goes on when it is back" wait_for 40 has_come $((came + second))
    claim "$1: and is charged" wait_for 10 is_charged $((charged + second / 2))  # behind what waited in the node's sockets
}
begin_stream 203.0.113.10
vanishes "cut off" 'cable_set gw1-wan down' 'cable_set gw1-wan up'
end_stream
begin_stream 2001:db8:3::10
vanishes "stopped, over IPv6" 'kill -STOP "${pid_of[cnapt]}"' 'kill -CONT "${pid_of[cnapt]}"'

# --- Away for some seconds: all that comes for the node is charged, once, though the node gets some of it again
claim "as text, too" eval 'snapt usage --socket "$(snapt_socket 1)" | grep -q UNDELIVERED'
end_stream
sleep 1  # what is under way
late=$(usage undelivered) charged=$(usage inner_down) sent=$(counted came)
begin_stream 2001:db8:3::10
cable_set gw1-wan down
sleep 6
came=$(cat "$work/came")
cable_set gw1-wan up
claim "a shorter silence ends" wait_for 20 has_come $((came + second))
end_stream
claim "and leaves nothing undelivered" equal "$(usage undelivered)" "$late"
sent=$(($(counted came) - sent))
all_is_charged() { equal $(($(usage inner_down) - charged)) "$sent"; }
claim "all that was sent meanwhile is charged, and once" wait_for 5 all_is_charged

# --- 50 Mbit/s into 5: what is lost on the way is charged, as it was sent, but no more. Random, so that each byte of payload is
# on the wire, whatever becomes of headers.
cat >"$work/flood.py" <<'PY'
import os, socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 7777))
_, peer = s.recvfrom(100)
begun, n = time.monotonic(), 0
while time.monotonic() - begun < 10:
    while n * 8000 < (time.monotonic() - begun) * 50e6: s.sendto(os.urandom(1000), peer); n += 1
    time.sleep(0.002)
PY
cable_set gw1-wan b-to-a rate 5M
sent=$(outer) paid=$(usage payload_down) charged=$(usage post)
spawn inet flood "$python" "$work/flood.py"
wait_for 10 listens inet 7777
spawn node hole "$python" "$work/hole.py" 203.0.113.10 "$work/came"
is_over() { ! is_alive flood; }
wait_for 20 is_over
sleep 3  # what waits in queues
paid=$(($(usage payload_down) - paid)) charged=$(($(usage post) - charged)) sent=$(($(outer) - sent))
claim "50 Mbit/s into 5: no more payload is charged ($paid) than was on the wire ($sent)" at_most "$paid" "$sent"
claim "nor more datagrams ($charged)" at_most "$charged" "$sent"
claim "and some of it came" more_than "$paid" 3000000
finish
