"""A small Internet in network namespaces:

    node ── up1 ── gw1 (NAT) ──┐
         ── up2 ── gw2 (NAT) ──┴── core ──[ cable with a delay ]── server ──[ hops ]── inet

The tunnel's far end runs on `server`; `inet` is the correspondent. Without a tunnel, packets take the same way, with the
gateway's NAT. Namespaces are named by this process's id; what a killed run left behind is removed by the next one.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from .process import BenchError, Process, run

PREFIX = "ctnb"
NODE_HOST = 2
SERVER = "198.51.100.2"
INET = "203.0.113.10"
START_S = 0.05  # for `ip` to have started


def _pids_in(namespace):
    return [int(word) for word in run(["ip", "netns", "pids", namespace], check=False).split()]


def _empty_and_delete(namespace):
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 2
        while (pids := _pids_in(namespace)) and time.monotonic() < end:
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
    run(["ip", "netns", "del", namespace], check=False)


def remove_stale():
    """Removes namespaces and folders of runs that no longer exist."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{PREFIX}-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(folder, ignore_errors=True)
    for line in run(["ip", "netns", "list"]).splitlines():
        match = re.match(rf"{PREFIX}-(\d+)-", line)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            _empty_and_delete(line.split()[0])


class Topology:
    live = []

    def __init__(self, load, delay_ms=0.0, hops=1, offloads=True):
        """`delay_ms` is added each way between core and server; `hops` routers lie between node and inet's link."""
        self.load = load
        self.tag = f"{PREFIX}-{os.getpid()}"
        self.names = []
        self.offloads = offloads
        self.processes = []
        self.gateway, self.host = 1, NODE_HOST
        Topology.live.append(self)
        self._build(delay_ms, hops)

    def ns(self, short):
        return f"{self.tag}-{short}"

    def run(self, short, command, **keywords):
        return run(command, namespace=self.ns(short), **keywords)

    def start(self, short, command, **keywords):
        process = Process(command, namespace=self.ns(short), **keywords)
        self.processes.append(process)
        return process

    def ip(self, short, lines):
        """Runs lines of ip(8) in one batch."""
        run(["ip", "-n", self.ns(short), "-batch", "-"], text="\n".join(lines) + "\n",
            name=f"ip in {short} ({'; '.join(lines)[:120]})")

    def _add(self, *shorts):
        for short in shorts:
            run(["ip", "netns", "add", self.ns(short)])
            self.names.append(self.ns(short))
            self.run(short, ["sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0",
                             "net.ipv6.conf.default.dad_transmits=0", "net.ipv4.ping_group_range=0 0"])
            self.ip(short, ["link set lo up"])

    def _connect(self, left, left_device, right, right_device):
        run(["ip", "link", "add", left_device, "netns", self.ns(left), "type", "veth", "peer", "name", right_device,
             "netns", self.ns(right)])
        for short, device in ((left, left_device), (right, right_device)):
            if not self.offloads:
                run_ethtool(self, short, device)
            self.ip(short, [f"link set {device} up"])

    def _forward(self, *shorts):
        for short in shorts:
            self.run(short, ["sysctl", "-qw", "net.ipv4.ip_forward=1"])

    def _build(self, delay_ms, hops):
        self._add("node", "gw1", "gw2", "core", "server", "inet")
        for number in (1, 2):
            gateway = f"gw{number}"
            self._connect("node", f"up{number}", gateway, "lan")
            self._connect(gateway, "wan", "core", gateway)
            self.ip(gateway, [f"addr add 192.168.{number}.1/24 dev lan", f"addr add 192.0.2.{4 * number - 2}/30 dev wan",
                              f"route add default via 192.0.2.{4 * number - 3}"])
            self.ip("core", [f"addr add 192.0.2.{4 * number - 3}/30 dev {gateway}"])
            self.nft(gateway, "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; "
                              "add rule ip nat post oifname wan masquerade")
            self._forward(gateway)
        self._join_server(delay_ms)
        self._join_inet(hops)
        self._forward("core")
        self.ip("node", self._join_lines(1, NODE_HOST))

    def open_gateway(self, is_open):
        """For a tunnel that does not work through NAT: between node and server the first gateway only routes."""
        verb = "replace" if is_open else "del"
        self.ip("core", [f"route {verb} 192.168.1.0/24 via 192.0.2.2"])
        self.nft("gw1", f"insert rule ip nat post oifname wan ip daddr {SERVER} accept" if is_open else
                 "flush chain ip nat post; add rule ip nat post oifname wan masquerade")

    def _join_server(self, delay_ms):
        if delay_ms > 0:
            self._add("cable")
            self.run("cable", ["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
            self._connect("core", "server", "cable", "near")
            self._connect("cable", "far", "server", "wan")
            relay = os.path.join(os.path.dirname(self.load), "link_relay")
            self.start("cable", [relay, "near", "far", "delay", f"{delay_ms * 1000:g}us"]).wait_ready()
        else:
            self._connect("core", "server", "server", "wan")
        self.ip("core", ["addr add 198.51.100.1/30 dev server", f"route add 203.0.113.0/24 via {SERVER}",
                         f"route add 198.18.0.0/15 via {SERVER}"])
        self.ip("server", [f"addr add {SERVER}/30 dev wan", "route add default via 198.51.100.1"])

    def _join_inet(self, hops):
        """`hops` links from server to inet; each further one has a router of its own."""
        before = "server"
        for number in range(1, hops):
            router = f"hop{number}"
            self._add(router)
            self._connect(before, "next", router, "back")
            self.ip(before, [f"addr add 198.18.{number}.1/30 dev next",
                             f"route add 203.0.113.0/24 via 198.18.{number}.2"])
            self.ip(router, [f"addr add 198.18.{number}.2/30 dev back", f"route add default via 198.18.{number}.1"])
            self._forward(router)
            before = router
        self._connect(before, "inet", "inet", "eth")
        self.ip(before, ["addr add 203.0.113.1/24 dev inet"])
        self.ip("inet", [f"addr add {INET}/24 dev eth", "route add default via 203.0.113.1"])

    def nft(self, short, text):
        self.run(short, ["nft", text])

    def forward_plain(self):
        """What the server does without a tunnel: it routes. Tunnels set and restore it themselves."""
        self._forward("server")

    @staticmethod
    def _join_lines(gateway, host):
        return [f"addr add 192.168.{gateway}.{host}/24 dev up{gateway}",
                f"route replace default via 192.168.{gateway}.1 dev up{gateway}"]

    def move(self, host):
        """Break before make, to the other gateway, by one `ip -batch` that is already running and waits for its lines; the Unix
        times (ns) before and after them."""
        gateway = 3 - self.gateway
        lines = ["route del default", f"addr del 192.168.{self.gateway}.{self.host}/24 dev up{self.gateway}"]
        lines += self._join_lines(gateway, host)
        mover = subprocess.Popen(["ip", "-n", self.ns("node"), "-batch", "-"], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(START_S)
            began = time.time_ns()
            mover.stdin.write(("\n".join(lines) + "\n").encode())
            mover.stdin.close()
            code = mover.wait(5)
            done = time.time_ns()
        except subprocess.TimeoutExpired:
            raise BenchError("ip -batch did not move the node within 5 s") from None
        finally:
            if mover.poll() is None:
                mover.kill()
                mover.wait(5)
        if code != 0:
            raise BenchError(f"the node could not move: {'; '.join(lines)}")
        self.gateway, self.host = gateway, host
        return began, done

    def shape(self, short, device, rate, queue="50ms", burst="128kb"):
        """`queue` is how long a packet may wait, beyond what `burst` lets pass at once."""
        run(["tc", "-n", self.ns(short), "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", burst,
             "latency", queue])

    def unshape(self, short, device):
        run(["tc", "-n", self.ns(short), "qdisc", "del", "dev", device, "root"], check=False)

    def close(self):
        for process in reversed(self.processes):
            process.stop(grace=2)
        for name in reversed(self.names):
            _empty_and_delete(name)
        if self in Topology.live:
            Topology.live.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @classmethod
    def close_all(cls):
        for topology in list(cls.live):
            topology.close()


class ManyUplinks(Topology):
    """As Topology, with a cable of its own from the node to the core for each of `links` (Mbit/s, one-way delay in ms), and no
    NAT. A cable's queue takes Q_MS."""
    Q_MS = 100

    def __init__(self, load, links):
        self.links = links
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-links-")
        super().__init__(load)

    def _build(self, delay_ms, hops):
        self._add("node", "core", "server", "inet")
        for number, (megabits, delay) in enumerate(self.links, 1):
            cable = f"cable{number}"
            self._add(cable)
            self.run(cable, ["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
            self._connect("node", f"up{number}", cable, "near")
            self._connect(cable, "far", "core", f"up{number}")
            queue = megabits * 1_000_000 // 8 * self.Q_MS // 1000
            self.start(cable, [self._relay(), "near", "far", "--control", self._control(number), "rate", f"{megabits}M", "delay",
                               f"{delay}ms", "queue-bytes", queue]).wait_ready()
            self.ip("core", [f"addr add 192.168.{number}.1/24 dev up{number}"])
            self.ip("node", [f"addr add 192.168.{number}.2/24 dev up{number}",
                             f"route add default via 192.168.{number}.1 dev up{number} metric {100 * number}"])
        self._join_server(delay_ms)
        self._join_inet(hops)
        self._forward("core")
        self.ip("server", ["route replace 192.168.0.0/16 via 198.51.100.1"])

    def _relay(self):
        return os.path.join(os.path.dirname(self.load), "link_relay")

    def _control(self, number):
        return f"{self.folder}/{number}"

    def tell(self, number, words):
        """What the relay of that cable answers to `stats`, or to settings ("a-to-b" is upwards)."""
        return run([self._relay(), "--tell", self._control(number), *words])

    def set_recovery(self, recovery):
        for short in ("node", "inet"):
            self.run(short, ["sysctl", "-qw", f"net.ipv4.tcp_recovery={recovery}"])

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_ethtool(topology, short, device):
    """Frames on this link are what a real wire would carry."""
    try:
        topology.run(short, ["ethtool", "-K", device, "gso", "off", "tso", "off", "gro", "off", "tx-udp-segmentation", "off"])
    except BenchError as error:
        raise BenchError(f"cannot switch offloads off: {error}") from None
