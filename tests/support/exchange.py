#!/usr/bin/env python3
"""Known numbers of bytes both ways over TCP and UDP, then silence with everything left open.
exchange.py server PORT; exchange.py client PORT RESULT ADDRESS... The client writes "PAYLOAD_SENT PAYLOAD_RECEIVED" of all
flows together, as counted at the receiving ends, and stays until it is ended."""
import os
import selectors
import socket
import struct
import sys
import threading
import time

TCP_BYTES = 1_500_000
DATAGRAMS = 400
DATAGRAM_BYTES = 700
PACE_S = 0.003


def receive_exactly(stream, count):
    total = 0
    while total < count:
        data = stream.recv(min(65536, count - total))
        if not data:
            raise ConnectionError("ended early")
        total += len(data)
    return total


def send_paced(stream, count):
    """Slowly enough that no queue on the way overflows: loss would make the counts differ rightly."""
    while count:
        block = os.urandom(min(count, 8192))
        stream.sendall(block)
        count -= len(block)
        time.sleep(PACE_S)


def serve_stream(stream):
    got = receive_exactly(stream, TCP_BYTES)
    stream.sendall(struct.pack("!Q", got))
    send_paced(stream, TCP_BYTES - 8)
    stream.recv(1)


def serve(port):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("::", port))
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    watched.register(datagrams, selectors.EVENT_READ)
    totals = {}
    while True:
        for key, _ in watched.select():
            if key.fileobj is listener:
                threading.Thread(target=serve_stream, args=(listener.accept()[0],), daemon=True).start()
                continue
            datagram, peer = datagrams.recvfrom(2048)
            totals[peer] = totals.get(peer, 0) + len(datagram)
            datagrams.sendto(struct.pack("!Q", totals[peer]) + datagram[8:], peer)


def exchange_tcp(address, port):
    stream = socket.create_connection((address, port), timeout=30)
    send_paced(stream, TCP_BYTES)
    counted = struct.unpack("!Q", stream.recv(8, socket.MSG_WAITALL))[0]
    return stream, counted, 8 + receive_exactly(stream, TCP_BYTES - 8)


def exchange_udp(address, port):
    flow = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    flow.settimeout(5)
    flow.connect((address, port))
    counted = received = 0
    for _ in range(DATAGRAMS):
        flow.send(os.urandom(DATAGRAM_BYTES))
        answer = flow.recv(2048)
        counted = max(counted, struct.unpack_from("!Q", answer)[0])
        received += len(answer)
    return flow, counted, received


def main():
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    port, result, addresses = int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    done = [act(address, port) for address in addresses for act in (exchange_tcp, exchange_udp)]
    with open(result, "w") as out:
        out.write(f"{sum(one[1] for one in done)} {sum(one[2] for one in done)}\n")
    threading.Event().wait()


if __name__ == "__main__":
    main()
