"""What an idle node behind NAT costs: every outer IP byte, both ways, control and keepalives included."""
import time

from harness.counters import OuterCounter
from harness.peers import Boringtun, OpenVpn, WireguardGo
from harness.topology import Topology
from harness.tunnels import Continuo, through

SETTLE_S = 3
DAY_S = 86_400
MUST_KB, GOAL_KB = 1000, 200
FULL_S, QUICK_S = 600, 50  # twice the default keepalive of 25 s, and a little


def bytes_while_idle(topology, seconds):
    time.sleep(SETTLE_S)
    counter = OuterCounter(topology)
    time.sleep(seconds)
    total = counter.total()
    counter.remove()
    return total


def run(context, result):
    contestants = [lambda: Continuo(context)]
    if not context.quick:
        # Not vtun, which keeps no NAT's mapping: it works without one only.
        contestants += [lambda: WireguardGo(context, 25), lambda: Boringtun(context, 25), lambda: OpenVpn(context)]
    skipped = {}
    seconds = context.pick(FULL_S, QUICK_S)
    with Topology(context.load) as topology:
        def use(tunnel):
            total = bytes_while_idle(topology, seconds)
            bounds = {"must": MUST_KB, "goal": GOAL_KB} if isinstance(tunnel, Continuo) else {}
            result.row(f"idle for {seconds} s: {tunnel.name}, a day", total.bytes * DAY_S / seconds / 1000, "kB/day",
                       lower=True, counted_bytes=total.bytes, counted_packets=total.packets, **bounds)
            result.row(f"idle for {seconds} s: {tunnel.name}, packets", total.packets, "packets")

        for make in contestants:
            through(context, topology, make, skipped, use)
    for name, reason in skipped.items():
        result.skip(f"idle: {name}", reason)
