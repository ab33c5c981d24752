#!/usr/bin/env python3
"""A VPN in its plainest form: packets of a TUN device as UDP datagrams, as they are. One end has --remote; the other one answers
where the latest datagram came from, as OpenVPN does with --float. The socket is neither bound nor connected at the first one.

    udp_tunnel.py --device tun9 --port 1194
    udp_tunnel.py --device tun9 --port 1194 --remote 203.0.113.10 [--mark 51820]
"""
import argparse
import fcntl
import os
import selectors
import signal
import socket
import struct

TUNSETIFF = 0x400454CA
IFF_TUN = 1
IFF_NO_PI = 0x1000
SO_MARK = 36
LONGEST_PACKET = 65535
# A restless end tells the other one where it is now, as keepalives of a VPN do.
INTERVAL_S = 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--remote")
    parser.add_argument("--mark", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", options.device.encode(), IFF_TUN | IFF_NO_PI))
    outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if options.mark:
        outer.setsockopt(socket.SOL_SOCKET, SO_MARK, options.mark)
    peer = (options.remote, options.port) if options.remote else None
    if not peer:
        outer.bind(("", options.port))

    def send(packet):
        try:
            if peer:
                outer.sendto(packet, peer)
        except OSError:
            pass  # no way at the moment: lost, as on any network

    selector = selectors.DefaultSelector()
    selector.register(device, selectors.EVENT_READ)
    selector.register(outer, selectors.EVENT_READ)
    while True:
        ready = selector.select(INTERVAL_S if options.remote else None)
        if not ready:
            send(b"")
        for key, _ in ready:
            if key.fileobj is outer:
                packet, source = outer.recvfrom(LONGEST_PACKET)
                peer = peer if options.remote else source
                if packet:
                    try:
                        os.write(device, packet)
                    except OSError:
                        pass  # the device is down, or it was no packet
            else:
                try:
                    send(os.read(device, LONGEST_PACKET))
                except OSError:
                    pass


main()
