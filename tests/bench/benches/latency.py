"""TCP request and response of 1 byte to 10^6 bytes each way ([W] Table V): what a tunnel adds to plain forwarding."""
import os

from harness import measure
from harness.measure import median, ratio
from harness.peers import Boringtun, OpenVpn, Vtun, WireguardGo
from harness.process import Process
from harness.topology import Topology
from harness.tunnels import Continuo, Plain, through

SIZES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]
LARGE = 10_000  # from here on a share of plain's time counts
LARGE_BOUND = 1.10
IDLE, SPINNING, SLOW = "idle", "spinner per core", "50 Mbit/s link"
ENCRYPT, SLEEPER = "continuo encrypt", "continuo encrypt, spin_us = 0"  # of ours; the second never stays awake for a packet
SPIN = ["nice", "-n", "19", "sh", "-c", "while :; do :; done"]


class Times:
    """Percentiles in µs by contestant, size and load of the machine."""

    def __init__(self):
        self.values, self.skipped = {}, {}

    def add(self, name, size, load, times):
        for key in ("p50_us", "p99_us"):
            self.values.setdefault((name, size, load, key), []).append(times[key])

    def get(self, name, size, load, key="p50_us"):
        return median(self.values.get((name, size, load, key), []))

    def added(self, name, size, load, key="p50_us"):
        whole, plain = self.get(name, size, load, key), self.get(Plain.name, size, load, key)
        return whole - plain if whole is not None and plain is not None else None


def measure_round(context, topology, contestants, sizes, load, times):
    for make in contestants:
        def use(tunnel):
            for size in sizes:
                if load != SPINNING:
                    measure.wait_quiet(context)
                times.add(tunnel.name, size, load, measure.round_trips(topology, size, context.pick(2, 0.3)))

        through(context, topology, make, times.skipped, use)


def report(result, times, names, sizes, loads):
    missing = f"{OpenVpn.name}: {times.skipped.get(OpenVpn.name, 'not measured')}"
    for load in loads:
        shown = [size for size in sizes if load != SLOW or size >= LARGE]
        for size in shown:
            for name in names:
                result.row(f"{load}, {size} B: {name}, median", times.get(name, size, load), "µs")
                result.row(f"{load}, {size} B: {name}, p99", times.get(name, size, load, "p99_us"), "µs")
            for key, text in (("p50_us", "median"), ("p99_us", "p99")):
                least = times.added(OpenVpn.name, size, load, key)
                for name in (ENCRYPT, SLEEPER):
                    result.row(f"{load}, {size} B: {name}, {text} added", times.added(name, size, load, key),
                               "µs", must=least, lower=True, without_peer=missing if least is None else None)
            over_plain = ratio(times.get(ENCRYPT, size, load), times.get(Plain.name, size, load))
            result.row(f"{load}, {size} B: {ENCRYPT} over plain, median", over_plain, "×",
                       must=LARGE_BOUND if size >= LARGE else None, goal=1 if load != SLOW else None, lower=True)
        result.plot(f"TCP round trip, {load}", "bytes each way", "median, µs",
                    {name: [[size, times.get(name, size, load)] for size in shown if times.get(name, size, load)]
                     for name in names}, log_x=True, log_y=True)
    for name, reason in times.skipped.items():
        result.skip(name, reason)
    result.skip("simplemux", "not in package managers; measured by hand only")


def run(context, result):
    contestants = [lambda: Plain(context), lambda: Continuo(context),
                   lambda: Continuo(context, knobs=[("", "spin_us", "0")], label=SLEEPER), lambda: WireguardGo(context),
                   lambda: OpenVpn(context)]
    if not context.quick:
        contestants += [lambda: Continuo(context, "authenticate"), lambda: Boringtun(context), lambda: Vtun(context)]
    sizes = context.pick(SIZES, [1, 1_000, 10_000, 1_000_000])
    times = Times()
    loads = {IDLE: 0, SPINNING: os.cpu_count() or 1}
    with Topology(context.load) as topology:
        measure.serve(topology)
        for _ in range(context.pick(5, 1)):
            for load, spinners in loads.items():
                spinning = [Process(SPIN, name="spinner") for _ in range(spinners)]
                try:
                    measure_round(context, topology, contestants, sizes, load, times)
                finally:
                    for spinner in spinning:
                        spinner.stop()
    # Between devices without a rate a large exchange costs processor time only; a link with one shows what a user would see.
    with Topology(context.load) as topology:
        measure.serve(topology)
        for short, device in (("node", "up1"), ("gw1", "lan")):
            topology.shape(short, device, "50mbit")
        for _ in range(context.pick(5, 1)):
            measure_round(context, topology, contestants, [size for size in sizes if size >= LARGE], SLOW, times)
    names = list(dict.fromkeys(name for name, *_ in times.values))
    report(result, times, names, sizes, [*loads, SLOW])
