#!/usr/bin/env python3
"""TCP connections that are closed on one side for some time, and one that its server goes on with.

serve PAUSE PUSHES: port 9001 answers PAUSE seconds after its client has closed its side; port 9002 closes its own side first
and reads on; port 9003 sends a byte every 200 ms until an error, whose name is written to the file PUSHES.
ask HOST PAUSE: one connection to each of the first two at once. Prints "BYTES BYTES": those of the answer that came, and those
that the server got of what was sent to it after PAUSE seconds.
"""
import errno
import socket
import sys
import threading
import time

SIZE = 300_000


def late(connection, pause):
    while connection.recv(65536):
        pass
    time.sleep(pause)
    connection.sendall(b"x" * SIZE)
    connection.close()


def early(connection, counts):
    name = connection.recv(16)
    connection.shutdown(socket.SHUT_WR)
    received = 0
    while data := connection.recv(65536):
        received += len(data)
    counts[name] = received
    connection.close()


def push(connection, log):
    try:
        while True:
            connection.sendall(b".")
            time.sleep(0.2)
    except OSError as error:
        with open(log, "a") as file:
            file.write(errno.errorcode[error.errno] + "\n")


def count(connection, counts):
    name = connection.recv(16)
    end = time.monotonic() + 10
    while name not in counts and time.monotonic() < end:
        time.sleep(0.05)
    connection.sendall(str(counts.get(name, 0)).encode())
    connection.close()


def serve(pause, log):
    counts = {}

    def listen(port, work):
        server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=work, args=(connection,), daemon=True).start()

    ports = {9001: lambda c: late(c, pause), 9002: lambda c: early(c, counts), 9003: lambda c: push(c, log)}
    for port, work in ports.items():
        threading.Thread(target=listen, args=(port, work), daemon=True).start()
    listen(9004, lambda c: count(c, counts))


def ask(host, pause):
    got = [0, 0]

    def read_late():
        connection = socket.create_connection((host, 9001), 10)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(pause + 15)
        while data := connection.recv(65536):
            got[0] += len(data)

    def write_late():
        name = f"{time.time_ns() % 10**15:016d}".encode()
        connection = socket.create_connection((host, 9002), 10)
        connection.sendall(name)
        while connection.recv(100):
            pass
        time.sleep(pause)
        connection.settimeout(15)
        connection.sendall(b"y" * SIZE)
        connection.close()
        result = socket.create_connection((host, 9004), 10)
        result.sendall(name)
        result.settimeout(15)
        got[1] = int(result.recv(100))

    def tolerant(work):
        try:
            work()
        except OSError as error:
            print(error, file=sys.stderr)

    threads = [threading.Thread(target=tolerant, args=(work,)) for work in (read_late, write_late)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(*got)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(float(sys.argv[2]), sys.argv[3])
    else:
        ask(sys.argv[2], float(sys.argv[3]))
