"""100-byte UDP packets: how many a second with less than 1 % loss, and what each costs, at the maximum and at 20 000/s."""
from harness import measure
from harness.measure import median, ratio
from harness.peers import PEERS, OpenVpn, WireguardGo
from harness.topology import Topology
from harness.tunnels import NO_HOLD, Continuo, Plain, through

SIZE = 100  # UDP payload
STEADY = 20_000
START = 20_000
HELD, UNHELD = "continuo encrypt, hold", "continuo encrypt, no hold"
MAXIMUM = {"rate": (1.0, 1.5), "cpu": (7, 4)}
STEADY_CPU_HELD = (14, 7)
STEADY_GOAL = 25


def contestants_of(context):
    yield lambda: Plain(context)
    yield lambda: Continuo(context, label=HELD)
    yield lambda: Continuo(context, label=UNHELD, knobs=NO_HOLD)
    for peer in PEERS:
        yield lambda peer=peer: peer(context)


def measure_all(context, topology):
    """{name: [Blast]} at the maximum and at the steady rate, and who was skipped."""
    highest, steady, skipped = {}, {}, {}
    for _ in range(context.pick(3, 1)):
        for make in contestants_of(context):
            def use(tunnel):
                measure.wait_quiet(context)
                steady.setdefault(tunnel.name, []).append(
                    measure.blast(topology, tunnel, SIZE, STEADY, context.pick(3, 0.6)))
                best = measure.highest_rate(topology, tunnel, SIZE, context.pick(1, 0.3), START, steps=context.pick(5, 2),
                                            tries=context.pick(3, 2))
                highest.setdefault(tunnel.name, []).append(best)

            through(context, topology, make, skipped, use)
    return highest, steady, skipped


def without(skipped, names):
    """Why these peers were not measured; None when there are none such."""
    return "; ".join(f"{name}: {skipped.get(name, 'not measured')}" for name in names) or None


def run(context, result):
    with Topology(context.load) as topology:
        highest, steady, skipped = measure_all(context, topology)

    def rate(name):
        return median([blast.rate for blast in highest.get(name, []) if blast])

    def cpu(blasts):
        return median([blast.cpu_us for blast in blasts if blast])

    for name in highest:
        is_ours = name in (HELD, UNHELD)
        result.row(f"maximum: {name}", rate(name), "packets/s", reason="more than 1 % lost at any rate")
        if name != Plain.name:
            bounds = MAXIMUM["cpu"] if is_ours else (None, None)
            result.row(f"maximum: {name}, tunnel CPU", cpu(highest[name]), "µs/packet", *bounds, lower=True,
                       reason="more than 1 % lost at any rate")
    plain = rate(Plain.name)
    for name in (HELD, UNHELD):
        result.row(f"maximum: {name} over plain", ratio(rate(name), plain), "×",
                   *MAXIMUM["rate"])
    guards = [peer.name for peer in PEERS if peer.is_protected]
    absent = without(skipped, [name for name in guards if name not in highest])
    best = max((value for value in map(rate, guards) if value is not None), default=None)
    for name in (HELD, UNHELD):
        result.row(f"maximum: {name} over the best protected peer", ratio(rate(name), best), "×", must=1.0,
                   reason="no protected peer was measured", may_skip=best is None, without_peer=absent)
    for name, blasts in steady.items():
        result.row(f"20 000/s: {name}, lost", 100 * median([blast.loss for blast in blasts]), "%")
        if name not in (Plain.name, HELD, UNHELD):
            result.row(f"20 000/s: {name}, tunnel CPU", cpu(blasts), "µs/packet")
    peers = {name: cpu(steady.get(name, [])) for name in (OpenVpn.name, WireguardGo.name)}
    absent = without(skipped, [name for name, value in peers.items() if value is None])
    result.row(f"20 000/s: {UNHELD}, tunnel CPU", cpu(steady.get(UNHELD, [])), "µs/packet",
               must=None if absent else min(peers.values()), goal=STEADY_GOAL, lower=True, without_peer=absent)
    costs = [value for value in (cpu(steady.get(name, [])) for name in guards) if value is not None]
    absent = without(skipped, [name for name in guards if name not in steady])
    for name in (HELD, UNHELD):
        result.row(f"20 000/s: {name}, tunnel CPU over the best protected peer",
                   ratio(cpu(steady.get(name, [])), min(costs, default=None)), "×", must=1.0, lower=True,
                   reason="no protected peer was measured", may_skip=not costs, without_peer=absent)
    result.row(f"20 000/s: {HELD}, tunnel CPU", cpu(steady.get(HELD, [])), "µs/packet", *STEADY_CPU_HELD, lower=True)
    for name, reason in skipped.items():
        result.skip(name, reason)
    result.plot("100-byte UDP packets at less than 1 % loss", "", "packets/s",
                {name: {"maximum": rate(name)} for name in highest if rate(name)}, kind="bar")
    result.plot("Tunnel CPU of a 100-byte UDP packet", "", "µs, both ends",
                {name: {"at the maximum": cpu(highest[name]) or 0, "at 20 000/s": cpu(steady.get(name, [])) or 0}
                 for name in highest if name != Plain.name}, kind="bar")
