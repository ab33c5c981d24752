"""L3 bytes saved: 1 - outer IP bytes / inner IP bytes, acknowledgements and control included, for the text loads of [W]
Table II. Counted by nftables at a router behind links without segmentation offloads; nothing longer than 1500 bytes passes it."""
import os

from harness import corpus as corpora
from harness.counters import InnerCounter, OuterCounter
from harness.peers import OpenVpn, Vtun, WireguardGo
from harness.process import BenchError, Process, Skip
from harness.topology import INET, Topology
from harness.tunnels import Continuo, through

PORTS = {"ht-hd": 5401, "ht-ld": 5402, "lt-hd": 5403, "lt-ld": 5404}
CLASS_RULES = "version = 1\n\n[promotion]\nenabled = false\n" + "".join(
    f'\n[[rule]]\napp = "bench-{token}"\nmatch = {{ proto = "udp", dport = {port} }}\nclass = "{token}"\n'
    for token, port in PORTS.items())


class Load:
    """Packets of `size` UDP payload bytes at each of `rates` bit/s a flow, in one class with its hold."""

    def __init__(self, token, size, rates, hold_ms):
        self.token, self.size, self.rates, self.hold_ms = token, size, rates, hold_ms


LOADS = [Load("ht-hd", 1360, (1e6, 5e6, 20e6), 20), Load("ht-ld", 576, (128e3, 512e3, 2e6), 20),
         Load("lt-hd", 1360, (15e3, 125e3, 1e6), 500), Load("lt-ld", 100, (20e3, 64e3, 128e3), 20)]

# Targets: {(class, column): ((must, goal) a rate)}; they hold for elision and history together.
BOTH = "both"
TABLE = {
    ("ht-hd", "lit 1"): ((55, 60),) * 3, ("ht-hd", "lit 5"): ((55, 60),) * 3,
    ("ht-hd", "docs 1"): ((63, 70),) * 3, ("ht-hd", "docs 5"): ((63, 69),) * 3,
    ("ht-hd", "lockstep 5"): ((80, 89),) * 3,
    ("ht-ld", "lit 1"): ((44, 49), (52, 59), (56, 63)), ("ht-ld", "lit 5"): ((52, 58), (55, 60), (55, 60)),
    ("ht-ld", "docs 1"): ((52, None), (60, None), (64, None)), ("ht-ld", "docs 5"): ((60, None), (63, None), (63, None)),
    ("ht-ld", "lockstep 5"): ((70, 76), (80, 87), (85, 91)),
    ("lt-hd", "lit 1"): ((52, 56), (55, 60), (55, 60)), ("lt-hd", "lit 5"): ((55, 60),) * 3,
    ("lt-hd", "docs 1"): ((60, None), (65, None), (65, None)), ("lt-hd", "docs 5"): ((63, 69),) * 3,
    ("lt-hd", "lockstep 5"): ((75, 80), (80, 88), (85, 90)),
    ("lt-ld", "lit 1"): ((8, 12), (34, 40), (48, 54)), ("lt-ld", "lit 5"): ((40, 46), (54, 61), (58, 65)),
    ("lt-ld", "docs 1"): ((10, None), (40, None), (54, None)), ("lt-ld", "docs 5"): ((45, None), (58, None), (63, None)),
    ("lt-ld", "lockstep 5"): ((55, 62), (72, 80), (78, 86)),
}
# Modes that the daemons have now, by the name of the row. To add one, list the class settings that switch it on.
MODES = {"stateless": ()}
COLUMNS = [("lit", 1), ("lit", 5), ("docs", 1), ("docs", 5), ("lockstep", 5), ("random", 1)]
LONGEST_S = {"full": 20, "quick": 2}


def one_load(topology, load, rate, files):
    """(saved in percent, inner and outer Count) of one run of the load to the end of its files."""
    expected = sum(os.path.getsize(file) // load.size for file in files)
    seconds = max(os.path.getsize(file) for file in files) * 8 / rate + 1
    port = PORTS[load.token]
    counter = Process([topology.load, "count", port, "--idle-ms", 1500], namespace=topology.ns("inet"),
                      name="packet counter").wait_ready()
    inner, outer = InnerCounter(topology, [port]), OuterCounter(topology)
    try:
        words = [word for file in files for word in ("--file", file)]
        Process([topology.load, "blast", INET, port, load.size, rate / 8 / load.size, seconds, "--flows", len(files),
                 *words], namespace=topology.ns("node"), name="text load").output(seconds + 15)
        counter.output(seconds + 15)
        took, passed = inner.total(), outer.read()
    finally:
        inner.remove()
        outer.remove()
    if passed["long"].packets:
        raise BenchError(f"{passed['long'].packets} packets longer than 1500 bytes passed the router: the count is wrong")
    if took.packets != expected:
        raise BenchError(f"{took.packets} packets of {expected} arrived: nothing can be said about what was saved")
    bytes_ = passed["up"].bytes + passed["down"].bytes
    return 100 * (1 - bytes_ / took.bytes), took, bytes_


def cells(context, only_middle):
    """(load, rate index, corpus name, flows)"""
    for load in LOADS:
        for name, flows in COLUMNS:
            for index in range(len(load.rates)):
                if only_middle and index != 1:
                    continue
                if context.quick and (index != 1 or (name, flows) not in (("lit", 5), ("docs", 1), ("random", 1))):
                    continue
                yield load, index, name, flows


def run(context, result):
    available, missing = {}, {}
    for name in dict.fromkeys(name for name, _ in COLUMNS):
        try:
            available[name] = corpora.load(name, context.data)
        except Skip as reason:
            missing[name] = str(reason)
    knobs = [(f"class.{load.token}", "hold_ms", str(load.hold_ms)) for load in LOADS]
    longest = context.pick(LONGEST_S["full"], LONGEST_S["quick"])
    shown, skipped = {}, {}

    def measure_cells(mode, only_middle):
        def use(tunnel):
            for cell in cells(context, only_middle):
                measure_cell(context, result, tunnel, (mode, *cell), available, missing, longest, shown)
        return use

    with Topology(context.load, offloads=False) as topology:
        for mode, extra in MODES.items():
            for protection in context.pick(("encrypt", "authenticate"), ("encrypt",)):
                # When authenticating the overhead of a datagram is the same: its middle rates say enough.
                through(context, topology, lambda: Continuo(context, protection, knobs=[*knobs, *extra], policy=CLASS_RULES),
                        skipped, measure_cells(mode, protection != "encrypt"))
        for make in context.pick((lambda: WireguardGo(context), lambda: OpenVpn(context, "lz4-v2"), lambda: Vtun(context, "zlib:9")), ()):
            through(context, topology, make, skipped, measure_cells(None, True))
    for name, reason in skipped.items():
        result.skip(name, reason, "%")
    if BOTH not in MODES:
        result.skip("table 6.1 (elision and history together)", "the daemons have no history compression", "%")
    result.plot("L3 bytes saved, stateless, encrypt", "class and rate of a flow", "%", shown, kind="bar")


def measure_cell(context, result, tunnel, cell, available, missing, longest, shown):
    """`mode` of the cell is None for a peer, which has no hold."""
    mode, load, index, name, flows = cell
    is_encrypting = mode and tunnel.protection == "encrypt"
    rate = load.rates[index]
    what = (f"{f'{mode}, {tunnel.protection}' if mode else tunnel.name}, {name}, {load.token} {load.size} B at "
            f"{rate / 1000:g} kbit/s × {flows}{f', hold {load.hold_ms} ms' if mode else ''}, no warm-up")
    if name in missing:
        result.skip(what, missing[name], "%")
        return
    corpus = available[name]
    files = corpus.parts(context.new_folder("texts"), flows, max(20 * load.size, int(rate / 8 * longest)))
    must, goal = TABLE.get((load.token, f"{name} {flows}"), ((None, None),) * 3)[index] if mode == BOTH else (None, None)
    try:
        saved, inner, outer_bytes = one_load(tunnel.topology, load, rate, files)
    except BenchError as error:
        result.row(what, None, "%", must=must, goal=goal, reason=str(error), may_skip=tunnel.is_peer)
        if not tunnel.is_peer:
            context.fail(f"{what}: {error}")
        return
    result.row(what, saved, "%", must=must, goal=goal, corpus=name, corpus_hash=corpus.hash, inner_bytes=inner.bytes,
               outer_bytes=outer_bytes, packets=inner.packets)
    if is_encrypting:
        shown.setdefault(f"{name}, {flows} flow{'s' if flows > 1 else ''}", {})[f"{load.token} {rate / 1000:g}k"] = saved
