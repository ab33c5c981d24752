#!/usr/bin/env python3
"""A relay between a node and a SNAPT that impairs UDP and forwards TCP as it is.

Every UDP datagram is, in both directions and independently: lost with --loss, sent twice with --duplicate, delayed by
0 to --jitter-ms, and with --reorder held back a further --jitter-ms so that later ones overtake it. Seeded. On SIGTERM it
prints "FORWARDED LOST DUPLICATED REORDERED"."""
import argparse
import heapq
import random
import selectors
import signal
import socket
import threading
import time

MAX_PENDING = 20000
MAX_PEERS = 256


class Impairment:
    """Decides what happens to a datagram: the delays of the copies that get through."""

    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.forwarded = self.lost = self.duplicated = self.reordered = 0

    def delays(self):
        draw = self.random.random
        if draw() < self.options.loss:
            self.lost += 1
            return []
        copies = 1
        if draw() < self.options.duplicate:
            self.duplicated += 1
            copies = 2
        jitter = self.options.jitter_ms / 1000
        result = [draw() * jitter for _ in range(copies)]
        if draw() < self.options.reorder:
            self.reordered += 1
            result[0] += jitter
        self.forwarded += copies
        return result


def open_udp(address=None):
    handle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    if address:
        handle.bind(address)
    handle.setblocking(False)
    return handle


def relay_udp(options, impairment):
    selector = selectors.DefaultSelector()
    front = open_udp((options.listen, options.port))
    selector.register(front, selectors.EVENT_READ, None)
    target = (options.target, options.port)
    back_of = {}
    pending, order = [], 0
    while True:
        wait = max(0.0, pending[0][0] - time.monotonic()) if pending else None
        ready = selector.select(wait)
        now = time.monotonic()
        for key, _ in ready:
            while True:
                try:
                    datagram, peer = key.fileobj.recvfrom(65535)
                except OSError:
                    break
                if key.data is None:
                    if peer not in back_of:
                        if len(back_of) >= MAX_PEERS:
                            continue
                        back_of[peer] = open_udp()
                        selector.register(back_of[peer], selectors.EVENT_READ, peer)
                    out, to = back_of[peer], target
                else:
                    out, to = front, key.data
                for delay in impairment.delays():
                    if len(pending) < MAX_PENDING:
                        order += 1
                        heapq.heappush(pending, (now + delay, order, out, to, datagram))
        now = time.monotonic()
        while pending and pending[0][0] <= now:
            _, _, out, to, datagram = heapq.heappop(pending)
            try:
                out.sendto(datagram, to)
            except OSError:
                pass  # as lost on the way


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end, how in ((source, socket.SHUT_RD), (sink, socket.SHUT_WR)):
        try:
            end.shutdown(how)
        except OSError:
            pass


def relay_tcp(options):
    listener = socket.create_server((options.listen, options.port))
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection((options.target, options.port), timeout=10)
        except OSError:
            client.close()
            continue
        server.settimeout(None)
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        threading.Thread(target=pump, args=(server, client), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--port", type=int, default=9347)
    parser.add_argument("--loss", type=float, default=0)
    parser.add_argument("--duplicate", type=float, default=0)
    parser.add_argument("--reorder", type=float, default=0)
    parser.add_argument("--jitter-ms", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    impairment = Impairment(options)

    def report(*_):
        print(impairment.forwarded, impairment.lost, impairment.duplicated, impairment.reordered, flush=True)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, report)
    threading.Thread(target=relay_tcp, args=(options,), daemon=True).start()
    relay_udp(options, impairment)


if __name__ == "__main__":
    main()
