"""What thin traffic costs: outer datagrams and bytes of DNS, voice and keystrokes, and of a node that is idle, over the same time.
For a comparison run it with the programs of two commits (--bin)."""
import sys
import time

from harness.counters import OuterCounter
from harness.measure import median
from harness.process import BenchError, Process
from harness.topology import INET, Topology
from harness.tunnels import Continuo, through

PORT = 5301
SCRIPT = f"{__file__.rsplit('/', 2)[0]}/load/thin.py"
IDLE = "idle"
LOADS = {"dns": "1 question and answer a second", "voice": "50 packets a second each way", "keys": "5 keystrokes a second",
         IDLE: "idle"}
SETTLE_S = 3


def count(topology, load, seconds):
    """(datagrams, bytes) of both ways."""
    time.sleep(SETTLE_S)
    counter = OuterCounter(topology)
    if load == IDLE:
        time.sleep(seconds + 1)
    else:
        talker = Process([sys.executable, SCRIPT, load, INET, PORT, seconds], namespace=topology.ns("node"), name=load)
        sent, came = (int(word) for word in talker.output(seconds + 20).split())
        if came < 0.98 * sent:
            raise BenchError(f"{load}: {came} answers to {sent}")
    total = counter.total()
    counter.remove()
    return total.packets, total.bytes


def run(context, result):
    seconds, times = context.pick(40, 10), context.pick(3, 1)
    found = {load: [] for load in LOADS}
    skipped = {}
    with Topology(context.load, delay_ms=20, offloads=False) as topology:
        topology.start("inet", [sys.executable, SCRIPT, "serve", PORT]).wait_ready()

        def use(tunnel):
            for _ in range(times):
                for load in LOADS:
                    context.progress(f"{tunnel.name}, {load}")
                    found[load].append(count(topology, load, seconds))

        through(context, topology, lambda: Continuo(context), skipped, use)
    for load, values in found.items():
        for name, index, unit in (("outer datagrams", 0, "datagrams"), ("outer bytes", 1, "bytes")):
            result.row(f"{LOADS[load]}, {seconds} s: {name}", median([value[index] for value in values]), unit, lower=True)
