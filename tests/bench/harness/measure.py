"""What is measured, and how: processor time, transfers, round trips, packet rates."""
import json
import os
import statistics
import time

from .process import BenchError, Process, read
from .topology import INET

TICKS = os.sysconf("SC_CLK_TCK")
TCP_PORT, UDP_PORT = 5201, 5202
QUIET_SHARE, QUIET_S = 0.06, 0.5
GIVE_UP_QUIET = 3  # blocks begun busy


def _machine_ticks():
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    return sum(fields[:8]), sum(fields[:8]) - fields[3] - fields[4]


def wait_quiet(context):
    """Until the machine was idle for half a second, at most 20 s; counts where it was not. A quick run, and one on a machine
    that is never idle, looks once."""
    end = time.monotonic() + (0 if context.quick or context.disturbed >= GIVE_UP_QUIET else 20)
    while True:
        all_before, busy_before = _machine_ticks()
        time.sleep(QUIET_S / 2 if context.quick else QUIET_S)
        all_after, busy_after = _machine_ticks()
        if (busy_after - busy_before) < QUIET_SHARE * max(1, all_after - all_before):
            return
        if time.monotonic() > end:
            context.disturbed += 1
            return


def cpu_seconds(pids):
    """User and system time of the processes, all threads."""
    total = 0
    for pid in pids:
        try:
            fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
        except OSError as error:
            raise BenchError(f"process {pid} of the tunnel has gone: {error}") from None
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _options(congestion, protocol):
    return (["--congestion", congestion] if congestion else []) + (["--protocol", protocol] if protocol else [])


def serve(topology, congestion=None, protocol=None, port=TCP_PORT, file=None):
    """The TCP correspondent, or one of `protocol`; what it gives are random bytes or `file`, over and over."""
    words = ["--file", file] if file else []
    return topology.start("inet", [topology.load, "serve", port, *words, *_options(congestion, protocol)]).wait_ready()


def transfer(topology, direction, streams, seconds, congestion=None, protocol=None, port=TCP_PORT, skip=0, patience=25,
             to=INET):
    """{bytes, seconds, bits_per_s} of TCP streams with random data, or what the correspondent gives, `up` or `down`; of `down`
    after its first `skip` bytes, for which there are `patience` s."""
    process = Process([topology.load, "tcp", to, port, direction, streams, seconds, "--skip", skip,
                       *_options(congestion, protocol)], namespace=topology.ns("node"),
                      name=f"transfer {direction}, {streams} streams")
    return json.loads(process.output(seconds + patience))


def transfer_with_cpu(topology, tunnel, direction, streams, seconds):
    """(bit/s, tunnel CPU seconds per GB)"""
    before = cpu_seconds(tunnel.pids())
    result = transfer(topology, direction, streams, seconds)
    cpu = cpu_seconds(tunnel.pids()) - before
    if not result["bytes"]:
        raise BenchError(f"nothing went {direction} through {tunnel.name}")
    return result["bits_per_s"], cpu / (result["bytes"] / 1e9)


def round_trips(topology, size, seconds):
    """{count, p50_us, p99_us} of exchanges of `size` bytes each way."""
    process = Process([topology.load, "ask", INET, TCP_PORT, size, seconds], namespace=topology.ns("node"),
                      name=f"round trips of {size} bytes")
    return json.loads(process.output(seconds + 25))


class Blast:
    """The outcome of one burst of UDP packets from node to inet."""

    def __init__(self, sent, received, seconds, cpu):
        self.sent, self.received, self.seconds, self.cpu = sent, received, seconds, cpu

    @property
    def rate(self):
        return self.received / max(1e-9, self.seconds)

    @property
    def loss(self):
        return 1 - self.received / max(1, self.sent)

    @property
    def cpu_us(self):
        return self.cpu * 1e6 / max(1, self.received)


def blast(topology, tunnel, size, rate, seconds, port=UDP_PORT, flows=1, files=(), idle_ms=400):
    """Sends `size`-byte packets at `rate` a second and flow, for so long or until the files (one a flow) end."""
    counter = Process([topology.load, "count", port, "--idle-ms", idle_ms], namespace=topology.ns("inet"),
                      name="packet counter").wait_ready()
    before = cpu_seconds(tunnel.pids())
    words = [word for file in files for word in ("--file", file)]
    sender = Process([topology.load, "blast", INET, port, size, rate, seconds, "--flows", flows, *words],
                     namespace=topology.ns("node"), name=f"{rate:g} packets/s")
    sent = json.loads(sender.output(seconds + 15))
    counted = json.loads(counter.output(seconds + 15))
    return Blast(sent["sent"] * flows if not files else None, counted["received"], sent["seconds"],
                 cpu_seconds(tunnel.pids()) - before)


def highest_rate(topology, tunnel, size, seconds, start, limit=2_000_000, loss=0.01, steps=4, tries=2):
    """The best Blast with less than `loss`: growing rates, then bisection. A step may be tried again: a single disturbance
    ends it otherwise. None when nothing passed."""
    best = None

    def passes(rate):
        nonlocal best
        for _ in range(tries):
            result = blast(topology, tunnel, size, rate, seconds)
            if result.loss < loss:
                best = result if best is None or result.rate > best.rate else best
                return result
        return None

    low, high, rate = 0, None, start
    while rate <= limit:
        result = passes(rate)
        if result is None:
            high = rate
            break
        low = rate
        if result.rate < 0.9 * rate:  # the sender is the limit
            return best
        rate *= 1.6
    for _ in range(steps if high else 0):
        middle = (low + high) / 2
        result = passes(middle)
        if result is None:
            high = middle
        else:
            low = middle
            if result.rate < 0.9 * middle:
                break
    return best


class Measured(float):
    """A figure that knows of how many measurements it is: `n`, also what is calculated from it."""

    def __new__(cls, value, n):
        figure = super().__new__(cls, value)
        figure.n = n
        return figure

    def _of(self, value, other):
        return Measured(value, min(self.n, getattr(other, "n", self.n)))

    def __mul__(self, other):
        return self._of(float(self) * float(other), other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._of(float(self) / float(other), other)

    def __sub__(self, other):
        return self._of(float(self) - float(other), other)


def ratio(over, under):
    return over / under if over is not None and under else None


def median(values):
    values = [value for value in values if value is not None]
    return Measured(statistics.median(values), len(values)) if values else None


def worst(values):
    """The largest."""
    values = [value for value in values if value is not None]
    return Measured(max(values), len(values)) if values else None


def quantile(values, share):
    ordered = sorted(values)
    return Measured(ordered[min(len(ordered) - 1, int(share * len(ordered)))], len(ordered)) if ordered else None


# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def mean_with_interval(values):
    """(mean, half the 95 % interval); no interval of less than two values, nothing of none."""
    if not values:
        return None, None
    if len(values) < 2:
        return Measured(values[0], 1), None
    quantile = T_95.get(len(values) - 1, 1.96)
    return Measured(statistics.mean(values), len(values)), quantile * statistics.stdev(values) / len(values) ** 0.5
