#!/usr/bin/env python3
"""An interactive session: lines over one TCP connection at a human's pace, each answered by the other end.
chat.py server PORT; chat.py client ADDRESS PORT SECONDS LOG. The client logs with each answer
"TIME LINES RIGHT", how many lines were said and answered rightly, and prints the last two; it fails when the connection breaks."""
import socket
import sys
import threading
import time

PAUSE_S = 0.1
PATIENCE_S = 20


def answer(connection):
    with connection, connection.makefile("rwb") as stream:
        for line in stream:
            stream.write(b"you said " + line)
            stream.flush()


def serve(port):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def talk(address, port, seconds, log_path):
    lines, right = 0, 0
    with socket.create_connection((address, port), timeout=PATIENCE_S) as connection, open(log_path, "w", buffering=1) as log:
        stream = connection.makefile("rwb")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            line = f"line {lines}\n".encode()
            stream.write(line)
            stream.flush()
            lines += 1
            right += stream.readline() == b"you said " + line
            log.write(f"{time.time():.6f} {lines} {right}\n")
            time.sleep(PAUSE_S)
    print(lines, right)
    return 0 if lines == right else 1


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        sys.exit(talk(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]))
