#!/usr/bin/env python3
"""A server that has something to say after each silence of its client.

  pushes.py serve ADDRESS PORT COUNT PAUSE   sends the time COUNT times, after PAUSE seconds each, on the first connection
  pushes.py listen ADDRESS PORT LOG          writes the seconds that each took to arrive, a line each; says hello and nothing more
Both ends read the same clock.
"""
import socket
import sys
import time


def serve(address, port, count, pause):
    with socket.create_server((address, int(port))) as server:
        connection, _ = server.accept()
        with connection:
            connection.recv(16)
            for _ in range(int(count)):
                time.sleep(float(pause))
                connection.sendall(f"{time.time():.6f}\n".encode())
            connection.recv(16)  # until the client leaves


def listen(address, port, log):
    with socket.create_connection((address, int(port)), timeout=20) as connection, open(log, "w", buffering=1) as out:
        connection.sendall(b"hello\n")
        connection.settimeout(120)
        for line in connection.makefile():
            out.write(f"{time.time() - float(line):.3f}\n")


if __name__ == "__main__":
    {"serve": serve, "listen": listen}[sys.argv[1]](*sys.argv[2:])
