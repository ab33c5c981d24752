#!/usr/bin/env python3
"""Thin traffic, as deterministic as it can be.

thin.py serve PORT: answers over UDP with 120 bytes what is shorter than 60, else the same; over TCP the same.
thin.py dns|voice|keys ADDRESS PORT SECONDS: a question of 45 bytes a second, each from a port of its own; 50 packets of 60 bytes
a second that come back; 36 bytes five times a second that come back. Prints how many were sent and how many answers came."""
import selectors
import socket
import sys
import threading
import time

QUESTION, ANSWER, VOICE, KEYS = bytes(45), bytes(120), bytes(60), bytes(36)


def serve_udp(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("", port))
    while True:
        datagram, peer = listener.recvfrom(2048)
        listener.sendto(ANSWER if len(datagram) < len(VOICE) else datagram, peer)


def serve(port):
    threading.Thread(target=serve_udp, args=(port,), daemon=True).start()
    listener = socket.create_server(("", port))
    print("ready", file=sys.stderr, flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)


def talk(interval, seconds, send, receive):
    """Calls `send` in equal intervals and `receive` on what came; both give how many."""
    sent = came = 0
    began = time.monotonic()
    while (now := time.monotonic()) - began < seconds + 1:
        if now - began < seconds and now - began >= sent * interval:
            send()
            sent += 1
        due = began + sent * interval if now - began < seconds else began + seconds + 1
        came += receive(max(0.0, due - time.monotonic()))
    print(sent, came)


def talk_by(flow, interval, seconds, message):
    chooser = selectors.DefaultSelector()
    chooser.register(flow, selectors.EVENT_READ)
    talk(interval, seconds, lambda: flow.send(message), lambda left: len(flow.recv(4096)) // len(message) if chooser.select(left) else 0)


def ask(address, seconds):
    chooser = selectors.DefaultSelector()

    def send():
        flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        flow.connect(address)
        flow.send(QUESTION)
        chooser.register(flow, selectors.EVENT_READ)

    def receive(left):
        found = chooser.select(left)
        for key, _ in found:
            key.fileobj.recv(2048)
            chooser.unregister(key.fileobj)
            key.fileobj.close()
        return len(found)

    talk(1, seconds, send, receive)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    what, address, seconds = sys.argv[1], (sys.argv[2], int(sys.argv[3])), float(sys.argv[4])
    if what == "dns":
        ask(address, seconds)
    elif what == "voice":
        flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        flow.connect(address)
        talk_by(flow, 0.02, seconds, VOICE)
    elif what == "keys":
        flow = socket.create_connection(address)
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk_by(flow, 0.2, seconds, KEYS)
    else:
        sys.exit(f"thin.py: no {what}")


if __name__ == "__main__":
    main()
