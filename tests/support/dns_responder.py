#!/usr/bin/env python3
"""A name server for tests, UDP and TCP: every name has one A, AAAA and TXT record; names that begin with `slow` are
answered after two seconds, so that their flow can be looked at."""
import argparse
import ipaddress
import socket
import struct
import threading
import time

A, TXT, AAAA = 1, 16, 28
RECORDS = {
    A: ipaddress.ip_address("203.0.113.80").packed,
    AAAA: ipaddress.ip_address("2001:db8:3::80").packed,
    TXT: b"\x0bhello there",
}
SLOW_S = 2.0
IPV4_ONLY = bytes((192, 0, 0, 170))  # ipv4only.arpa (RFC 7050)
NAT64 = None  # a prefix of 96 bits


def answer(query):
    """The reply to one query, and whether to keep it back; None for what is no query."""
    if len(query) < 17:
        return None
    end = query.find(b"\0", 12) + 1
    if end == 0 or len(query) < end + 4:
        return None
    kind = struct.unpack_from("!H", query, end)[0]
    question = query[12:end + 4]
    data = RECORDS.get(kind)
    if query[12:end] == b"\x08ipv4only\x04arpa\0":
        data = {A: IPV4_ONLY, AAAA: NAT64 and NAT64 + IPV4_ONLY}.get(kind)
    header = query[:2] + struct.pack("!HHHHH", 0x8580, 1, 1 if data else 0, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data if data else b""
    return header + question + record, query[13:17].lower() == b"slow"


def serve_udp(listener, log):
    while True:
        query, peer = listener.recvfrom(4096)
        if log:
            print(peer[0], file=log)
        reply = answer(query)
        if reply is None:
            continue
        if reply[1]:
            threading.Timer(SLOW_S, listener.sendto, (reply[0], peer)).start()
        else:
            listener.sendto(reply[0], peer)


def serve_connection(connection):
    with connection, connection.makefile("rb") as stream:
        while True:
            prefix = stream.read(2)
            if len(prefix) < 2:
                return
            reply = answer(stream.read(struct.unpack("!H", prefix)[0]))
            if reply is None:
                return
            if reply[1]:
                time.sleep(SLOW_S)
            connection.sendall(struct.pack("!H", len(reply[0])) + reply[0])


def bound(family, kind, address, port):
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, port))
    return listener


def serve_tcp(listener, _log):
    listener.listen()
    while True:
        threading.Thread(target=serve_connection, args=(listener.accept()[0],), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=53)
    parser.add_argument("--ipv4", type=ipaddress.IPv4Address, help="the A record")
    parser.add_argument("--log", type=argparse.FileType("a", 1), help="gets the peer's address for each UDP query")
    parser.add_argument("--nat64", type=ipaddress.IPv6Network, help="the prefix of 96 bits that ipv4only.arpa has")
    arguments = parser.parse_args()
    if arguments.nat64:
        global NAT64
        NAT64 = arguments.nat64.network_address.packed[:12]
    port = arguments.port
    if arguments.ipv4:
        RECORDS[A] = arguments.ipv4.packed
    threads = []
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for kind, serve in ((socket.SOCK_DGRAM, serve_udp), (socket.SOCK_STREAM, serve_tcp)):
            threads.append(threading.Thread(target=serve, args=(bound(family, kind, address, port), arguments.log), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
