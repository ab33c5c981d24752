"""Break before make: the node loses one address and gets another behind another gateway. The gap is the silence at the
receiver around the move, less what `ip -batch` itself took. Nothing is duplicated, no address detection runs."""
import os
import statistics
import time

from harness import measure
from harness.measure import median, worst
from harness.peers import Boringtun, OpenVpn, WireguardGo
from harness.process import Process, read, wait_for
from harness.topology import INET, Topology
from harness.tunnels import NO_HOLD, Continuo, through

PACKET, RATE = 1000, 1000  # of the UDP streams; a gap of 1 ms is the resolution
PORT, HELLO_PORT = 5301, 5302
HEARD_AGAIN = 60  # arrivals after a move
CONTROL_NS = 250_000_000
LOSS_BEFORE_NS = 100_000_000  # a probe under way when the move began is lost by it
LONGEST_GAP_S = 12
NEVER_NS = 9_000_000_000  # silent for so long at the end of what is waited for
LIMIT_MS, GOAL_MS, WORST_GOAL_MS, PEER_MS = 10, 3, 5, 2
DOWNLOAD_LINK = "100mbit"
# A download that fills its link, and the FIFO before it.
FULL_LINKS = ("20mbit", "100mbit")
QUEUE_MS, SMALL_BURST = 30, "8kb"
CONGESTION = "cubic"  # BBR leaves the queue nearly empty
PING_RATE = 500
# [W] Fig. 12, seconds: published, not measured here.
PUBLISHED = (("Mobile IPv6", 3.40), ("WiOptiMo", 3.34), ("WiOptiMo without signal loss", 1.20))


class Move:
    def __init__(self, began_ns, done_ns):
        self.began_ns, self.done_ns = began_ns, done_ns


def silence_ms(arrivals, move, until_ns):
    """The longest silence that overlaps the time from the move to `until_ns`, less what the move itself took, in ms. None when
    nothing came any more: what was on its way when the node moved does not count as coming back."""
    heard = [arrival for arrival in arrivals if arrival < until_ns]
    if not heard or until_ns - heard[-1] > NEVER_NS:
        return None
    longest = None
    for before, after in zip(arrivals, arrivals[1:]):
        if after > move.began_ns and before < until_ns:
            longest = max(longest or 0, after - before)
    return None if longest is None else max(0.0, (longest - (move.done_ns - move.began_ns)) / 1e6)


class Stream:
    """Something that goes through the tunnel and logs "ARRIVAL_NS …" at its receiver. One for all moves of a series."""

    def __init__(self, topology, folder, seconds):
        self.topology, self.log, self.seconds = topology, f"{folder}/arrivals", seconds
        self.processes = []

    def _start(self, short, command, name):
        process = Process(command, namespace=self.topology.ns(short), name=name)
        self.processes.append(process)
        return process

    def arrivals(self):
        return sorted(int(line.split()[0]) for line in read(self.log).splitlines() if line.count(" ") >= 2)

    def end(self):
        for process in reversed(self.processes):
            process.stop()


class Uplink(Stream):
    name = "uplink stream"

    def begin(self):
        load = self.topology.load
        self._start("inet", [load, "count", PORT, "--log", self.log, "--idle-ms", 60_000], "receiver").wait_ready()
        self._start("node", [load, "blast", INET, PORT, PACKET, RATE, self.seconds], "sender")


class DownOnly(Stream):
    name = "down-only stream"

    def begin(self):
        load = self.topology.load
        self._start("inet", [load, "blast", INET, PORT, PACKET, RATE, self.seconds, "--hello", HELLO_PORT],
                    "sender").wait_ready()
        self._start("node", [load, "count", PORT, "--log", self.log, "--idle-ms", 60_000, "--hello",
                             f"{INET}:{HELLO_PORT}"], "receiver").wait_ready()


class Download(Stream):
    """TCP; the application's own reads are what arrives."""
    name = "TCP download"

    def begin(self):
        self._start("node", [self.topology.load, "tcp", INET, measure.TCP_PORT, "down", 1, self.seconds, "--log", self.log],
                    "download")


class FloodPing(Stream):
    """Echo requests as ping -f sends them: the next when the newest is answered, or after 10 ms. The log comes at the end:
    "ANSWERED_NS NUMBER SENT_NS", 0 for lost ones."""
    name = "flood ping"
    rate = "flood"

    def begin(self):
        self._start("node", [self.topology.load, "ping", INET, self.rate, self.seconds, self.log], "ping").wait_ready()

    def probes(self):
        return [[int(word) for word in line.split()] for line in read(self.log).splitlines()]

    def arrivals(self):
        return sorted(answered for answered, _, _ in self.probes() if answered)


class RegularPing(FloodPing):
    """As many whatever is answered: their class is ht-ld."""
    name = f"ping, {PING_RATE} a second"
    rate = PING_RATE


class Series:
    """What became of a row of moves under one stream."""

    def __init__(self):
        self.gaps, self.controls, self.lost_packets = [], [], []

    def take(self, stream, moves, ended_ns):
        arrivals = stream.arrivals()
        ends = [move.began_ns for move in moves[1:]] + [ended_ns]
        for move, end in zip(moves, ends):
            self.gaps.append(silence_ms(arrivals, move, end))
            quiet = Move(move.began_ns - CONTROL_NS, move.began_ns - CONTROL_NS)
            self.controls.append(silence_ms(arrivals, quiet, move.began_ns - 1))
        if isinstance(stream, FloodPing):
            probes = stream.probes()
            for move, end in zip(moves, ends):
                self.lost_packets.append(sum(1 for answered, _, sent in probes
                                             if not answered and move.began_ns - LOSS_BEFORE_NS < sent < end - LOSS_BEFORE_NS))
        return self


def wait_until_heard(stream, offset, since_ns):
    """Until enough has arrived after the move that no packet of the old path can be among the last; False after the longest gap
    that is waited for."""
    end = time.monotonic() + LONGEST_GAP_S

    def heard():
        with open(stream.log) as file:
            file.seek(offset)
            return sum(1 for line in file if line.endswith("\n") and int(line.split()[0]) > since_ns)

    while heard() < HEARD_AGAIN:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def move_under(context, topology, kind, runs, assisted):
    """A Series of `runs` moves under one stream."""
    is_ping = issubclass(kind, FloodPing)
    pause = context.pick(0.8, 0.3) + (0.8 if kind is Download else 0)
    stream = kind(topology, context.new_folder("stream"), runs * (pause + LONGEST_GAP_S) + 5)
    moves = []
    try:
        stream.begin()
        if is_ping:
            time.sleep(1)
        else:
            wait_for(lambda: os.path.exists(stream.log) and os.path.getsize(stream.log) > 1000, 10,
                     f"the {stream.name}{''.join(process.said() for process in stream.processes)}")
            time.sleep(pause)
        for _ in range(runs):
            offset = 0 if is_ping else os.path.getsize(stream.log)
            topology.moves += 1
            # A host number comes back only after hundreds of moves: no mapping of a NAT is met again.
            move = Move(*topology.move(3 + topology.moves % 250))
            if assisted:
                topology.run("node", ["ping", "-c", "1", "-W", "1", INET], check=False)
            moves.append(move)
            if is_ping:
                time.sleep(1)
            else:
                wait_until_heard(stream, offset, move.done_ns)
            time.sleep(pause)
        ended_ns = time.time_ns()
    finally:
        stream.end()
    return Series().take(stream, moves, ended_ns)


def contestants_of(context):
    """(label, how to make it, moves, with a ping through it after each move). Not vtun: its ends know one address of each other."""
    yield "continuo", lambda: Continuo(context), context.pick(20, 3), False
    yield "wireguard-go, ping after the move", lambda: WireguardGo(context, 25), context.pick(10, 2), True
    if not context.quick:
        yield "boringtun, ping after the move", lambda: Boringtun(context, 25), 10, True
        yield "wireguard-go, keepalive 1 s", lambda: WireguardGo(context, 1), 10, False
        yield "boringtun, keepalive 1 s", lambda: Boringtun(context, 1), 10, False
        yield "openvpn", lambda: OpenVpn(context), 5, False
        yield "openvpn, ping after the move", lambda: OpenVpn(context), 10, True


def sessions_of(tunnel):
    """What tells one session from another. The id alone is the same as long as the node's process runs."""
    return {(one["session_id"], one["inner_ipv4"], one["since"]) for one in tunnel.query("snapt", "sessions")}


def measure_streams(context, topology, rtt_ms, gaps, skipped):
    measure.serve(topology)
    for number in (1, 2):
        topology.shape(f"gw{number}", "lan", DOWNLOAD_LINK)
    for label, make, runs, assisted in contestants_of(context):
        def use(tunnel):
            before = sessions_of(tunnel) if label == "continuo" else set()
            for kind in (Uplink, DownOnly, Download):
                gaps[label, kind.name, rtt_ms] = move_under(context, topology, kind, runs, assisted)
            if label == "continuo":
                gaps[label, "sessions", rtt_ms] = len(before ^ sessions_of(tunnel))

        through(context, topology, make, skipped, use, label)


def report_gaps(result, what, found, bounds_ms, skipped):
    """Rows of `found`, {label: Series}; `bounds_ms` are Continuo's: must and goal of the median, goal of the worst."""
    for label, one in found.items():
        came_back = [gap for gap in one.gaps if gap is not None]
        is_ours = label == "continuo"
        must, goal, worst_goal = bounds_ms if is_ours else (None, None, None)
        result.row(f"{what}: {label}, median gap", median(came_back), "ms", lower=True, runs=len(one.gaps), gaps=one.gaps,
                   reason="it never came back", **({"must": must, "goal": goal} if is_ours else {}))
        result.row(f"{what}: {label}, worst gap", worst(came_back), "ms", lower=True, goal=worst_goal,
                   reason="it never came back")
        result.row(f"{what}: {label}, moves without return", one.gaps.count(None), "", lower=True, must=0 if is_ours else None,
                   n=len(one.gaps))
    if "continuo" in found:
        result.row(f"{what}: longest silence without a move (noise floor)", median(found["continuo"].controls), "ms")
        best = [median(one.gaps) for label, one in found.items() if label != "continuo" and None not in one.gaps]
        absent = "; ".join(f"{label}: {reason}" for label, reason in skipped.items() if label not in found)
        result.row(f"{what}: continuo beside the best peer, median gap",
                   median(found["continuo"].gaps), "ms", must=min(best) + PEER_MS if best and not absent else None, lower=True,
                   without_peer=absent or (None if best else "no peer came back from each move"))


def report_streams(result, gaps, rtt_ms, skipped):
    labels = list(dict.fromkeys(label for label, stream, _ in gaps if stream != "sessions"))
    for kind in (Uplink, DownOnly, Download):
        found = {label: gaps[label, kind.name, rtt_ms] for label in labels if (label, kind.name, rtt_ms) in gaps}
        report_gaps(result, f"{kind.name}, RTT {rtt_ms} ms", found,
                    (rtt_ms + LIMIT_MS, rtt_ms + GOAL_MS, 2 * rtt_ms + WORST_GOAL_MS), skipped)
    result.row(f"RTT {rtt_ms} ms: sessions that ended or began meanwhile", gaps.get(("continuo", "sessions", rtt_ms)), "", must=0,
               lower=True)


def measure_full_link(context, result, rate, skipped):
    """A TCP download at full rate: what was under way fills the queue of the link that the node left, and sent again that of the
    new one. RTT 0, so that the round trip is the queue."""
    gaps = {}
    with Topology(context.load) as topology:
        topology.moves = 0
        measure.serve(topology, CONGESTION)
        for number in (1, 2):
            topology.shape(f"gw{number}", "lan", rate, f"{QUEUE_MS}ms", SMALL_BURST)
        for label, make, runs, assisted in contestants_of(context):
            def use(tunnel):
                gaps[label] = move_under(context, topology, Download, runs, assisted)

            if assisted or label == "continuo":
                through(context, topology, make, skipped, use, label)
    what = f"TCP download at full rate, {rate}, {QUEUE_MS} ms of queue"
    assisted = {label for label, *_, is_assisted in contestants_of(context) if is_assisted}
    report_gaps(result, what, gaps, (QUEUE_MS + LIMIT_MS, QUEUE_MS + GOAL_MS, 2 * QUEUE_MS + WORST_GOAL_MS),
                {label: reason for label, reason in skipped.items() if label in assisted})
    plotted = {label: sorted_points(one.gaps) for label, one in gaps.items()}
    result.plot(f"Handover gap, {what}", "share of the moves, %", "gap, ms", plotted, log_y=True)


def measure_ping(context, result):
    """As [W] Fig. 12: the fault time of a flood ping, its density, and the packets lost. Also of a ping at a steady rate, each answer
    of which is waited for: its class is ht-ld, whose hold of 10 ms is longer than the move, so once more without it."""
    plotted = {}
    for label, kind, settings in (("flood ping", FloodPing, {}), (RegularPing.name, RegularPing, {}),
                                  (f"{RegularPing.name}, without hold", RegularPing, {"knobs": NO_HOLD})):
        with Topology(context.load) as topology:
            topology.moves = 0
            tunnel = Continuo(context, **settings)
            with tunnel:
                tunnel.start(topology)
                one = move_under(context, topology, kind, context.pick(50, 4), False)
        gaps = [gap for gap in one.gaps if gap is not None]
        result.row(f"{label}: continuo, median fault time", median(gaps), "ms", must=LIMIT_MS, goal=GOAL_MS, lower=True,
                   runs=len(one.gaps), gaps=one.gaps)
        result.row(f"{label}: continuo, worst fault time", worst(gaps), "ms", lower=True, goal=WORST_GOAL_MS)
        result.row(f"{label}: moves without return", one.gaps.count(None), "", lower=True, must=0, n=len(one.gaps))
        result.row(f"{label}: longest silence without a move (noise floor)",
                   median([gap for gap in one.controls if gap is not None]), "ms", lower=True)
        result.row(f"{label}: continuo, packets lost a move, mean", statistics.mean(one.lost_packets), "", lower=True,
                   n=len(one.lost_packets))
        result.row(f"{label}: continuo, packets lost a move, worst", worst(one.lost_packets), "", lower=True)
        plotted[label] = density(gaps)
    for name, seconds in PUBLISHED:
        result.row(f"fault time of {name}, as published in [W]", seconds * 1000, "ms")
    result.plot("Fault time of a ping over a handover", "ms", "share of the moves per ms", plotted, kind="step")


def density(values):
    """[[ms, share per ms]] in bins that suit the spread."""
    if not values:
        return []
    width = max(0.25, max(values) / 40)
    counts = {}
    for value in values:
        counts[int(value / width)] = counts.get(int(value / width), 0) + 1
    return [[number * width, counts.get(number, 0) / len(values) / width] for number in range(max(counts) + 2)]


def run(context, result):
    skipped = {}
    for rtt_ms in (0, 20):
        gaps = {}
        with Topology(context.load, delay_ms=rtt_ms / 2) as topology:
            topology.moves = 0
            measure_streams(context, topology, rtt_ms, gaps, skipped)
        report_streams(result, gaps, rtt_ms, skipped)
        for name in (Uplink.name, DownOnly.name, Download.name):
            plotted = {label: sorted_points(one.gaps) for (label, stream, _), one in gaps.items() if stream == name}
            result.plot(f"Handover gap, {name}, RTT {rtt_ms} ms", "share of the moves, %", "gap, ms", plotted, log_y=True)
    for rate in context.pick(FULL_LINKS, FULL_LINKS[-1:]):
        measure_full_link(context, result, rate, skipped)
    measure_ping(context, result)
    for label, reason in skipped.items():
        result.skip(label, reason)


def sorted_points(gaps):
    ordered = sorted(max(gap, 0.1) for gap in gaps if gap is not None)
    return [[100 * (number + 1) / len(ordered), gap] for number, gap in enumerate(ordered)]
