#!/usr/bin/env python3
"""Does for tests what a service manager does with a socket unit (Accept=yes): listens on a SOCK_SEQPACKET socket and
starts the command for each connection, with the connection as its standard input."""
import argparse
import os
import socket
import subprocess


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(arguments.socket)
    os.chown(arguments.socket, arguments.owner, arguments.owner)
    os.chmod(arguments.socket, 0o600)
    listener.listen()
    running = []
    while True:
        connection, _ = listener.accept()
        running = [process for process in running if process.poll() is None]
        running.append(subprocess.Popen(arguments.command, stdin=connection))
        connection.close()


if __name__ == "__main__":
    main()
