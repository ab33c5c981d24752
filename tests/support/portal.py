#!/usr/bin/env python3
"""A captive portal for tests: every HTTP request is led to the login page, whatever it asks for, and whatever is no
HTTP gets the same. The log has the peer's address and the first line of each request."""
import argparse
import socketserver
import sys


class Handler(socketserver.StreamRequestHandler):
    timeout = 10

    def handle(self):
        try:
            line = self.rfile.readline(4096)
            while self.rfile.readline(4096).strip():
                pass
        except OSError:
            return
        sys.stderr.write(f"{self.client_address[0]} {line!r}\n")
        sys.stderr.flush()
        if self.server.page in line:
            body = b"log in here\n"
            head = b"HTTP/1.1 200 OK\r\n"
        else:
            body = b""
            head = b"HTTP/1.1 302 Found\r\nLocation: " + self.server.url + b"\r\n"
        self.wfile.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--url", required=True, help="of the login page")
    arguments = parser.parse_args()
    server = Server(("0.0.0.0", arguments.port), Handler)
    server.url = arguments.url.encode()
    server.page = b"/login"
    server.serve_forever()


if __name__ == "__main__":
    main()
