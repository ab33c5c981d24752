#!/usr/bin/env python3
"""HTTP/1.1 for tests: GET serves a file of a directory, with ?rate=N at N bytes a second, PUT answers with length and
SHA-256 of the body."""
import argparse
import hashlib
import http.server
import os
import socket
import sys
import time
import urllib.parse

CHUNK = 65536
PACE_S = 0.01
MOST_BEHIND_S = 0.2


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    directory = "."

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = os.path.join(self.directory, os.path.basename(url.path))
        rate = urllib.parse.parse_qs(url.query).get("rate")
        try:
            source = open(path, "rb")
        except OSError:
            self.send_error(404)
            return
        with source:
            self.send_response(200)
            self.send_header("Content-Length", str(os.path.getsize(path)))
            self.end_headers()
            if rate:
                self.send_paced(source, int(rate[0]))
            else:
                self.connection.sendfile(source)

    def send_paced(self, source, rate):
        """A receiver that reads slowly would close its window, and what is lost then waits for its sender's persist timer
        (RFC 9293, 3.8.6.1), which has nothing to do with the way between them."""
        began, sent = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * rate)
            if due - sent > rate * MOST_BEHIND_S:  # it stood still: that is not made up for
                began += (due - sent) / rate - MOST_BEHIND_S
                continue
            while sent < due:
                count = self.connection.sendfile(source, sent, due - sent)
                if not count:
                    return
                sent += count
            time.sleep(PACE_S)

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        total, digest = left, hashlib.sha256()
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while left:
            data = self.rfile.read(min(left, CHUNK))
            if not data:
                return
            digest.update(data)
            left -= len(data)
        body = f"{total} {digest.hexdigest()}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, text, *arguments):
        sys.stderr.write(f"{self.client_address[0]} {self.client_address[1]} {text % arguments}\n")
        sys.stderr.flush()


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request, client_address):
        sys.stderr.write(f"{client_address[0]} {client_address[1]} error {sys.exc_info()[1]!r}\n")
        sys.stderr.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--port", type=int, default=80)
    arguments = parser.parse_args()
    Handler.directory = arguments.directory
    Server(("::", arguments.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
