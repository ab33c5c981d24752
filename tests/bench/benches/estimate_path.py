"""What a node says of a path, beside what the link emulator did to it: delivery rate, smallest round trip (beside a ping's without
the tunnel), loss, and the bytes that acknowledgements cost, everything else that comes back included."""
import json
import os
import re
import time

from harness import measure
from harness.process import BenchError, Process
from harness.topology import INET, ManyUplinks
from harness.tunnels import NO_HOLD, Continuo

# Bit/s and round trip in ms of each path that is filled; the queue takes QUEUE_MS, a round trip at least.
FILLED = [(64_000, 100), (1_000_000, 1), (1_000_000, 600), (10_000_000, 20), (10_000_000, 600), (100_000_000, 20),
          (1_000_000_000, 1)]
QUICK_FILLED = [(1_000_000, 1), (10_000_000, 20)]
TRACES = ["Verizon-LTE-short", "TMobile-UMTS-driving", "Verizon-EVDO-driving"]
TRACE_RATE, TRACE_RTT_MS = 10_000_000, 60  # the rate is what is offered at least
LOSSES = [0, 0.01, 0.1]
LOSS_RATE, LOSS_RTT_MS = 10_000_000, 20
QUEUE_MS = 100
SIZE = 1000  # payload of the UDP packets
GATEWAY = "192.168.1.1"  # behind the cable
PINGS, PING_S, PING_SIZE = 20, 0.1, 80
ICMP_HEADERS = 28  # with IP's
OVERLOAD = 1.15  # a fifth lost would be taken for a throttle of UDP
PASSED_S = 5  # what passed is counted for so long, and estimates are read meanwhile
READ_S = 0.5
FILL_S = 10
SMALLEST_MS = 0.3


def link_words(rate, rtt_ms, trace=None, up="loss 0"):
    queue = max(QUEUE_MS, rtt_ms) * (rate // 8) // 1000
    capacity = f"trace {trace}.up" if trace else f"rate {rate}"
    words = f"both trace none loss 0 delay {rtt_ms * 500}us queue-bytes {max(queue, 4000)} a-to-b {capacity} {up} b-to-a "
    return (words + (f"trace {trace}.down" if trace else f"rate {rate}")).split()


class Emulator:
    """The one cable of the topology."""

    def __init__(self, topology):
        self.topology = topology

    def set(self, words):
        self.topology.tell(1, words)

    def read(self):
        stats = json.loads(self.topology.tell(1, ["stats"]))
        return stats["a-to-b"], stats["b-to-a"]


def estimate(tunnel):
    path = next((path for path in tunnel.query("cnapt", "paths") if path["active"]), None)
    if path is None:
        raise BenchError("no path is active")
    return path


def pings(topology, to, size=PING_SIZE):
    """The shortest round trip in ms of some pings."""
    text = topology.run("node", ["ping", "-c", PINGS, "-i", PING_S, "-s", size, to], check=False)
    found = re.search(r"= ([0-9.]+)/", text)
    if not found:
        raise BenchError(f"no answer to pings of {to}: {text}")
    return float(found[1])


class Load:
    """UDP from the node to inet, at so many bit/s of IP packets."""

    def __init__(self, topology, bits_per_s, seconds):
        self.seconds = seconds
        rate = max(1, round(bits_per_s / 8 / (SIZE + 28)))
        self.counter = Process([topology.load, "count", measure.UDP_PORT, "--idle-ms", 2000], namespace=topology.ns("inet"),
                               name="packet counter").wait_ready()
        self.sender = Process([topology.load, "blast", INET, measure.UDP_PORT, SIZE, rate, seconds],
                              namespace=topology.ns("node"), name=f"{rate} packets/s")

    def join(self):
        self.sender.output(self.seconds + 15)
        self.counter.output(self.seconds + 15)


def tunnel_pings(topology, emulator):
    """Bytes of the IP packets that pings through the tunnel take on the link, on average."""
    before, _ = emulator.read()
    pings(topology, INET)
    after, _ = emulator.read()
    return (after["delivered_bytes"] - before["delivered_bytes"]) / (after["delivered_packets"] - before["delivered_packets"])


def filled(topology, tunnel, emulator, rate):
    """(estimated bit/s on average, bit/s that passed, share of the bytes that came back) of a path that is filled."""
    load = Load(topology, OVERLOAD * rate, FILL_S)
    time.sleep(FILL_S - PASSED_S - 0.5)
    (up_before, down_before), began = emulator.read(), time.monotonic()
    found = []
    while time.monotonic() - began < PASSED_S:
        time.sleep(READ_S)
        found.append(estimate(tunnel)["delivery_bits_per_s"])
    (up, down), seconds = emulator.read(), time.monotonic() - began
    load.join()
    passed = up["delivered_bytes"] - up_before["delivered_bytes"]
    back = down["offered_bytes"] - down_before["offered_bytes"]
    return None if None in found else sum(found) / len(found), passed * 8 / seconds, back / max(1, passed)


def started(context, topology):
    return Continuo(context, knobs=NO_HOLD).start(topology)


def filled_rows(context, result, topology, emulator, name, rate, words, has_constant_delay=True):
    context.progress(name)
    emulator.set(words)
    with started(context, topology) as tunnel:
        size = tunnel_pings(topology, emulator)
        smallest = estimate(tunnel)["rtt_min_ms"]
        found, passed, back = filled(topology, tunnel, emulator, rate)
    shortest = pings(topology, GATEWAY, round(size) - ICMP_HEADERS)
    error = abs(found - passed) / passed if found else None
    result.row(f"{name}: delivery rate, off by", error, "×", 0.1, 0.05, lower=True, reason="none was estimated",
               estimated_bits_per_s=found, passed_bits_per_s=passed)
    result.row(f"{name}: bytes that came back, of those that passed", back, "×", 0.02, 0.01, lower=True)
    if has_constant_delay:
        off = abs(smallest - shortest) if smallest is not None else None
        result.row(f"{name}: smallest round trip, off by", off, "ms", max(0.05 * shortest, SMALLEST_MS),
                   max(0.03 * shortest, SMALLEST_MS), lower=True, reason="none was measured", estimated_ms=smallest,
                   plain_ms=shortest)


def loss_row(context, result, topology, emulator, loss):
    name = f"{LOSS_RATE / 1e6:g} Mbit/s, {LOSS_RTT_MS} ms, {loss * 100:g} % of loss"
    context.progress(name)
    emulator.set(link_words(LOSS_RATE, LOSS_RTT_MS))
    with started(context, topology) as tunnel:
        emulator.set(link_words(LOSS_RATE, LOSS_RTT_MS, up=f"loss {loss}"))
        before, _ = emulator.read()
        load = Load(topology, LOSS_RATE / 2, FILL_S)
        time.sleep(FILL_S - 0.5)
        after, _ = emulator.read()
        found = estimate(tunnel)["loss"]
        load.join()
    offered = after["offered_packets"] - before["offered_packets"]
    lost = 1 - (after["delivered_packets"] - before["delivered_packets"]) / max(1, offered)
    if offered < 2000:
        raise BenchError(f"{name}: {offered} datagrams are too few")
    off = abs(found - lost) * 100 if found is not None else None
    result.row(f"{name}: loss, off by", off, "points", 1, 0.5, lower=True, reason="none was estimated", estimated=found,
               emulated=lost, datagrams=offered)


def bits(rate):
    return f"{rate / 1e9:g} Gbit/s" if rate >= 1e9 else f"{rate / 1e6:g} Mbit/s" if rate >= 1e6 else f"{rate / 1e3:g} kbit/s"


def run(context, result):
    with ManyUplinks(context.load, [(100, 1)]) as topology:
        emulator = Emulator(topology)
        for rate, rtt_ms in context.pick(FILLED, QUICK_FILLED):
            filled_rows(context, result, topology, emulator, f"{bits(rate)}, {rtt_ms} ms", rate, link_words(rate, rtt_ms))
        for trace in context.pick(TRACES, []):
            path = f"{context.data}/traces/{trace}"
            name = f"{trace}, {TRACE_RTT_MS} ms"
            if not context.data or not os.path.exists(f"{path}.up"):
                result.skip(f"{name}: delivery rate, off by", "no recorded trace", "×", must=0.1, goal=0.05)
                continue
            filled_rows(context, result, topology, emulator, name, TRACE_RATE, link_words(TRACE_RATE, TRACE_RTT_MS, path), False)
        for loss in context.pick(LOSSES, LOSSES[2:]):
            loss_row(context, result, topology, emulator, loss)
