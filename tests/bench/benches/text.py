"""Goodput of a text download on a thin link with a round trip of 20 ms, offloads on and off, over plain, after the first 1 MB;
`ssh -C` beside it; and at full speed, where compressing must not slow it down. The text is given over and over: it recurs after
its own length, far more than a section or zlib's window; a compressor with a longer history needs a longer text."""
from harness import corpus as corpora
from harness import measure
from harness.measure import median, ratio
from harness.peers import SshCompressed
from harness.process import Skip
from harness.topology import INET, Topology
from harness.tunnels import Continuo, Plain, through

RTT_MS = 20
SKIPPED_BYTES = 1_000_000
PORTS = {"docs": 5411, "lit": 5412, "random": 5413}
POLICY = "version = 1\n\n[promotion]\nenabled = false\n" + "".join(
    f'\n[[rule]]\napp = "text-{name}"\nmatch = {{ proto = "tcp", dport = {port} }}\nclass = "ht-hd"\n' for name, port in PORTS.items())
# [W]'s classes: a download is ht-hd. Off: what the rows at full speed compare with.
OFF = [(f"class.{token}", "compression", '"off"') for token in ("lt-ld", "ht-ld", "lt-hd", "ht-hd")]
# Targets for text of the machine's own documents: (must, goal).
STATELESS = (1.9, None)
NOT_SLOWER = (0.95, 1.0)


class Link:
    """A rate, for how long it is measured in a full and in a quick run (0: not), and how long the first bytes may take."""

    def __init__(self, rate, full_s, quick_s, burst="16kb"):
        self.rate, self.full_s, self.quick_s, self.burst = rate, full_s, quick_s, burst
        self.patience = 25 + SKIPPED_BYTES * 8 / (float(rate.removesuffix("mbit")) * 1e6)

    def __str__(self):
        return self.rate.replace("mbit", " Mbit/s")


THIN = [Link("10mbit", 8, 3), Link("1mbit", 20, 3), Link("50mbit", 8, 0, burst="64kb")]


def serve_texts(context, topology):
    """The corpora that can be had, by name; why not, for the others."""
    found, missing = {}, {}
    for name, port in PORTS.items():
        try:
            found[name] = corpora.load(name, context.data)
        except Skip as reason:
            missing[name] = str(reason)
            continue
        measure.serve(topology, port=port, file=found[name].whole(context.new_folder("texts")))
    return found, missing


class Download:
    """Rates of downloads, by (tunnel, offloads, link, text)."""

    def __init__(self, context):
        self.context, self.rates, self.skipped = context, {}, {}

    def measure(self, topology, tunnel, link, name, seconds, to=INET, port=None):
        result = measure.transfer(topology, "down", 1, seconds, port=port or PORTS[name], skip=SKIPPED_BYTES,
                                  patience=link.patience, to=to)
        key = (tunnel.name, topology.offloads, link.rate, name)
        self.rates.setdefault(key, []).append(result["bits_per_s"])

    def rate(self, *key):
        return median(self.rates.get(key, []))


def names_for(context, link, offloads, found):
    """The texts of a row; what is not the headline is measured in a full run only."""
    wanted = ("docs", "lit", "random") if not context.quick else ("docs",)
    if not offloads and context.quick and link.rate != "10mbit":
        return []
    return [name for name in wanted if name in found]


def run_thin(context, downloads, offloads):
    with Topology(context.load, delay_ms=RTT_MS / 2, offloads=offloads) as topology:
        found, missing = serve_texts(context, topology)
        makers = [lambda: Plain(context), lambda: Continuo(context, policy=POLICY)]
        if not context.quick:
            makers.append(lambda: Continuo(context, "authenticate", policy=POLICY))
        for make in makers:
            def use(tunnel):
                for link in THIN:
                    seconds = context.pick(link.full_s, link.quick_s)
                    if not seconds:
                        continue
                    topology.shape("node", "up1", link.rate, burst=link.burst)
                    topology.shape("gw1", "lan", link.rate, burst=link.burst)
                    for name in names_for(context, link, offloads, found):
                        downloads.measure(topology, tunnel, link, name, seconds)
                for short, device in (("node", "up1"), ("gw1", "lan")):
                    topology.unshape(short, device)
            through(context, topology, make, downloads.skipped, use)
        if offloads and not context.quick:
            run_ssh(context, topology, downloads, found)
    return found, missing


def run_ssh(context, topology, downloads, found):
    """Over plain forwarding, on the 10 Mbit/s link."""
    link = THIN[0]
    topology.shape("node", "up1", link.rate, burst=link.burst)
    topology.shape("gw1", "lan", link.rate, burst=link.burst)

    def use(tunnel):
        for name in names_for(context, link, True, found):
            downloads.measure(topology, tunnel, link, name, context.pick(link.full_s, link.quick_s), "127.0.0.1",
                              tunnel.forward(PORTS[name]))
    through(context, topology, lambda: SshCompressed(context), downloads.skipped, use)


def report_thin(context, result, downloads, found, missing):
    for link in THIN:
        if not context.pick(link.full_s, link.quick_s):
            continue
        for offloads in (True, False):
            for name in names_for(context, link, offloads, found):
                where = f"{link}, offloads {'on' if offloads else 'off'}, {name}"
                plain = downloads.rate("plain", offloads, link.rate, name)
                if plain:
                    result.row(f"{where}: plain", plain / 1e6, "Mbit/s")
                for tunnel in ("continuo encrypt", "continuo authenticate", SshCompressed.name):
                    rate = downloads.rate(tunnel, offloads, link.rate, name)
                    must, goal = STATELESS if name == "docs" and tunnel.startswith("continuo") else (None, None)
                    measured = context.pick(("continuo encrypt", "continuo authenticate"), ("continuo encrypt",))
                    if rate or tunnel in measured:
                        result.row(f"{where}: {tunnel} over plain", ratio(rate, plain), "×", must, goal, corpus=name,
                                   corpus_hash=found[name].hash)
    for name, reason in {**missing, **downloads.skipped}.items():
        result.skip(name, reason, "×")


def run_full_speed(context, result):
    """Compression automatic, as delivered, and off, one after the other in each round."""
    rounds, seconds = context.pick(5, 2), context.pick(3, 1)
    makers = {"automatic": lambda: Continuo(context, policy=POLICY, label="automatic"),
              "off": lambda: Continuo(context, policy=POLICY, knobs=OFF, label="off")}
    rates, skipped = {}, {}
    with Topology(context.load) as topology:
        found, _ = serve_texts(context, topology)
        for number in range(rounds):
            for label in (tuple(makers) if number % 2 == 0 else reversed(makers)):
                def use(tunnel):
                    for name in ("docs", "random"):
                        if name in found:
                            measure.wait_quiet(context)
                            measured = measure.transfer(topology, "down", 1, seconds, port=PORTS[name], skip=SKIPPED_BYTES)
                            rates.setdefault((tunnel.name, name), []).append(measured["bits_per_s"])
                through(context, topology, makers[label], skipped, use)
    for name in ("docs", "random"):
        automatic, off = (median(rates.get((label, name), [])) for label in makers)
        result.row(f"full speed, {name}: compression automatic over off", ratio(automatic, off), "×", *NOT_SLOWER)
        if off:
            result.row(f"full speed, {name}: compression off", off / 1e9, "Gbit/s")


def run(context, result):
    downloads = Download(context)
    for offloads in (True, False):
        found, missing = run_thin(context, downloads, offloads)
    report_thin(context, result, downloads, found, missing)
    run_full_speed(context, result)
