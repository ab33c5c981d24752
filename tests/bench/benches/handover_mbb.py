"""Make before break: the node gets another uplink with a better metric and has both for OVERLAP_S; then the first one goes.
Packets lost and longest silence of a stream in each class, in both directions."""
import os
import statistics
import time

from harness.measure import median, worst
from harness.peers import WireguardGo
from harness.process import Process, read, wait_for
from harness.topology import INET, Topology
from harness.tunnels import Continuo, through

from .saved import PORTS

SIZE, RATE = 200, 250  # a gap of 4 ms is the resolution
OVERLAP_S = 0.5
PAUSE_S = 1.5
RTT_MS = 20
DOWN = 1000  # a down stream's ports are the class's and this
LOW_DELAY = ("lt-ld", "ht-ld")
RULES = "version = 1\n\n[promotion]\nenabled = false\n" + "".join(
    f'\n[[rule]]\napp = "bench-{token}-{number}"\nmatch = {{ proto = "udp", dport = {port} }}\nclass = "{token}"\n'
    for token, up in PORTS.items() for number, port in enumerate((up, up + DOWN)))


class Stream:
    """Numbered packets of one class in one direction; the receiver logs "ARRIVAL_NS NUMBER SENT_NS"."""

    def __init__(self, topology, folder, token, direction):
        self.topology, self.token, self.direction = topology, token, direction
        self.log = f"{folder}/{token}-{direction}"
        self.processes = []

    def _start(self, short, command, name):
        process = Process(command, namespace=self.topology.ns(short), name=f"{self.token} {self.direction} {name}")
        self.processes.append(process)
        return process

    def begin(self, seconds):
        load, port = self.topology.load, PORTS[self.token]
        count = [load, "count", port, "--log", self.log, "--idle-ms", 60_000]
        if self.direction == "up":
            self._start("inet", count, "receiver").wait_ready()
            self._start("node", [load, "blast", INET, port, SIZE, RATE, seconds], "sender")
        else:
            port += DOWN
            self._start("inet", [load, "blast", INET, port, SIZE, RATE, seconds, "--hello", port], "sender").wait_ready()
            self._start("node", [*count[:2], port, *count[3:], "--hello", f"{INET}:{port}"], "receiver").wait_ready()
        return self

    def has_begun(self):
        return os.path.exists(self.log) and os.path.getsize(self.log) > 1000

    def arrivals(self):
        """[(arrival, number)]"""
        return [tuple(int(word) for word in line.split()[:2]) for line in read(self.log).splitlines() if line.count(" ") >= 2]

    def end(self):
        for process in reversed(self.processes):
            process.stop()


def judge(stream, moves):
    """(packets lost, packets received twice, silences in ms around the moves)"""
    arrivals = stream.arrivals()
    numbers = [number for _, number in arrivals]
    lost = max(numbers) - min(numbers) + 1 - len(set(numbers))
    times = sorted(arrival for arrival, _ in arrivals)
    silences = [max(after - before for before, after in zip(times, times[1:]) if after > began and before < ended) / 1e6
                for began, ended in moves]
    return lost, len(numbers) - len(set(numbers)), silences


def move_both_up(topology, host):
    """To the other gateway; (began, ended) in Unix ns."""
    old, old_host = topology.gateway, topology.host
    new = 3 - old
    began = time.time_ns()
    topology.ip("node", [f"addr add 192.168.{new}.{host}/24 dev up{new}",
                         f"route add default via 192.168.{new}.1 dev up{new} metric 50"])
    time.sleep(OVERLAP_S)
    topology.ip("node", [f"route del default via 192.168.{old}.1 dev up{old}",
                         f"addr del 192.168.{old}.{old_host}/24 dev up{old}"])
    time.sleep(PAUSE_S)
    topology.ip("node", [f"route add default via 192.168.{new}.1 dev up{new} metric 100",
                         f"route del default via 192.168.{new}.1 dev up{new} metric 50"])
    topology.gateway, topology.host = new, host
    return began, time.time_ns()


def series(context, topology, runs):
    """{(token, direction): (lost, twice, silences)} of `runs` moves under all streams at once."""
    folder = context.new_folder("streams")
    seconds = runs * (OVERLAP_S + PAUSE_S + 1) + 10
    streams = [Stream(topology, folder, token, direction) for token in PORTS for direction in ("up", "down")]
    try:
        for stream in streams:
            stream.begin(seconds)
        for stream in streams:
            wait_for(stream.has_begun, 10, f"the {stream.direction} stream of {stream.token}")
        time.sleep(PAUSE_S)
        moves = []
        for _ in range(runs):
            topology.moves += 1
            moves.append(move_both_up(topology, 3 + topology.moves % 250))
        time.sleep(PAUSE_S)
    finally:
        for stream in streams:
            stream.end()
    return {(stream.token, stream.direction): judge(stream, moves) for stream in streams}


def run(context, result):
    skipped, found = {}, {}
    runs = context.pick(20, 3)
    with Topology(context.load, delay_ms=RTT_MS / 2) as topology:
        topology.moves = 0
        topology.ip("node", ["route add default via 192.168.1.1 dev up1 metric 100", "route del default via 192.168.1.1 dev up1 metric 0"])
        for make in (lambda: Continuo(context, policy=RULES), lambda: WireguardGo(context, 25)):
            def use(tunnel):
                found[tunnel.name] = series(context, topology, runs)

            through(context, topology, make, skipped, use)
    for name, streams in found.items():
        is_ours = name.startswith("continuo")
        for (token, direction), (lost, twice, silences) in streams.items():
            bounds = {"must": 0 if token in LOW_DELAY else None, "goal": 0} if is_ours else {}
            what = f"{token} {direction}, RTT {RTT_MS} ms, {runs} moves: {name}"
            result.row(f"{what}, packets lost", lost, "", lower=True, silences=silences, n=runs, **bounds)
            result.row(f"{what}, delivered twice", twice, "", lower=True, must=0 if is_ours else None, n=runs)
            result.row(f"{what}, longest silence around a move, median", median(silences), "ms", lower=True)
            result.row(f"{what}, longest silence around a move, worst", worst(silences), "ms", lower=True)
        result.row(f"{name}: packets lost a move and stream, mean",
                   statistics.mean(lost for lost, _, _ in streams.values()) / runs, "", lower=True, n=runs * len(streams))
    for way in ("up", "down"):
        result.plot(f"Longest silence around a move with both links up for {OVERLAP_S:g} s, {way}", "share of the moves, %",
                    "silence, ms", {f"{name}, {token}": points(silences) for name, streams in found.items()
                                    for (token, direction), (_, _, silences) in streams.items() if direction == way}, log_y=True)
    for name, reason in skipped.items():
        result.skip(f"handover-mbb: {name}", reason)


def points(silences):
    ordered = sorted(max(silence, 0.1) for silence in silences)
    return [[100 * (number + 1) / len(ordered), silence] for number, silence in enumerate(ordered)]
