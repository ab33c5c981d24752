"""TCP through the tunnel beside plain forwarding and the peers: rate, processor time, offloads off, a slow link."""
from harness import measure
from harness.measure import median, ratio
from harness.peers import Boringtun, OpenVpn, Vtun, WireguardGo
from harness.topology import Topology
from harness.tunnels import NO_HOLD, Continuo, Plain, through

CELLS = [("up", 1), ("down", 1), ("up", 4), ("down", 4)]
# protection: (rate over wireguard-go's: must, goal; CPU per GB over wireguard-go's: must, goal)
BOUNDS = {"encrypt": ((1.5, 2.5), (0.55, 0.30)), "authenticate": ((1.2, 2.0), (0.70, 0.40))}
OFFLOADS_OFF = {"up": (0.6, 0.85), "down": (0.45, 0.6)}
SEGMENTS = (20, 35)
SLOW_LINK, SLOW_LINK_BITS, SLOW_LINK_BOUNDS = "50mbit", 50e6, (0.95, 0.98)


def cell_name(direction, streams):
    return f"TCP {direction}, {streams} stream{'s' if streams > 1 else ''}"


def segments_between(before, after):
    """Segments a TUN write, between two `status` documents of one end."""
    def totals(status):
        io = status["io"]
        return (io["segments_per_write"] or 0) * io["tun_writes"], io["tun_writes"]
    (segments_before, writes_before), (segments_after, writes_after) = totals(before), totals(after)
    return (segments_after - segments_before) / (writes_after - writes_before) if writes_after > writes_before else None


class Contest:
    """Rounds of all contestants, one after another, in one topology."""

    def __init__(self, context, topology, contestants, seconds):
        self.context, self.topology, self.contestants, self.seconds = context, topology, contestants, seconds
        self.rates, self.cpu, self.segments, self.skipped = {}, {}, {}, {}

    def run(self, rounds, cells):
        for _ in range(rounds):
            for make in self.contestants:
                through(self.context, self.topology, make, self.skipped,
                        lambda tunnel: [self._measure(tunnel, cell) for cell in cells])

    def _measure(self, tunnel, cell):
        measure.wait_quiet(self.context)
        end = "snapt" if cell[0] == "up" else "cnapt"
        before = tunnel.status(end) if isinstance(tunnel, Continuo) else None
        rate, cpu = measure.transfer_with_cpu(self.topology, tunnel, *cell, self.seconds)
        if before:
            self.segments.setdefault((tunnel.name, cell), []).append(segments_between(before, tunnel.status(end)))
        self.rates.setdefault((tunnel.name, cell), []).append(rate)
        self.cpu.setdefault((tunnel.name, cell), []).append(cpu)

    def rate(self, name, cell):
        return median(self.rates.get((name, cell), []))

    def cpu_per_gb(self, name, cell):
        return median(self.cpu.get((name, cell), []))


def report_contest(result, contest, cells):
    names = list(dict.fromkeys(name for name, _ in contest.rates))
    missing = contest.skipped.get(WireguardGo.name, "wireguard-go was not measured")
    for cell in cells:
        for name in names:
            if contest.rate(name, cell):
                result.row(f"{cell_name(*cell)}: {name}", contest.rate(name, cell) / 1e9, "Gbit/s")
                if name != Plain.name:
                    result.row(f"{cell_name(*cell)}: {name}, tunnel CPU", contest.cpu_per_gb(name, cell), "s/GB")
    for protection, (rate_bounds, cpu_bounds) in BOUNDS.items():
        name = f"continuo {protection}"
        for cell in cells:
            what = f"{protection}, {cell_name(*cell)}"
            has_peer = contest.rate(WireguardGo.name, cell) is not None
            result.row(f"{what}: rate over wireguard-go", ratio(contest.rate(name, cell), contest.rate(WireguardGo.name, cell)),
                       "×", *rate_bounds, reason=missing, may_skip=not has_peer)
            result.row(f"{what}: CPU per GB over wireguard-go",
                       ratio(contest.cpu_per_gb(name, cell), contest.cpu_per_gb(WireguardGo.name, cell)), "×", *cpu_bounds,
                       lower=True, reason=missing, may_skip=not has_peer)
            result.row(f"{what}: rate over plain", ratio(contest.rate(name, cell), contest.rate(Plain.name, cell)), "×")
            result.row(f"{what}: segments per TUN write", median(contest.segments.get((name, cell), [])), "",
                       *SEGMENTS, reason="nothing was written")
    for name, reason in contest.skipped.items():
        result.skip(f"TCP: {name}", reason)
    series = {name: {cell_name(*cell).removeprefix("TCP "): contest.rate(name, cell) / 1e9
                     for cell in cells if contest.rate(name, cell)} for name in names}
    result.plot("TCP throughput, offloads on", "direction and streams", "Gbit/s", series, kind="bar", log_y=True)


def run_offloads_off(context, result):
    with Topology(context.load, offloads=False) as topology:
        measure.serve(topology)
        contest = Contest(context, topology, [lambda: Plain(context), lambda: Continuo(context), lambda: WireguardGo(context)],
                          context.pick(3, 1))
        contest.run(context.pick(3, 1), CELLS[:2])
    for direction, bounds in OFFLOADS_OFF.items():
        cell = (direction, 1)
        result.row(f"offloads off, {cell_name(*cell)}: continuo encrypt over plain",
                   ratio(contest.rate("continuo encrypt", cell), contest.rate("plain", cell)), "×", *bounds)
        for name in ("plain", "continuo encrypt", "wireguard-go"):
            if contest.rate(name, cell):
                result.row(f"offloads off, {cell_name(*cell)}: {name}", contest.rate(name, cell) / 1e9, "Gbit/s")


def run_slow_link(context, result):
    """As [W] Table IV: the link, not the processor, is the limit. Both directions are shaped on the gateway's node side."""
    with Topology(context.load) as topology:
        measure.serve(topology)
        topology.shape("node", "up1", SLOW_LINK)
        topology.shape("gw1", "lan", SLOW_LINK)
        contest = Contest(context, topology, [lambda: Plain(context), lambda: Continuo(context),
                                              lambda: Continuo(context, "authenticate")], context.pick(8, 3))
        contest.run(context.pick(3, 1), CELLS[:2])
    for direction, streams in CELLS[:2]:
        for name in ("continuo encrypt", "continuo authenticate"):
            result.row(f"50 Mbit/s link, {cell_name(direction, streams)}: {name} over plain",
                       ratio(contest.rate(name, (direction, streams)), contest.rate("plain", (direction, streams))), "×",
                       *SLOW_LINK_BOUNDS)


def run(context, result):
    contestants = [lambda: Plain(context), lambda: WireguardGo(context), lambda: Continuo(context),
                   lambda: Continuo(context, "authenticate")]
    if not context.quick:
        contestants.append(lambda: Continuo(context, knobs=NO_HOLD, label="continuo encrypt, no hold"))
    with Topology(context.load) as topology:
        measure.serve(topology)
        contest = Contest(context, topology, contestants, context.pick(4, 0.8))
        contest.run(context.pick(5, 1), CELLS)
        others = Contest(context, topology, [lambda: OpenVpn(context), lambda: Boringtun(context), lambda: Vtun(context)],
                         context.pick(4, 1))
        others.run(context.pick(3, 1), CELLS[:context.pick(4, 1)])
    for kept in ("rates", "cpu", "skipped"):
        getattr(contest, kept).update(getattr(others, kept))
    report_contest(result, contest, CELLS)
    run_offloads_off(context, result)
    run_slow_link(context, result)
