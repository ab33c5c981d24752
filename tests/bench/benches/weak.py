"""Weak machines: each daemon held to 5 % of a core, against kernel forwarding ([S] Figs 4-7, [L] Figs 4-5).

The forwarding of a chain of veth links runs in the time of whoever sends, so kernel forwarding is held to 5 % of a core by
holding the sender; its sending counts too, which makes the reference a little slower than forwarding alone. The unheld one is
beside it."""
import json

from harness import measure
from harness.limit import CpuLimit
from harness.measure import ratio
from harness.process import BenchError, Process
from harness.topology import INET, Topology
from harness.tunnels import Continuo, Plain

SHARE = 0.05
SIZE = 100
NO_LOSS = 0.001
OFFERED = 500_000  # more than a held sender can send
RATE_BOUNDS = (0.3, 0.6)
HOPS = (1, 2, 3, 4, 5)
HELD = "each daemon held to 5 % of a core"


def held_sender_rate(topology, seconds):
    """Packets a second that arrive from a sender held to SHARE."""
    counter = Process([topology.load, "count", measure.UDP_PORT, "--idle-ms", 1000], namespace=topology.ns("inet"),
                      name="packet counter").wait_ready()
    sender = Process([topology.load, "blast", INET, measure.UDP_PORT, SIZE, OFFERED, seconds], namespace=topology.ns("node"),
                     name="held sender")
    with CpuLimit([sender.pid], SHARE):
        wait_s = seconds * 2 + 15
        sender.output(wait_s)
    counted = json.loads(counter.output(wait_s))
    return counted["received"] / max(1e-9, counted["seconds"])


def packets(context, topology, result):
    with Plain(context) as plain:
        plain.start(topology)
        unheld = measure.highest_rate(topology, plain, SIZE, context.pick(1, 0.3), 20_000, loss=NO_LOSS, steps=context.pick(4, 2))
        held = held_sender_rate(topology, context.pick(4, 1.5))
        trip = measure.round_trips(topology, 1, context.pick(2, 0.5))
    with Continuo(context) as tunnel:
        tunnel.start(topology)
        with CpuLimit(tunnel.pids(), SHARE) as limit:
            ours = measure.highest_rate(topology, tunnel, SIZE, context.pick(3, 1), 500, loss=NO_LOSS, steps=context.pick(5, 3))
            ours_trip = measure.round_trips(topology, 1, context.pick(3, 1.5))
            how = limit.how
    rate = ours.rate if ours else None
    result.row("100 B packets, kernel forwarding, nothing held", unheld.rate if unheld else None, "packets/s")
    result.row("100 B packets, kernel forwarding held to 5 % of a core", held, "packets/s")
    result.row(f"100 B packets at no loss, continuo, {HELD}", rate, "packets/s", held_by=how, reason="always some lost")
    result.row("100 B packets, continuo over kernel forwarding, both held", ratio(rate, held), "×",
               *RATE_BOUNDS)
    result.row("100 B packets, continuo held over kernel forwarding not held", ratio(rate, unheld.rate if unheld else None), "×")
    result.row("round trip of 1 B, plain, median", trip["p50_us"], "µs", n=trip["count"])
    result.row(f"round trip of 1 B, continuo, {HELD}, median", ours_trip["p50_us"], "µs", n=ours_trip["count"])
    result.row(f"round trip of 1 B, continuo, {HELD}, p99", ours_trip["p99_us"], "µs", n=ours_trip["count"])


def tcp_over(context, topology, make, held):
    with make() as tunnel:
        tunnel.start(topology)
        if not held:
            return measure.transfer(topology, "down", 1, context.pick(3, 0.5))["bits_per_s"]
        with CpuLimit(tunnel.pids(), SHARE):
            return measure.transfer(topology, "down", 1, context.pick(8, 2))["bits_per_s"]


def run(context, result):
    with Topology(context.load) as topology:
        measure.serve(topology)
        packets(context, topology, result)
    plain, ours = [], []
    for hops in context.pick(HOPS, (1, 5)):
        with Topology(context.load, hops=hops) as topology:
            measure.serve(topology)
            try:
                plain.append([hops, tcp_over(context, topology, lambda: Plain(context), False) / 1e6])
                ours.append([hops, tcp_over(context, topology, lambda: Continuo(context), True) / 1e6])
            except BenchError as error:
                result.skip(f"TCP down over {hops} hops", str(error), "Mbit/s")
                continue
        result.row(f"TCP down over {hops} hops behind the server, plain, nothing held", plain[-1][1], "Mbit/s")
        result.row(f"TCP down over {hops} hops behind the server, continuo, {HELD}", ours[-1][1], "Mbit/s")
    result.plot("TCP download over hops", "hops behind the server", "Mbit/s",
                {"plain, nothing held": plain, "continuo, 5 % of a core each": ours}, log_y=True)
