#!/usr/bin/env python3
"""What happens in e2e/chaos.sh, what is carried meanwhile, and whether all of it was right.

  chaos.py plan SEED SECONDS                      prints the events, a line each: "SECONDS EVENT ARGUMENT..."
  chaos.py promised SEED SECONDS                  the longest silence of a TCP connection that PATHS allows for these events
  chaos.py server PORT LOG                        the correspondent
  chaos.py client ADDRESS PORT SECONDS LOG        downloads, uploads and connections that last all the time
  chaos.py judge OUTAGES BOUND LOG...             names what went wrong; OUTAGES has lines "FROM TO": nothing can arrive then.
                                                  Exit code 1 where it is more than a stall, 2 where it is a stall

A byte's value follows from its flow and its place in it, so the receiver sees whatever is lost, doubled or moved. Logs have lines
"done|wrong|lost|stuck KIND FLOW ..." and "stall KIND FLOW FROM TO"."""
import random
import socket
import sys
import threading
import time

PATTERN = random.Random(9347).randbytes(1_000_003)  # a prime: no multiple of a segment
BLOCK = 16384
RATE = 250_000  # bytes a second of each transfer
TALK_S = 0.2
SHORTEST_STALL_S = 1.0
GRACE_S = 40  # after the end, for what is under way
KINDS = {"down": 2, "up": 2, "talk": 3}


# --- Events

HOLES = (1400, 1300, 1000)


def events_of(source, seconds):
    """(time, words). An uplink has one fault at a time of those that let nothing through, and while it has one the other has none,
    but for `away`, which takes both."""
    blocked, holes = {}, {}  # uplink: until when
    dead_until = 0.0
    now = 2.0
    while now < seconds - 8:
        uplink = source.choice((1, 2))
        span = source.uniform(1.5, 7)
        kind = source.choices(("address", "carrier", "silence", "one_way", "udp", "hole", "link", "away", "cnapt", "snapt"),
                              (5, 3, 3, 2, 5, 4, 4, 2, 1, 1))[0]
        is_dead = kind in ("carrier", "silence", "one_way", "away", "cnapt", "snapt")
        if is_dead and now < dead_until + 2 or kind == "udp" and blocked.get(uplink, 0) > now or \
                kind == "hole" and holes.get(uplink, 0) > now:
            now += source.uniform(0.5, 2)
            continue
        if kind == "address":
            yield now, ("address", uplink, source.randrange(10, 250))
        elif kind == "link":
            yield now, ("link", uplink, source.choice((4, 10, 20)), source.randrange(2, 60), source.choice((0, 0, 0.005, 0.02)))
        elif kind in ("cnapt", "snapt"):
            yield now, (kind, round(source.uniform(0.2, 1.5), 2))
            span = 3
        elif kind == "away":
            span = source.uniform(1, 4)
            yield now, ("away", "on")
            yield now + span, ("away", "off")
        elif kind == "hole":
            span += 6
            holes[uplink] = now + span
            yield now, ("hole", uplink, source.choice(HOLES))
            yield now + span, ("hole", uplink, "none")
        elif kind == "udp":
            span += source.uniform(2, 12)
            blocked[uplink] = now + span
            yield now, ("udp", uplink, "on")
            yield now + span, ("udp", uplink, "off")
        else:
            words = (kind, uplink) + ((source.choice(("a-to-b", "b-to-a")),) if kind == "one_way" else ())
            yield now, (*words, "on")
            yield now + span, (*words, "off")
        if is_dead:
            dead_until = now + span
        now += source.uniform(0.5, 4)


def planned(seed, seconds):
    return sorted((round(min(at, seconds - 1), 2), words) for at, words in events_of(random.Random(seed), seconds))


# --- What docs/PATHS.md allows

QUEUED_S = 100 * 1500 * 8 / 4e6  # the links' queue at their lowest rate
ROUND_TRIP_S = 2 * 0.06 + QUEUED_S
MOVE_S = ROUND_TRIP_S + 0.2  # announcement, answer, repeats (kLongestRepeat)
SILENCE_S = 2 + MOVE_S  # T_doubt
NO_UDP_S = 2  # data goes on within
HOLE_S = 2.5 + ROUND_TRIP_S  # a question 1 s after the last, 1 s without an answer, nine probes 40 ms apart
RTO_S = 0.2 + ROUND_TRIP_S  # Linux' minimum


def takes(words, faults):
    """How long the tunnel may carry nothing for an event. `faults` are those that a node may meet where it goes: (kind, uplink)."""
    kind, *place = words
    is_on = place[-1] == "on"
    if kind == "udp":
        return NO_UDP_S if is_on else 0
    if kind == "hole":
        return HOLE_S if place[-1] != "none" else 0
    if kind == "away":
        return 0 if is_on else 1 + MOVE_S  # dead paths are probed once a second; the outage itself is left out
    if kind not in ("address", "carrier", "silence", "one_way") or kind != "address" and not is_on:
        return 0
    goes_to = place[0] if kind == "address" else 3 - place[0]
    there = NO_UDP_S * (("udp", goes_to) in faults) + HOLE_S * (("hole", goes_to) in faults)
    return (SILENCE_S if kind in ("silence", "one_way") else MOVE_S) + there


def promised(seed, seconds):
    """Faults that meet add up where a node meets them as it goes there (UDP that is blocked, a hole); its other timers run at the same time."""
    faults, begin, end, longest = set(), 0.0, 0.0, 0.0
    for at, words in planned(seed, seconds):
        if words[0] in ("udp", "hole"):
            (faults.discard if words[-1] in ("off", "none") else faults.add)(words[:2])
        if at > end:
            begin = end = at
        end = end + takes(words, faults) if words[0] in ("udp", "hole") else max(end, at + takes(words, faults))
        longest = max(longest, end - begin)
    # It tries again at intervals that double (RFC 6298, 5.5): outage and x end in 2 outages + 2x + RTO, and judge() takes 2 outages off.
    return 2 * longest + RTO_S


# --- Traffic

class Log:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)
        self.lock = threading.Lock()

    def write(self, *words):
        with self.lock:
            self.file.write(" ".join(map(str, words)) + "\n")


class Progress:
    """Writes how long nothing came."""

    def __init__(self, log, kind, flow):
        self.log, self.kind, self.flow, self.last = log, kind, flow, time.time()

    def step(self):
        now = time.time()
        if now - self.last >= SHORTEST_STALL_S:
            self.log.write("stall", self.kind, self.flow, f"{self.last:.3f}", f"{now:.3f}")
        self.last = now


def part(flow, place, count):
    """The bytes of a flow from `place` on."""
    begin = (flow * 7919 + place) % len(PATTERN)
    data = PATTERN[begin:begin + count]
    while len(data) < count:
        data += PATTERN[:count - len(data)]
    return data


def send_part(connection, flow, size):
    began, sent = time.monotonic(), 0
    while sent < size:
        count = min(BLOCK, size - sent)
        connection.sendall(part(flow, sent, count))
        sent += count
        due = sent / RATE
        behind = time.monotonic() - began - due
        if behind > 0.5:
            began += behind - 0.5  # it stood still: that is not made up for
        elif behind < 0:
            time.sleep(-behind)


def receive_part(connection, flow, size, log, kind, first=b""):
    """False after a byte that is wrong; the rest of the flow says nothing more then."""
    progress, got, data = Progress(log, kind, flow), 0, first
    while True:
        if data:
            if data != part(flow, got, len(data)) or got + len(data) > size:
                log.write("wrong", kind, flow, got)
                return False
            got += len(data)
            progress.step()
        if got == size:
            log.write("done", kind, flow, got)
            return True
        data = connection.recv(65536)
        if not data:
            raise ConnectionError(f"ended after {got} of {size} bytes")


def serve_one(connection, log):
    try:
        with connection:
            kind, flow, size = connection.recv(64, socket.MSG_PEEK).split(b"\n")[0].split()
            connection.recv(len(kind) + len(flow) + len(size) + 3, socket.MSG_WAITALL)
            flow, size = int(flow), int(size)
            if kind == b"down":
                send_part(connection, flow, size)
                connection.recv(1)
            elif kind == b"up":
                connection.sendall(b"+" if receive_part(connection, flow, size, log, "up") else b"-")
            else:
                with connection.makefile("rb") as lines:
                    for line in lines:
                        connection.sendall(b"answer to " + line)
    except (OSError, ValueError):
        pass  # the client tells


def serve(port, path):
    log = Log(path)
    listener = socket.create_server(("0.0.0.0", port), backlog=64)
    while True:
        threading.Thread(target=serve_one, args=(listener.accept()[0], log), daemon=True).start()


class Client:
    def __init__(self, address, port, seconds, log):
        self.place, self.log, self.lock = (address, port), log, threading.Lock()
        self.end = time.monotonic() + seconds
        self.flows = 0
        self.open = {}

    def connect(self, kind, size):
        """Who begins while nothing works may be refused, or wait for long: that is no connection that was lost."""
        while time.monotonic() < self.end:
            try:
                connection = socket.create_connection(self.place, timeout=10)
            except OSError:
                time.sleep(0.2)
                continue
            connection.settimeout(None)
            with self.lock:
                self.flows += 1
                flow = self.flows
                self.open[flow] = kind
            connection.sendall(f"{kind} {flow} {size}\n".encode())
            return connection, flow
        return None, 0

    def run(self, kind, source):
        while time.monotonic() < self.end:
            size = source.randrange(200_000, 3_000_000)
            connection, flow = None, 0
            try:
                connection, flow = self.connect(kind, size)
                if connection:
                    with connection:
                        getattr(self, kind)(connection, flow, size)
            except OSError as error:
                self.log.write("lost", kind, flow, str(error).replace(" ", "_"))
            with self.lock:
                self.open.pop(flow, None)

    def down(self, connection, flow, size):
        receive_part(connection, flow, size, self.log, "down")

    def up(self, connection, flow, size):
        send_part(connection, flow, size)
        if connection.recv(1) == b"":
            raise ConnectionError("no answer to an upload")

    def talk(self, connection, flow, _):
        progress, lines, count = Progress(self.log, "talk", flow), connection.makefile("rb"), 0
        while True:
            is_last = time.monotonic() >= self.end
            line = f"line {count} of {flow}\n".encode()
            connection.sendall(line)
            answer = lines.readline()
            if not answer:
                raise ConnectionError(f"ended after {count} lines")
            progress.step()
            if answer != b"answer to " + line:
                self.log.write("wrong", "talk", flow, count)
                return
            count += 1
            if is_last:  # an answer from after the end
                self.log.write("done", "talk", flow, count)
                return
            time.sleep(TALK_S)


def carry(address, port, seconds, path):
    client = Client(address, port, seconds, Log(path))
    threads = [threading.Thread(target=client.run, args=(kind, random.Random(f"{kind} {number}")), daemon=True)
               for kind, count in KINDS.items() for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, client.end + GRACE_S - time.monotonic()))
    for flow, kind in list(client.open.items()):
        client.log.write("stuck", kind, flow)


# --- Verdict

def overlap(begin, end, outages):
    return sum(max(0, min(end, to) - max(begin, since)) for since, to in outages)


def judge(outages_path, bound, paths):
    """A sender that was silent through an outage tries again after as long at most (RFC 6298, doubling)."""
    outages = [tuple(map(float, line.split())) for line in open(outages_path)]
    done = {kind: [0, 0] for kind in KINDS}
    bad, slow, longest = [], [], (0, "")
    for path in paths:
        for line in open(path):
            what, kind, *words = line.split()
            if what == "done":
                done[kind][0] += 1
                done[kind][1] += int(words[1])
            elif what == "stall":
                begin, end = float(words[1]), float(words[2])
                excess = end - begin - 2 * overlap(begin, end, outages)
                longest = max(longest, (excess, line.strip()))
                if excess > bound:
                    slow.append(f"{line.strip()}: {end - begin:.1f} s, {excess:.1f} s more than outages explain")
            else:
                bad.append(line.strip())
    print(", ".join(f"{kind}: {flows} done, {sum_} {'lines' if kind == 'talk' else 'bytes'}" for kind, (flows, sum_) in done.items()))
    print(f"longest stall beyond outages: {longest[0]:.1f} s ({longest[1]})")
    if done["talk"][0] < KINDS["talk"]:
        bad.append(f"only {done['talk'][0]} of {KINDS['talk']} lasting connections are there to the end")
    bad += [f"{kind}: nothing was done" for kind, (flows, _) in done.items() if not flows]
    print("\n".join((bad + slow)[:20]))
    return 1 if bad else 2 if slow else 0


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "plan":
        for at, event in planned(int(words[0]), float(words[1])):
            print(at, *event)
    elif command == "promised":
        print(f"{promised(int(words[0]), float(words[1])):.1f}")
    elif command == "server":
        serve(int(words[0]), words[1])
    elif command == "client":
        carry(words[0], int(words[1]), float(words[2]), words[3])
    else:
        sys.exit(judge(words[0], float(words[1]), words[2:]))
