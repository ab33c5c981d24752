"""What one user notices while another one, who has a key as well, does its worst: round trips and logins.

The attacker has a processor of its own (taskset); the SNAPT and who is harmed have the other. The first thing measured is what
they see without it. Each attack meets a SNAPT that was started for it."""
import json
import os
import re
import time

from harness.measure import TCP_PORT, quantile, serve, worst
from harness.process import BenchError, Process, Skip
from harness.process import run as run_command
from harness.topology import INET, SERVER, Topology
from harness.tunnels import PORT, Continuo

VICTIM_CPU, ATTACKER_CPU = 0, 1
# Longer than packets are held for company, and than the 10 ms at which ping waits by spinning: it would take a third of the
# processor that it shares with whom it measures.
PING_INTERVAL_S = 0.02
PING_MUST_MS, PING_GOAL_MS = 5, 2  # above idle
LOGIN_MUST_MS, LOGIN_GOAL_MS = 1000, 300
MOST_TIMES, FREE_BYTES_PER_S = 64, 1_000_000  # bytes that leave the SNAPT, for those that come
RATE_GOAL = 0.5  # a steady flood takes half of a SNAPT's time at most (kTakeInTime); who downloads shares its processor
LOST_MS = 10_000  # what a round trip counts that did not come back, and a login that was not let in

# (attack, what it is, which figure, the least of it a second: less is no attack, and rounds a second, 0: as fast as it goes). Those
# that make much of little come as slow as they are worth it, too: much that comes would allow much that leaves. Of APPS the SNAPT
# reads one in 1.6 s of a link (2048 entries are 32 events, kEventInterval of control_links.hpp); what is more waits in TCP's
# buffers, whose size is the kernel's choice.
ATTACKS = [
    ("entries", "datagrams of 1024 one-byte entries", "packets", 500_000, 0),
    ("packets", "packets of one byte", "packets", 20_000, 0),
    ("apps", "APPS of 1024 names and modes", "messages", 1, 0),
    ("questions", "questions about usage and session", "messages", 500, 0),
    ("hellos", "HELLOs", "logins", 50, 0),
    ("links", "links", "logins", 50, 0),
    ("flows", "short flows", "packets", 50_000, 0),
    ("flips", "class flips", "packets", 50_000, 0),
    ("bulk", "UDP data in bulk", "packets", 10_000, 0),
    ("acks", "ACKs of what nobody waits for", "datagrams", 5_000, 0),
    ("expansions", "sections that become 135 packets", "packets", 50_000, 0),
    ("expansions", "such sections, 0.6 Mbit/s", "packets", 20_000, 440),
    ("moves", "moves", "datagrams", 500, 0),
    ("moves", "moves, 100 a second", "datagrams", 50, 100),
    ("frames", "as many frames as a body may have", "datagrams", 5_000, 0),
    ("refusals", "logins that are refused and fill the log", "logins", 50, 0),
    ("tcp", "TCP data in bulk", "datagrams", 3_000, 0),
    ("all", "all at once", "bytes", 1_000_000, 0),
    ("forged", "forged session ids of a stranger", "datagrams", 20_000, 0),
]
# Drops at the SNAPT of an attack that comes as far as it should, a second at least.
DROPS = {"forged": ("unauthentic", 1_000), "expansions": ("inflation_limit", 1)}

# Beside this one, a stranger's flood, a download of the node is measured as well.
RATED = "forged"

# Attacks that need a download first, which does not count.
NEEDS = ("acks", "moves")

SESSION_ID = """
import socket
heard = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
heard.settimeout(5)
while True:
    packet = heard.recv(2048)
    at = (packet[0] & 15) * 4
    if packet[9] == 17 and int.from_bytes(packet[at + 2:at + 4], "big") == %d and packet[at + 8] >> 4 == 2:
        print(int.from_bytes(packet[at + 10:at + 12], "big"))
        break
""" % PORT


def pin(pids, cpu):
    """All threads of the processes."""
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                os.sched_setaffinity(int(thread), {cpu})
            except ProcessLookupError:
                pass  # it has ended


def add_attacker(topology):
    topology._add("attacker")
    topology._connect("attacker", "eth", "core", "attacker")
    topology.ip("attacker", ["addr add 192.0.2.130/25 dev eth", "route add default via 192.0.2.129"])
    topology.ip("core", ["addr add 192.0.2.129/25 dev attacker"])


def enrol(tunnel, name):
    path = tunnel._path(f"{name}.toml")
    text = run_command([f"{tunnel.context.bin}/snapt", "user", "add", name, "--socket", tunnel._path("snapt.sock")])
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def on(cpu, *command):
    return ["taskset", "-c", str(cpu), *map(str, command)]


def passed(topology):
    """Bytes that have come to the server and left it."""
    links = [json.loads(topology.run("server", ["ip", "-s", "-j", "link", "show", "dev", device]))[0]["stats64"] for device in ("wan", "inet")]
    return [sum(link[way]["bytes"] for link in links) for way in ("rx", "tx")]


class Figures:
    """Of a time: round trips and logins, in ms."""

    def __init__(self, trips, logins):
        self.p50, self.p99 = quantile(trips, 0.5), quantile(trips, 0.99)
        self.login, self.lost = worst(logins), sum(trip == LOST_MS for trip in trips)


def look(context, topology, tunnel):
    """Round trips of the node, and logins of another node of another user, at the same time."""
    count = context.pick(900, 150)
    program = f"{context.bin}/hostile_user"
    logins = Process(on(VICTIM_CPU, program, "login", tunnel.friend, context.pick(8, 2), "--node", "friend"),
                     namespace=topology.ns("gw2"), name="logins")
    ping = Process(on(VICTIM_CPU, "ping", "-n", "-c", count, "-i", PING_INTERVAL_S, "-W", "1", INET),
                   namespace=topology.ns("node"), name="ping")
    ping.wait(count * PING_INTERVAL_S + 30)
    with open(ping.out) as file:
        answered = [float(trip) for trip in re.findall(r"time=([0-9.]+) ms", file.read())]
    in_ms = [login if login >= 0 else LOST_MS for login in json.loads(logins.output(120))["login_ms"]]
    return Figures(answered + [LOST_MS] * (count - len(answered)), in_ms)


def download_rate(context, topology):
    """bit/s of a download of the node, whose both ends share the SNAPT's processor."""
    server = serve(topology)
    pin([server.pid], VICTIM_CPU)
    seconds = context.pick(5, 1)
    client = Process(on(VICTIM_CPU, topology.load, "tcp", INET, TCP_PORT, "down", 1, seconds, "--skip", 0),
                     namespace=topology.ns("node"), name="download")
    rate = json.loads(client.output(seconds + 25))["bits_per_s"]
    server.stop()
    return rate


def attack_command(context, topology, tunnel, attack, seconds, rate):
    program = f"{context.bin}/hostile_user"
    if attack != "forged":
        return [program, attack, tunnel.hostile, seconds, "--rate", rate, "--ready", tunnel._path("ready")]
    sniffer = Process(["python3", "-c", SESSION_ID], namespace=topology.ns("core"), name="listener at the core")
    for _ in range(20):
        topology.run("node", ["ping", "-c", "1", "-W", "1", INET], check=False)
        if not sniffer.is_alive():
            break
    return [program, attack, f"{SERVER}:{PORT}", seconds, "--session", int(sniffer.output(10))]


def check_stage(tunnel, attack, span):
    """That the attack came as far as it should: neither version nor form of its datagrams was wrong."""
    drops = tunnel.status("snapt")["drops"]
    reason, least = DROPS.get(attack, ("bad_body", 0))
    if drops[reason] / span < least:
        raise BenchError(f"{drops[reason] / span:.0f} datagrams a second were dropped as {reason}, of {least} at least")
    for wrong in ("bad_version", "bad_body"):
        if drops[wrong] > 0:
            raise BenchError(f"{drops[wrong]} datagrams were dropped as {wrong}")


def wait_for_file(path):
    until = time.monotonic() + 20
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise BenchError("the attack has not begun")
        time.sleep(0.01)


def run_attack(context, topology, attack, what, rate=0):
    with Continuo(context) as tunnel:
        tunnel.start(topology)
        tunnel.hostile, tunnel.friend = enrol(tunnel, "hostile"), enrol(tunnel, "friend")
        pin(tunnel.pids(), VICTIM_CPU)
        if attack is None:
            figures = look(context, topology, tunnel)
            figures.rate = download_rate(context, topology)
            return figures, None
        seconds = context.pick(18.5, 3.5) + (context.pick(6, 2) if attack == RATED else 0)
        command = attack_command(context, topology, tunnel, attack, seconds, rate)
        attacker = Process(on(ATTACKER_CPU, *command), namespace=topology.ns("attacker"), name=f"attacker, {attack}")
        if attack in NEEDS:
            wait_for_file(tunnel._path("ready"))
        before, began = passed(topology), time.monotonic()
        figures = look(context, topology, tunnel)
        span = time.monotonic() - began
        figures.came, figures.left = [(after - had) / span for had, after in zip(before, passed(topology))]
        check_stage(tunnel, attack, span)
        figures.rate = download_rate(context, topology) if attack == RATED else None
        return figures, json.loads(attacker.output(60))[f"{what}_per_s"]


def run(context, result):
    if (os.cpu_count() or 1) <= ATTACKER_CPU:
        raise Skip("needs a processor for the attacker alone")
    seen = {}
    with Topology(context.load) as topology:
        add_attacker(topology)
        idle, _ = run_attack(context, topology, None, None)
        result.row("nobody attacks: ping, median", idle.p50, "ms")
        result.row("nobody attacks: ping, p99", idle.p99, "ms")
        result.row("nobody attacks: longest login", idle.login, "ms")
        result.row("nobody attacks: download", idle.rate / 1e9, "Gbit/s")
        for attack, text, what, least, rate in ATTACKS:
            context.progress(text)
            try:
                figures, offered = run_attack(context, topology, attack, what, rate)
            except BenchError as error:
                context.fail(f"{text}: {error}")
                continue
            if offered < least:
                context.fail(f"{text}: only {offered:.0f} {what}/s were offered, of {least} at least")
            seen[text] = figures
            result.row(f"{text}: ping of another user, p99", figures.p99, "ms", idle.p99 + PING_MUST_MS,
                       idle.p99 + PING_GOAL_MS, lower=True, lost=figures.lost)
            result.row(f"{text}: longest login of another user", figures.login, "ms", LOGIN_MUST_MS, LOGIN_GOAL_MS, lower=True)
            if figures.rate is not None:
                result.row(f"{text}: download of another user, of that without", figures.rate / idle.rate, "×", None, RATE_GOAL)
            result.row(f"{text}: leaves the SNAPT", figures.left * 8 / 1e6, "Mbit/s",
                       (MOST_TIMES * figures.came + FREE_BYTES_PER_S) * 8 / 1e6, lower=True)
            result.row(f"{text}: offered", offered, f"{what}/s")
    result.plot("Another user's ping under attack", "", "p99, ms",
                {"nobody attacks": {"ping": idle.p99}, **{text: {"ping": figures.p99} for text, figures in seen.items()}}, kind="bar")
