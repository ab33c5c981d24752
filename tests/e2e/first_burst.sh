#!/usr/bin/env bash
# The first datagrams of a session arrive, and those of a node that moves while it sends: a burst of who is alone at its SNAPT
# is no flood.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice

cat >"$work/sink.py" <<'PY'
import socket
heard = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
heard.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
heard.bind(("::", 7100))
count = {}
while True:
    data, sender = heard.recvfrom(65536)
    if data == b"end":
        heard.sendto(b"%d" % count.pop(sender, 0), sender)
    else:
        count[sender] = count.get(sender, 0) + 1
PY
# Prints how many of 14 datagrams did not arrive.
cat >"$work/burst.py" <<'PY'
import socket, sys, time
burst = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
burst.connect((sys.argv[1], 7100))
burst.settimeout(2)
sizes = (10, 100, 10, 10, 1400, 10, 100, 100, 10, 1200, 1200, 1200, 10, 1)
for size in sizes:
    burst.send(b"q" * size)
time.sleep(0.3)  # what is lost cannot be waited for
arrived = 0
for _ in range(4):
    burst.send(b"end")
    try:
        arrived = int(burst.recv(100))
        break
    except OSError:
        pass
print(len(sizes) - arrived)
PY
spawn inet sink "$python" "$work/sink.py"
wait_for 5 listens inet 7100

starts=30
for address in $inet4 $inet6; do
    lost=0
    for ((i = 0; i < starts; i++)); do
        start_cnapt
        lost=$((lost + $(in_ns node "$python" "$work/burst.py" "$address")))
        stop cnapt
    done
    claim "after $starts starts all of the first 14 datagrams to $address arrive ($lost do not)" equal "$lost" 0
done

# --- A node that moves under load
start_cnapt
cat >"$work/load.py" <<'PY'
import socket, sys, time
load = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(64):  # small ones: many share a datagram, which costs the SNAPT some hundred microseconds
        try:
            load.sendto(b"x" * 10, (sys.argv[1], 9))
        except OSError:
            pass
    time.sleep(0.001)
PY
input_drops() { snapt_json 1 sessions | json "sum(s['input_drops'] for s in d)"; }
remote() { snapt_json 1 sessions | json "d[0]['from']"; }
is_elsewhere() { [ "$(remote)" != "$1" ]; }
spawn node load "$python" "$work/load.py" $inet4
have=$(input_drops)
host=10
for gateway in 2 1 2 1 2 1 2 1; do
    before=$(remote)
    host=$((host + 1))
    move $gateway $host
    wait_for 10 is_elsewhere "$before"
done
claim "a node that sends much is heard where it moves, and the SNAPT drops nothing of it" equal "$(($(input_drops) - have))" 0
stop load
finish
