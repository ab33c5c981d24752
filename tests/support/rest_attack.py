#!/usr/bin/env python3
"""rest_attack.py fuzz|own|guess HOST PORT COUNT | loris HOST PORT COUNT SECONDS: what strangers, and owners of a token, do to
a REST server. `fuzz` and `own` print the statuses that were answered; `own` reads a valid token from standard input, and
damages all of a request but that; `guess` damages that alone, and prints each status with its body. `loris` holds connections
on which a header, or a body, never ends, and opens them again."""
import concurrent.futures
import random
import select
import socket
import sys
import time

GOOD = (b"POST /v1/users/alice/topups?x=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer snapt_AAAA\r\n"
        b"Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"amount\":\"50\"}")


AT_ONCE = 8
SHORT_WAIT_S = 0.1  # refusals come at once; what is no whole request may wait for its end
LONG_WAIT_S = 15
TOKEN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# No amount in them is valid, with one octet changed or not.
OWN = [b"GET /v1/usage?by=user,day&from=2026-11-01&to=2026-12-01&zone=UTC HTTP/1.1\r\n",
       b"GET /v1/records?after=1/0&limit=10 HTTP/1.1\r\n",
       b"GET /v1/users/alice/balance HTTP/1.1\r\n",
       b"GET /v1/users/bob/statement?month=2026-11&format=csv HTTP/1.1\r\n",
       b"POST /v1/users/alice/topups HTTP/1.1\r\n",
       b"POST /v1/users/bob/adjustments?x=1 HTTP/1.1\r\n",
       b"DELETE /v1/sessions/00112233445566778899aabbccddeeff HTTP/1.1\r\n"]
OWN_TAIL = (b"Host: a\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
            b"{\"amount\": [[5]]}")


def whole_tail(body):
    return (b"Host: a\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


def damage(rng, text):
    text = bytearray(text)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(text))
        if rng.random() < 0.5:
            text[at] = rng.randrange(256)
        else:
            text[at:at] = bytes([rng.randrange(256)]) * rng.randrange(3000)
    return bytes(text)


def nearly(rng, token):
    """The token with a letter changed, missing or added, cut off, or twice."""
    at = rng.randrange(len(token))
    other = rng.choice(TOKEN_LETTERS.replace(token[at], ""))
    return rng.choice([token[:at] + other + token[at + 1:], token[:at] + token[at + 1:], token + other, token[:at], token + token])


def whole_answer_to(host, port, text, is_whole):
    """A whole request is answered, however long that takes; but libmicrohttpd may not answer who shuts its side before."""
    with socket.create_connection((host, port), timeout=15) as stream:
        stream.settimeout(LONG_WAIT_S if is_whole else SHORT_WAIT_S)
        answer = b""
        try:
            stream.sendall(text)
            if not is_whole:
                stream.shutdown(socket.SHUT_WR)
            while block := stream.recv(65536):
                answer += block
        except OSError:
            pass
    return answer.decode("latin-1")


def answer_to(host, port, text, is_whole=False):
    answer = whole_answer_to(host, port, text, is_whole)
    return answer.split(" ", 2)[1] if answer else ""


def fuzz(host, port, count):
    rng = random.Random(7)
    texts = (damage(rng, GOOD[:rng.randrange(1, len(GOOD) + 1)]) for _ in range(count))
    print(" ".join(sorted({answer_to(host, port, text) for text in texts} - {""})))


def own(host, port, count):
    token = b"Authorization: Bearer " + sys.stdin.readline().strip().encode() + b"\r\n"
    rng = random.Random(11)
    texts = []
    for round_ in range(count):
        # A whole head first, so that most requests are known for the owner's; then parts of one. A few are whole.
        head, tail = rng.choice(OWN), OWN_TAIL
        if round_ % 50 == 0:
            tail = whole_tail(b'{"amount": [[5]]}')
        elif round_ % 2 == 0:
            tail = damage(rng, tail[:rng.randrange(1, len(tail) + 1)])
        else:
            head = damage(rng, head[:-2]) + b"\r\n"
        texts.append((head + token + tail, round_ % 50 == 0))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        statuses = set(pool.map(lambda text: answer_to(host, port, *text), texts))
    print(" ".join(sorted(statuses - {""})))


def guess(host, port, count):
    token = sys.stdin.readline().strip()
    rng = random.Random(13)
    heads = OWN[:4] + [b"POST /v1/users/alice/topups HTTP/1.1\r\n"]
    tail = whole_tail(b'{"amount": "50"}')
    texts = [rng.choice(heads) + b"Authorization: Bearer " + nearly(rng, token).encode() + b"\r\n" + tail for _ in range(count)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda text: whole_answer_to(host, port, text, True), texts)
        answers = [answer.split("\r\n\r\n", 1) for answer in answers]
    print("\n".join(sorted({" ".join(head.split(" ", 2)[1:2] + body) for head, *body in answers})))


def loris(host, port, count, seconds):
    held = []
    rng = random.Random(17)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(held) < count:
            stream = socket.create_connection((host, port), timeout=5)
            stream.setblocking(False)
            stream.send(rng.choice([b"GET /v1/status HTTP/1.1\r\n",
                                    b"POST /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"]))
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
    {"fuzz": fuzz, "own": own, "guess": guess, "loris": loris}[what](host, int(port), *map(int, numbers))


if __name__ == "__main__":
    main()
