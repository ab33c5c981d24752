#!/usr/bin/env python3
"""Sends one router advertisement with a NAT64 prefix (PREF64, RFC 8781) to all hosts of an interface, as a router that is no
default router.

  router_advert.py INTERFACE PREFIX LIFETIME   the lifetime in seconds, a multiple of 8; 0 withdraws the prefix
"""
import ipaddress
import socket
import struct
import sys

CODES = {96: 0, 64: 1, 56: 2, 48: 3, 40: 4, 32: 5}


def pref64(prefix, lifetime_s):
    scaled = lifetime_s // 8 << 3 | CODES[prefix.prefixlen]
    return struct.pack("!BBH", 38, 2, scaled) + prefix.network_address.packed[:12]


def main(interface, prefix, lifetime_s):
    # Type, code, checksum (the kernel's), hop limit, flags, lifetime as a router, reachable, retransmission.
    header = struct.pack("!BBHBBHII", 134, 0, 0, 0, 0, 0, 0, 0)
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        index = socket.if_nametoindex(interface)
        raw.sendto(header + pref64(ipaddress.IPv6Network(prefix), int(lifetime_s)), ("ff02::1", 0, 0, index))


if __name__ == "__main__":
    main(*sys.argv[1:])
