"""The picture of README: a download, a call and a ping at once, through Continuo and through wireguard-go, while the node changes
its gateway, and later while the uplink in use falls silent and another one is at hand. Of several runs the middle one is drawn, by
the pause of the download in the move; what it drew is in the result."""
import os
import sys
import time

from harness import measure
from harness.peers import WireguardGo
from harness.process import Process, read, wait_for
from harness.report import ROOT
from harness.topology import INET, Topology
from harness.tunnels import Continuo, through

RTT_MS, RATE_MBIT, QUEUE_MS, BURST = 20, 20, 30, "8kb"
CALL_PORT, CALL_INTERVAL_MS, PING_RATE = 7001, 20, 50
BIN_MS = 50  # of the download's rate
PAUSE_WITHIN_NS = 500_000_000  # a pause that begins later has another cause: the queue overflows again and again
SETTLE_S, BETWEEN_S = 4, 4
# What is drawn of each event, from before it to after it.
SCENES = (("move", "The laptop moves to another gateway", "The old address goes, then the new one comes", -0.5, 1.5),
          ("silent", "Its uplink falls silent, another is at hand", "Nothing passes the gateway; link and route stay up", -0.5, 4.5))
FLOWS = ("download", "call", "ping")
SUPPORT = ROOT / "tests" / "support"
RULE = f'[[rule]]\napp = "voice"\nmatch = {{ proto = "udp", dport = {CALL_PORT} }}\nclass = "ht-ld"\n\n'


def policy():
    """The shipped one, which knows no port of this call."""
    text = (ROOT / "packaging" / "policy.toml").read_text()
    return text.replace("[[rule]]", RULE + "[[rule]]", 1)


class Traffic:
    """The three flows; they end by themselves."""

    def __init__(self, context, topology, seconds):
        self.folder = context.new_folder("flows")
        node, load = topology.ns("node"), topology.load
        self.call = Process([sys.executable, SUPPORT / "voice.py", "client", INET, CALL_PORT, seconds, self.path("call")],
                            namespace=node, name="call")
        self.ping = Process([load, "ping", INET, PING_RATE, seconds, self.path("ping")], namespace=node, name="ping")
        self.download = Process([load, "tcp", INET, measure.TCP_PORT, "down", 1, seconds, "--log", self.path("download")],
                                namespace=node, name="download")
        wait_for(lambda: os.path.exists(self.path("download")) and os.path.getsize(self.path("download")) > 1000, 10, "the download")

    def path(self, name):
        return f"{self.folder}/{name}"

    def rows(self, name):
        return [line.split() for line in read(self.path(name)).splitlines() if line.strip()]

    def end(self, seconds):
        for process in (self.call, self.ping, self.download):
            process.wait(seconds)

    def arrivals(self):
        """{flow: sorted times in Unix ns}, and of the download the bytes of each."""
        download = sorted((int(words[0]), int(words[1])) for words in self.rows("download") if len(words) >= 2)
        call = sorted(int(float(words[0]) * 1e9) for words in self.rows("call"))
        ping = sorted(int(words[0]) for words in self.rows("ping") if words[0] != "0")
        return {"download": [at for at, _ in download], "call": call, "ping": ping}, download


def mute(topology, gateway):
    """The gateway swallows what comes and goes; its link stays up."""
    topology.nft(f"gw{gateway}", "add table inet mute; " + "".join(
        f"add chain inet mute {hook} {{ type filter hook {hook} priority -300; policy drop; }}; " for hook in ("prerouting", "output")))


def play(context, topology):
    """(the traffic, {event: Unix ns}) of one run: the move, then the silence."""
    began = time.monotonic()
    traffic = Traffic(context, topology, 2 * SETTLE_S + BETWEEN_S + 6)
    events = {}
    time.sleep(SETTLE_S)
    first = topology.gateway
    topology.moves += 1
    events["move"], _ = topology.move(3 + topology.moves)
    time.sleep(BETWEEN_S)
    topology.ip("node", [f"addr add 192.168.{first}.200/24 dev up{first}",
                         f"route add default via 192.168.{first}.1 dev up{first} metric 300"])
    time.sleep(SETTLE_S)
    events["silent"] = time.time_ns()
    mute(topology, topology.gateway)
    context.progress(f"{time.monotonic() - began:.0f} s")
    traffic.end(30)
    return traffic, events


def pause_of(times, since, within, until):
    """(how long, from when) of the longest silence that reaches behind `since` and begins before `within`, in ns; one that does not
    end lasts until `until`."""
    heard = [at for at in times if at < until]
    ends = heard[1:] + [until]
    return max(((after - before, before) for before, after in zip(heard, ends) if after > since and before < within),
               default=(until - since, since))


def has_ended(times, until):
    return not any(at >= until - 1_000_000_000 for at in times)


def scene_of(traffic, event_ns, first_s, last_s):
    """What the picture draws of one tunnel in one scene: times in ms from the event."""
    arrivals, download = traffic.arrivals()
    until = event_ns + int(last_s * 1e9)
    told = {}
    for flow in FLOWS:
        times = arrivals[flow]
        shown = [round((at - event_ns) / 1e6, 1) for at in times if first_s * 1e9 <= at - event_ns < last_s * 1e9]
        pause, began = pause_of(times, event_ns, event_ns + PAUSE_WITHIN_NS, until)
        quiet_ns = event_ns - 2 * PAUSE_WITHIN_NS
        usual, _ = pause_of([at for at in times if at < event_ns], quiet_ns, quiet_ns + PAUSE_WITHIN_NS, event_ns)
        told[flow] = {"pause_ms": round(pause / 1e6, 1), "from_ms": round((began - event_ns) / 1e6, 1),
                      "stays_away": has_ended(times, until), "usual_ms": round(usual / 1e6, 1)}
        if flow != "download":
            told[flow]["arrivals_ms"] = shown
    bins = [0] * round((last_s - first_s) * 1000 / BIN_MS)
    for at, size in download:
        place = (at - event_ns - int(first_s * 1e9)) // (BIN_MS * 1_000_000)
        if 0 <= place < len(bins):
            bins[place] += size
    told["download"]["mbit_per_s"] = [round(8 * size / BIN_MS / 1000, 1) for size in bins]
    return told


def run_once(context, make, label, skipped):
    """{scene: what is drawn of it}; None where the tunnel cannot be had."""
    told = {}
    with Topology(context.load, delay_ms=RTT_MS / 2) as topology:
        topology.moves = 0
        measure.serve(topology, "cubic")
        topology.start("inet", [sys.executable, SUPPORT / "voice.py", "server", CALL_PORT])
        for number in (1, 2):
            topology.shape(f"gw{number}", "lan", f"{RATE_MBIT}mbit", f"{QUEUE_MS}ms", BURST)

        def use(_):
            measure.wait_quiet(context)
            traffic, events = play(context, topology)
            told.update({name: scene_of(traffic, events[name], first, last) for name, _, _, first, last in SCENES})

        through(context, topology, make, skipped, use, label)
    return told or None


def middle(runs):
    """The run whose download paused for the median time in the first scene."""
    return sorted(runs, key=lambda one: one[SCENES[0][0]]["download"]["pause_ms"])[(len(runs) - 1) // 2]


def report_pauses(result, found):
    for name, title, _, _, last in SCENES:
        for label, runs in found.items():
            for flow in FLOWS:
                told = [one[name][flow] for one in runs]
                pauses = [None if one["stays_away"] else one["pause_ms"] for one in told]
                is_ours = label == "Continuo"
                result.row(f"{title}: {flow}, {label}, median pause", measure.median(pauses), "ms", lower=True, pauses=pauses,
                           reason=f"nothing came for the rest of {last:g} s", usual_ms=[one["usual_ms"] for one in told], may_skip=not is_ours)
                result.row(f"{title}: {flow}, {label}, runs without return", pauses.count(None), "", lower=True, n=len(pauses),
                           must=0 if is_ours else None)


def run(context, result):
    skipped, found = {}, {}
    runs = context.pick(5, 1)
    for _ in range(runs):
        for label, make in (("Continuo", lambda: Continuo(context, policy=policy())), ("wireguard-go", lambda: WireguardGo(context, 25))):
            if told := run_once(context, make, label, skipped):
                found.setdefault(label, []).append(told)
    report_pauses(result, found)
    for label, reason in skipped.items():
        result.skip(label, reason)
    drawn = {label: middle(several) for label, several in found.items()}
    result.picture = {"rtt_ms": RTT_MS, "rate_mbit": RATE_MBIT, "queue_ms": QUEUE_MS, "bin_ms": BIN_MS, "runs": runs,
                      "call_interval_ms": CALL_INTERVAL_MS, "ping_interval_ms": 1000 // PING_RATE,
                      "scenes": [{"name": name, "title": title, "detail": detail, "first_s": first, "last_s": last,
                                  "tunnels": {label: one[name] for label, one in drawn.items()}}
                                 for name, title, detail, first, last in SCENES]}
