#!/usr/bin/env python3
"""A voice-like UDP flow: 20 bytes of payload with a 12-byte header every 20 ms, echoed by the other end.
voice.py server PORT; voice.py client ADDRESS PORT SECONDS LOG. The client logs the time of each answer and prints
"SENT RECEIVED DUPLICATES"; SIGTERM ends the call early."""
import os
import select
import signal
import socket
import struct
import sys
import time

INTERVAL_S = 0.02
PAYLOAD = 20


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(port):
    listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))
    while True:
        datagram, peer = listener.recvfrom(2048)
        listener.sendto(datagram, peer)


def talk(address, port, seconds, log_path):
    flow = socket.socket(family_of(address), socket.SOCK_DGRAM)
    flow.connect((address, port))
    flow.setblocking(False)
    began = time.monotonic()

    def hang_up(*_):
        nonlocal seconds
        seconds = min(seconds, time.monotonic() - began)

    signal.signal(signal.SIGTERM, hang_up)
    sent, seen, duplicates = 0, set(), 0
    with open(log_path, "w", buffering=1) as log:
        while (elapsed := time.monotonic() - began) < seconds + 1:
            if elapsed >= sent * INTERVAL_S and elapsed < seconds:
                try:
                    flow.send(struct.pack("!BBHII", 0x80, 18, sent & 0xFFFF, sent * 160, 7) + os.urandom(PAYLOAD))
                except OSError:
                    pass  # no route while the node moves: a lost packet, as for any call
                sent += 1
            wait = max(0.0, min(sent * INTERVAL_S - elapsed, 0.02))
            if not select.select([flow], [], [], wait)[0]:
                continue
            try:
                datagram = flow.recv(2048)
            except OSError:
                continue
            sequence = struct.unpack_from("!BBHII", datagram)[3] // 160
            duplicates += sequence in seen
            seen.add(sequence)
            log.write(f"{time.time():.6f} {sequence}\n")
    print(sent, len(seen), duplicates)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        talk(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
