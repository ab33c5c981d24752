"""What counting costs: 100-byte UDP packets at the steady rate of `packets`, by turns through a snapt that counts and one that is
built without (-DCONTINUO_COUNT=OFF), with the same cnapt. The price is the mean of the ratios of neighbouring runs."""
import glob
import os

from harness import measure
from harness.measure import mean_with_interval, median
from harness.process import BenchError, Skip, read
from harness.topology import Topology
from harness.tunnels import NO_HOLD, Continuo

from .packets import SIZE, STEADY

MUST_PERCENT = 2
HELD, UNHELD = "hold", "no hold"
COUNTED, UNCOUNTED = "counted", "uncounted"


def busy_us(pid):
    """Processor time of all threads of a process, as the scheduler has it: finer than its ticks of 10 ms."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            total += int(read(path).split()[0])
        except OSError:
            pass  # a thread that has just ended
    return total / 1000


def payload_counted(tunnel):
    rows = tunnel.query("snapt", "usage")["rows"]
    return sum(int(row["payload_up"]) for row in rows)


def one_run(context, topology, snapt, kind, knobs):
    """µs a packet of snapt, and of both ends."""
    tunnel = Continuo(context, label=f"{kind} snapt", knobs=knobs, snapt=snapt)
    tunnel.require()
    with tunnel:
        tunnel.start(topology)
        measure.blast(topology, tunnel, SIZE, STEADY, 0.3)  # the flow, its class and the caches are there
        measure.wait_quiet(context)
        pids = (tunnel.snapt.pid, tunnel.cnapt.pid)
        before = [busy_us(pid) for pid in pids]
        blast = measure.blast(topology, tunnel, SIZE, STEADY, context.pick(5, 1))
        spent = [busy_us(pid) - was for pid, was in zip(pids, before)]
        if blast.received < 0.9 * blast.sent:
            raise BenchError(f"{kind}: {100 * blast.loss:.0f} % of the packets were lost")
        counted = payload_counted(tunnel)
    if (counted >= SIZE * blast.received) != (kind == COUNTED):
        raise BenchError(f"{kind} snapt in {snapt} has counted {counted} bytes of {SIZE * blast.received}: not the build it should be")
    return spent[0] / blast.received, sum(spent) / blast.received


def pairs_of(context, topology, snapts, knobs):
    """[(counted, uncounted)], each as one_run gives it; which one is first changes from pair to pair."""
    pairs = []
    for turn in range(context.pick(20, 3)):
        found = {}
        for kind in (COUNTED, UNCOUNTED) if turn % 2 == 0 else (UNCOUNTED, COUNTED):
            context.progress(f"{kind}, pair {turn + 1}")
            found[kind] = one_run(context, topology, snapts[kind], kind, knobs)
        pairs.append((found[COUNTED], found[UNCOUNTED]))
    return pairs


def report(result, name, pairs):
    for end, part in ((0, "snapt"), (1, "both ends")):
        for place, kind in enumerate((COUNTED, UNCOUNTED)):
            result.row(f"{name}: {part}, {kind}", median([pair[place][end] for pair in pairs]), "µs/packet")
        mean, interval = mean_with_interval([100 * (counted[end] / uncounted[end] - 1) for counted, uncounted in pairs])
        result.row(f"{name}: {part}, counting costs", mean, "%", must=MUST_PERCENT if part == "both ends" else None, lower=True,
                   interval=interval)


def run(context, result):
    if not context.uncounted:
        raise Skip("no snapt without accounting: --uncounted DIR")
    snapts = {COUNTED: f"{context.bin}/snapt", UNCOUNTED: f"{context.uncounted}/snapt"}
    if not os.access(snapts[UNCOUNTED], os.X_OK):
        raise BenchError(f"no snapt in {context.uncounted}: build it with -DCONTINUO_COUNT=OFF")
    with Topology(context.load) as topology:
        for name, knobs in ((UNHELD, NO_HOLD), (HELD, ())):
            report(result, f"20 000/s, {name}", pairs_of(context, topology, snapts, knobs))
