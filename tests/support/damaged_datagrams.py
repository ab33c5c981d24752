#!/usr/bin/env python3
"""Damages what a capture file of the daemons holds of the outer side, for dissectors.

usage: damaged_datagrams.py CAPTURE DATAGRAMS OUT
Takes the first DATAGRAMS datagrams, then writes each, each of its cuts (all short ones, some longer ones), each with one
bit flipped (all bits of the first bytes, some of the others) and random bytes of its length, as pcap of link type RAW.
"""
import random
import struct
import sys

EVERY_CUT, CUT_STEP = 48, 61
EVERY_BIT, BIT_STEP = 48, 37
PACKET_BLOCK, OUTER = 6, 1
IP_AND_UDP = {4: 28, 6: 48}


def outer_packets(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from(">II", data, at)
        if kind == PACKET_BLOCK:
            interface, captured = struct.unpack_from(">I8xI", data, at + 8)
            if interface == OUTER:
                yield data[at + 28:at + 28 + captured]
        at += length


def variants(payload, source):
    yield payload
    for cut in (*range(min(EVERY_CUT, len(payload))), *range(EVERY_CUT, len(payload), CUT_STEP)):
        yield payload[:cut]
    bits = len(payload) * 8
    for bit in (*range(min(EVERY_BIT * 8, bits)), *range(EVERY_BIT * 8, bits, BIT_STEP)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    yield payload[:6] + source.randbytes(max(0, len(payload) - 6))


def packed(packet, payload):
    """The IPv4 and UDP header of the packet before the payload, lengths corrected."""
    head = bytearray(packet[:IP_AND_UDP[packet[0] >> 4]])
    struct.pack_into(">H", head, 2, len(head) + len(payload))
    struct.pack_into(">H", head, 24, 8 + len(payload))
    return bytes(head) + payload


def main():
    capture, wanted, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    source = random.Random(9347)
    with open(capture, "rb") as file:
        packets = [packet for packet in outer_packets(file.read()) if packet[0] >> 4 == 4][:wanted]
    if len(packets) < wanted:
        sys.exit(f"only {len(packets)} datagrams")
    with open(out, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        # Sound ones first, so that flows and readable sessions are known.
        for packet in (*packets, *(packed(p, v) for p in packets for v in variants(p[IP_AND_UDP[4]:], source))):
            file.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)


if __name__ == "__main__":
    main()
