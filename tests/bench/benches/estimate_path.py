"""What the node believes of a path, beside what the emulated link did: delivered rate, round trip, loss, and what acknowledgements
cost. A UDP load of 1.2 times the link goes up; nothing comes down but acknowledgements and upkeep."""
import collections
import os
import time

from harness import measure
from harness.link import OneLink
from harness.process import BenchError, Process
from harness.topology import INET, SERVER
from harness.tunnels import NO_HOLD, Continuo, through

LOAD_FACTOR = 1.2
WINDOW_S = 5
SAMPLE_S = 0.05
MIN_DATAGRAMS = 2000
QUEUE_S, MIN_QUEUE_BYTES = 0.2, 4000
SETTLE_S = 4  # the rate is the largest of ten round trips
CALM_S, CALM_RATE, CALM_BYTES = 3, 20, 100
OUTER_BYTES = 60  # of the outer packet beyond the payload, about
PING_BYTES = 36   # a packet of 64 bytes, as the shortest questions and acknowledgements have
RATE_MUST, RTT_MUST, RTT_MUST_MS, LOSS_MUST, ACK_MUST = 0.1, 0.05, 0.3, 0.01, 0.02

# bit/s, one-way delay in ms, loss each way, UDP payload.
Link = collections.namedtuple("Link", "name bits_per_s delay_ms loss payload")
LINKS = [
    Link("64 kbit/s, 20 ms", 64e3, 20, 0, 100),
    Link("64 kbit/s, 300 ms, 2 % loss", 64e3, 300, 0.02, 100),
    Link("256 kbit/s, 100 ms, 10 % loss", 256e3, 100, 0.1, 300),
    Link("1 Mbit/s, 50 ms, 1 % loss", 1e6, 50, 0.01, 1200),
    Link("10 Mbit/s, 1 ms", 10e6, 1, 0, 1200),
    Link("10 Mbit/s, 20 ms, 5 % loss", 10e6, 20, 0.05, 1200),
    Link("100 Mbit/s, 10 ms", 100e6, 10, 0, 1200),
    Link("100 Mbit/s, 300 ms, 1 % loss", 100e6, 300, 0.01, 1200),
    Link("1 Gbit/s, 0.5 ms", 1e9, 0.5, 0, 1200),
]
QUICK = [LINKS[3], LINKS[4]]
# Recorded capacity of cellular networks while driving; the load is 1.2 times the mean.
TRACES = ["TMobile-UMTS-driving", "Verizon-EVDO-driving", "Verizon-LTE-short"]
TRACE_DELAY_MS, TRACE_S, TRACE_PACKET_BYTES = 20, 60, 1500
POLICY = (f'version = 1\n\n[promotion]\nenabled = false\n\n[[rule]]\napp = "bench"\n'
          f'match = {{ proto = "udp", dport = {measure.UDP_PORT} }}\nclass = "ht-ld"\n')

Sample = collections.namedtuple("Sample", "at path up down")


def sample(tunnel, relay):
    path = next(path for path in tunnel.query("cnapt", "paths") if path["transport"] == "udp")
    return Sample(time.monotonic(), path, relay.counters("a-to-b"), relay.counters("b-to-a"))


def smallest_ping_ms(topology):
    """Before there is a tunnel, to the SNAPT's own address."""
    text = topology.run("node", ["ping", "-c", "15", "-i", "0.2", "-s", PING_BYTES, SERVER], check=False)
    found = [line for line in text.splitlines() if line.startswith("rtt")]
    if not found:
        raise BenchError("no ping came back")
    return float(found[0].split("=")[1].split("/")[0])


def load(topology, payload, rate, seconds):
    return Process([topology.load, "blast", INET, measure.UDP_PORT, payload, rate, seconds], namespace=topology.ns("node"),
                   name=f"{rate:g} packets/s")


def watch(tunnel, relay, seconds):
    samples = [sample(tunnel, relay)]
    while samples[-1].at - samples[0].at < seconds:
        time.sleep(SAMPLE_S)
        samples.append(sample(tunnel, relay))
    return samples


def windows(samples):
    """Runs of samples WINDOW_S long or a little more, one after the other. They begin and end where an acknowledgement came: between
    two of them nothing new is known."""
    first = None
    for index in range(1, len(samples)):
        if samples[index].path["delivered_bytes"] == samples[index - 1].path["delivered_bytes"]:
            continue
        if first is not None and samples[index].at - samples[first].at < WINDOW_S:
            continue
        if first is not None:
            yield samples[first:index + 1]
        first = index


def change(samples, of):
    return of(samples[-1]) - of(samples[0])


def share_off(found, real):
    return abs(found - real) / real


def delivered_off(window):
    """Of the mean delivered rate, from what the emulator passed on."""
    return share_off(change(window, lambda one: one.path["delivered_bytes"]),
                     change(window, lambda one: one.up["delivered_bytes"]))


def highest_off(window):
    """Of the believed highest rate, from what the emulator passed on."""
    rates = [one.path["delivery_bits_per_s"] or 0 for one in window]
    passed = change(window, lambda one: one.up["delivered_bytes"]) * 8 / (window[-1].at - window[0].at)
    return share_off(sum(rates) / len(rates), passed)


def loss_off(samples):
    """(difference of the fractions, datagrams)"""
    lost, delivered = (change(samples, lambda one: one.path[name]) for name in ("lost_datagrams", "delivered_datagrams"))
    blocked = change(samples, lambda one: one.up["dropped_blocked"])  # of TCP
    offered = change(samples, lambda one: one.up["offered_packets"]) - blocked
    dropped = change(samples, lambda one: sum(value for name, value in one.up.items() if name.startswith("dropped_"))) - blocked
    return abs(lost / (lost + delivered) - dropped / offered), lost + delivered


def within_rtt(found_ms, real_ms):
    """How much of what may be off is off: at most 1."""
    return abs(found_ms - real_ms) / max(RTT_MUST * real_ms, RTT_MUST_MS)


def report_load(result, name, samples, is_constant):
    every = list(windows(samples))
    result.row(f"{name}: mean delivered rate of {WINDOW_S} s, off by at most", measure.worst([delivered_off(one) for one in every]),
               "×", must=RATE_MUST, lower=True)
    if is_constant:
        result.row(f"{name}: windowed maximum, off by at most", measure.worst([highest_off(one) for one in every]), "×",
                   must=RATE_MUST, lower=True)
    off, datagrams = loss_off(samples)
    result.row(f"{name}: loss, off by", off, "", must=LOSS_MUST, lower=True, n=datagrams,
               **({} if datagrams >= MIN_DATAGRAMS else {"reason": f"of {datagrams} datagrams only"}))
    result.row(f"{name}: bytes that come back, acknowledgements above all", change(samples, lambda one: one.down["delivered_bytes"]) /
               change(samples, lambda one: one.up["delivered_bytes"]), "×", must=ACK_MUST, lower=True)


def report_calm(result, name, minimum_ms, base_ms):
    result.row(f"{name}: smallest round trip, of what it may be off", within_rtt(minimum_ms, base_ms), "×", must=1, lower=True,
               found_ms=minimum_ms, real_ms=base_ms)


def report_smoothed(result, link, samples, base_ms):
    queued = sum(one.up["queued_bytes"] for one in samples) / len(samples)
    smoothed = sum(one.path["rtt_ms"] for one in samples) / len(samples)
    real = base_ms + queued * 8000 / link.bits_per_s
    result.row(f"{link.name}: smoothed round trip, of what it may be off", within_rtt(smoothed, real), "×", must=1, lower=True,
               found_ms=smoothed, real_ms=real)


def measure_one(topology, tunnel, payload, bits_per_s, seconds):
    """(smallest round trip, samples under load)"""
    topology.start("inet", [topology.load, "count", measure.UDP_PORT, "--idle-ms", 600_000, "--wait-ms", 600_000]).wait_ready()
    calm = load(topology, CALM_BYTES, CALM_RATE, CALM_S)
    calm.wait(20)
    minimum_ms = sample(tunnel, topology.relay).path["minimum_rtt_ms"]
    topology.relay.change("both block tcp")  # so that data stays on UDP, whatever it loses
    rate = LOAD_FACTOR * bits_per_s / (8 * (payload + OUTER_BYTES))
    busy = load(topology, payload, rate, seconds + SETTLE_S + 60)
    time.sleep(SETTLE_S)
    samples = watch(tunnel, topology.relay, seconds)
    if not busy.is_alive():
        raise BenchError("the load ended too early")
    busy.stop()
    return minimum_ms, samples


def run_link(context, result, link):
    queue = max(MIN_QUEUE_BYTES, int(link.bits_per_s / 8 * QUEUE_S))
    settings = (f"rate {link.bits_per_s:.0f} delay {link.delay_ms * 1000:.0f}us queue-bytes {queue} loss {link.loss:g} "
                "queue 100000")
    datagrams_per_s = link.bits_per_s / (8 * (link.payload + OUTER_BYTES))
    seconds = max(3 * WINDOW_S, context.pick(1.2 * MIN_DATAGRAMS, 0) / datagrams_per_s)
    skipped = {}
    with OneLink(context.load, context.new_folder("relay"), settings) as topology:
        base_ms = smallest_ping_ms(topology)

        def use(tunnel):
            minimum_ms, samples = measure_one(topology, tunnel, link.payload, link.bits_per_s, seconds + 1)
            report_calm(result, link.name, minimum_ms, base_ms)
            report_load(result, link.name, samples, True)
            report_smoothed(result, link, samples, base_ms)

        through(context, topology, lambda: Continuo(context, knobs=NO_HOLD, policy=POLICY), skipped, use)


def mean_rate(path):
    with open(path) as file:
        times = [int(line) for line in file if line.strip()]
    return len(times) * TRACE_PACKET_BYTES * 8000 / times[-1]


def run_trace(context, result, name):
    files = {way: os.path.join(context.data or "", "traces", f"{name}.{way}") for way in ("up", "down")}
    if not context.data or not all(os.path.exists(file) for file in files.values()):
        result.skip(f"{name}", "no recorded traces (--data)")
        return
    settings = (f"both delay {TRACE_DELAY_MS}ms queue-bytes 150000 a-to-b trace {files['up']} b-to-a trace {files['down']}")
    skipped = {}
    with OneLink(context.load, context.new_folder("relay"), settings) as topology:
        def use(tunnel):
            rate = mean_rate(files["up"])
            _, samples = measure_one(topology, tunnel, 1200, rate, TRACE_S + 1)
            report_load(result, name, samples, False)

        through(context, topology, lambda: Continuo(context, knobs=NO_HOLD, policy=POLICY), skipped, use)


def run(context, result):
    for link in context.pick(LINKS, QUICK):
        context.progress(link.name)
        run_link(context, result, link)
    for name in context.pick(TRACES, []):
        context.progress(name)
        run_trace(context, result, name)
