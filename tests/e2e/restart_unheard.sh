#!/usr/bin/env bash
# cnapt is restarted, and what the node sends before there is a session is lost. After that it is the other end's turn: a stream of
# datagrams, and a TCP connection whose window was closed, come in all the same.
. "$(dirname "$0")/lib.sh"
require ping
build_topology
start_snapt 1
add_user alice
start_cnapt
in_ns node sysctl -qw net.ipv4.tcp_rmem="4096 65536 131072"  # the window closes soon
spawn inet source "$python" -c 'import socket, threading, time
server = socket.create_server(("0.0.0.0", 7001))
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.bind(("0.0.0.0", 7002))
def fill():
    connection, _ = server.accept()
    while True:
        connection.sendall(bytes(65536))
threading.Thread(target=fill, daemon=True).start()
_, peer = stream.recvfrom(100)
while True:
    stream.sendto(b"x", peer)
    time.sleep(0.05)'
wait_for 5 listens inet 7002
# Says "udp DATAGRAMS" and "tcp BYTES". It sends one datagram, and another one at SIGUSR1, when it begins to read from TCP, too.
spawn node client "$python" -u -c 'import signal, socket, sys, threading
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stream.connect((sys.argv[1], 7002))
connection = socket.create_connection((sys.argv[1], 7001))
begin = threading.Event()
def send_and_read(*_):
    stream.send(b"x")
    begin.set()
signal.signal(signal.SIGUSR1, send_and_read)
def read():
    total = 0
    begin.wait()
    while data := connection.recv(65536):
        total += len(data)
        print("tcp", total)
threading.Thread(target=read, daemon=True).start()
stream.send(b"x")
count = 0
while stream.recv(100):
    count += 1
    print("udp", count)' "$inet4"
so_far() { local n; n=$(grep "^$1 " "$work/client.log" | tail -n 1 | cut -d' ' -f2); echo "${n:-0}"; }
beyond() { more_than "$(so_far "$1")" "$2"; }
goes_on() { wait_for "$2" beyond "$1" $(($(so_far "$1") + $3)); }
is_closed() { in_ns inet ss -tinHo 'sport = :7001' | grep -q 'timer:(persist'; }
dropped() { cnapt_json status | json "d['drops']['$1']"; }
has_dropped() { more_than "$(dropped "$1")" "$2"; }
runs() { [ -n "$(dropped no_session)" ]; }
claim "a stream of datagrams comes" goes_on udp 5 10
claim "the window of a TCP connection is closed" wait_for 10 is_closed
kill -USR2 "${pid_of[cnapt]}"
wait "${pid_of[cnapt]}"
in_ns snapt1 nft 'add table inet deaf; add chain inet deaf in { type filter hook input priority 0; };
    add rule inet deaf in udp dport 9347 drop; add rule inet deaf in tcp dport 9347 drop'
run_cnapt
claim "cnapt runs again" wait_for 5 runs
kill -USR1 "${pid_of[client]}"
claim "what the node sends over both is lost before there is a session" wait_for 5 has_dropped no_session 1
in_ns snapt1 nft delete table inet deaf
wait_cnapt || { echo "cnapt did not come up"; exit 1; }
claim "then the stream of datagrams goes on" goes_on udp 5 10
# Its probes are twice as far apart each time (RFC 9293, 3.8.6.1): the next one comes before the way was shut as long again.
claim "and so does the TCP connection, with its sender's next probe" goes_on tcp 20 1000000
claim "nothing came that no flow was found for" equal "$(dropped no_binding)" 0
finish
