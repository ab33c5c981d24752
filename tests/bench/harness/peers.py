"""The peers: user-space tunnels with their best documented settings. See install-peers for where they come from."""
import os
import re
import shutil
import subprocess

from .process import Skip, run, wait_for
from .topology import INET, SERVER
from .tunnels import Tunnel

UAPI = "/var/run/wireguard"
SERVER_INNER, NODE_INNER, INNER_MTU = "10.99.0.1", "10.99.0.2", 1420
INET_NET = "203.0.113.0/24"


class Peer(Tunnel):
    """A tunnel with a device at each end, the node's route to INET, and NAT at the server as snapt's."""
    serial = 0
    is_peer = True
    is_protected = True

    def __init__(self, context):
        super().__init__(context)
        # Names of devices are unique on the machine: WireGuard's control sockets are not per namespace.
        Peer.serial += 1
        stem = f"b{os.getpid() % 100000}x{Peer.serial % 1000}"
        self.devices = {"server": f"{stem}s", "node": f"{stem}n"}

    def find(self, *names):
        for name in names:
            for place in (f"{self.context.peers}/{name}", f"{self.context.peers}/bin/{name}", shutil.which(name)):
                if place and os.access(place, os.X_OK):
                    return place
        raise Skip(f"{names[0]} is not installed (tests/bench/install-peers)")

    def version_of(self, *command):
        """What looks like a version in what the program prints, wherever it prints it."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=10, check=False)
        found = re.search(r"v?[0-9]+\.[0-9]+[0-9A-Za-z.+~-]*|OpenSSH_[^ ,]+", done.stdout)
        return found.group(0) if found else "unknown"

    def _address(self):
        for short, own in (("server", SERVER_INNER), ("node", NODE_INNER)):
            device = self.devices[short]
            self.topology.ip(short, [f"addr add {own}/24 dev {device}", f"link set {device} mtu {INNER_MTU} up"])

    def _route(self):
        self.topology.ip("node", [f"route add {INET_NET} dev {self.devices['node']}"])
        self.topology.forward_plain()
        self.topology.nft("server", "add table ip bench; add chain ip bench post { type nat hook postrouting priority 100; }; "
                                    f"add rule ip bench post ip saddr {NODE_INNER} masquerade")

    def _undo(self):
        self.topology.run("server", ["nft", "delete table ip bench"], check=False)
        self.topology.run("server", ["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=False)
        self.topology.run("node", ["ip", "route", "del", INET_NET], check=False)
        for short, device in self.devices.items():
            self.topology.run(short, ["ip", "link", "del", device], check=False)


class WireGuard(Peer):
    """What `wg` configures: wireguard-go and boringtun."""

    def __init__(self, context, keepalive_s=25):
        super().__init__(context)
        self.keepalive_s = keepalive_s

    def require(self):
        self.find("wg")
        self.program()

    def program(self):
        raise NotImplementedError

    def command(self, device):
        raise NotImplementedError

    def version(self):
        return self.version_of(self.program(), "--version")

    def _start(self):
        wg = self.find("wg")
        keys = {}
        for short in self.devices:
            private = run([wg, "genkey"]).strip()
            with open(f"{self.folder}/{short}.key", "w") as file:
                file.write(private)
            os.chmod(f"{self.folder}/{short}.key", 0o600)
            keys[short] = run([wg, "pubkey"], text=private).strip()
        for short, device in self.devices.items():
            self._launch(short, self.command(device), name=f"{self.name} ({short})",
                         environment={"WG_PROCESS_FOREGROUND": "1", "LOG_LEVEL": "error", "WG_LOG_LEVEL": "error"})
        for short, device in self.devices.items():
            # The device is there before the control socket; only an answer of the latter means ready.
            wait_for(lambda: device in self.topology.run(short, [wg, "show", "interfaces"], check=False)
                     and self.topology.run(short, [wg, "show", device, "fwmark"], check=False), 10,
                     f"{self.name}'s control socket{self.said()}")
        self.topology.run("server", [wg, "set", self.devices["server"], "private-key", f"{self.folder}/server.key",
                                     "listen-port", "51820", "peer", keys["node"], "allowed-ips", f"{NODE_INNER}/32"])
        self.topology.run("node", [wg, "set", self.devices["node"], "private-key", f"{self.folder}/node.key", "peer",
                                   keys["server"], "endpoint", f"{SERVER}:51820", "allowed-ips", "0.0.0.0/0",
                                   "persistent-keepalive", str(self.keepalive_s)])
        self._address()
        self._route()

    def _undo(self):
        super()._undo()
        for device in self.devices.values():
            try:
                os.unlink(f"{UAPI}/{device}.sock")
            except OSError:
                pass


class WireguardGo(WireGuard):
    name = "wireguard-go"

    def program(self):
        return self.find("wireguard-go", "wireguard")

    def command(self, device):
        return [self.program(), "-f", device]


class Boringtun(WireGuard):
    name = "boringtun"

    def program(self):
        return self.find("boringtun-cli")

    def command(self, device):
        return [self.program(), "--foreground", "--threads", "4", "--disable-connected-udp", "--disable-drop-privileges",
                device]


class OpenVpn(Peer):
    """UDP, TLS with pinned self-signed certificates, AES-256-GCM. In server mode, where a client is known by its peer id: point to
    point, the server does not follow a new address until its restart."""
    name = "openvpn"

    def __init__(self, context, compress=""):
        if compress:
            self.name = f"openvpn {compress}"
        super().__init__(context)
        self.compression = ["--allow-compression", "yes", "--compress", compress] if compress else []

    def require(self):
        self.find("openvpn")
        self.find("openssl")

    def version(self):
        return self.version_of(self.find("openvpn"), "--version")

    def _fingerprint(self, short):
        openssl = self.find("openssl")
        key, certificate = f"{self.folder}/{short}.key", f"{self.folder}/{short}.crt"
        run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
             "-subj", f"/CN={short}", "-keyout", key, "-out", certificate])
        return run([openssl, "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"]).strip().split("=")[1]

    def _start(self):
        prints = {short: self._fingerprint(short) for short in self.devices}
        common = ["--dev-type", "tun", "--proto", "udp", "--cipher", "AES-256-GCM", "--data-ciphers", "AES-256-GCM",
                  "--disable-dco", "--tun-mtu", str(INNER_MTU), "--ping", "1", "--ping-restart", "10", "--auth-nocache",
                  "--verb", "1", "--float", "--dh", "none", "--sndbuf", "4194304", "--rcvbuf", "4194304"]
        ends = {"server": ["--server", SERVER_INNER.rsplit(".", 1)[0] + ".0", "255.255.255.0", "--topology", "subnet",
                           "--port", "1194"],
                "node": ["--client", "--nobind", "--remote", SERVER, "1194"]}
        other = {"server": "node", "node": "server"}
        for short, own in ends.items():
            self._launch(short, [self.find("openvpn"), "--dev", self.devices[short], *own, *common, *self.compression,
                                 "--persist-tun", "--key", f"{self.folder}/{short}.key", "--cert", f"{self.folder}/{short}.crt",
                                 "--peer-fingerprint", prints[other[short]]], name=f"openvpn ({short})")
        for short, inner in (("server", SERVER_INNER), ("node", NODE_INNER)):
            wait_for(lambda: inner in self.topology.run(short, ["ip", "addr", "show", "dev", self.devices[short]],
                                                             check=False), 15, f"openvpn's device{self.said()}")
        self._route()


class Vtun(Peer):
    """vtun 3: UDP without protection of what it carries, and without NAT on the way; its server is a child for each node."""
    port = 5000
    is_protected = False

    def __init__(self, context, compress="no"):
        self.name = "vtun" if compress == "no" else f"vtun {compress}"
        super().__init__(context)
        self.compression = compress

    def require(self):
        self.find("vtund")

    def version(self):
        return self.version_of(self.find("vtund"), "-h")

    def _undo(self):
        super()._undo()
        self.topology.open_gateway(False)
        self._set_ipv6(True)

    def _set_ipv6(self, is_on):
        """An end that gets a packet before its device is up gives up; router solicitations are such."""
        for short in self.devices:
            self.topology.run(short, ["sysctl", "-qw", f"net.ipv6.conf.default.disable_ipv6={0 if is_on else 1}"])

    def _start(self):
        self.topology.open_gateway(True)
        self._set_ipv6(False)
        for short, device in self.devices.items():
            with open(f"{self.folder}/{short}.conf", "w") as file:
                file.write(f"options {{ port {self.port}; }}\n"
                           f"bench {{ passwd bench; type tun; proto udp; compress {self.compression}; encrypt no; keepalive no; "
                           f"multi yes; device {device}; }}\n")
            os.chmod(f"{self.folder}/{short}.conf", 0o600)
        self._launch("server", [self.find("vtund"), "-s", "-n", "-f", f"{self.folder}/server.conf"], name="vtun (server)")
        listens = f":{self.port}"
        wait_for(lambda: listens in self.topology.run("server", ["ss", "-ltn"], check=False), 10, f"vtun's port{self.said()}")
        self._launch("node", [self.find("vtund"), "-n", "-f", f"{self.folder}/node.conf", "bench", SERVER], name="vtun (node)")
        for short, device in self.devices.items():
            wait_for(lambda: device in self.topology.run(short, ["ip", "link"], check=False), 10, f"vtun's device{self.said()}")
        self._address()
        self._route()

    def pids(self):
        own = super().pids()
        return own + [int(child) for pid in own for child in read_children(pid)]


def read_children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()
    except OSError:
        return []


class SshCompressed(Peer):
    """Not a tunnel for packets: a port of INET forwarded by `ssh -C` (zlib) over plain forwarding."""
    name = "ssh -C"
    port, first_local_port = 2222, 15000

    def require(self):
        for program in ("ssh", "sshd", "ssh-keygen"):
            self.find(program)

    def version(self):
        return self.version_of(self.find("ssh"), "-V")

    def _start(self):
        self.topology.forward_plain()
        for name in ("host", "user"):
            run([self.find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/{name}"])
        os.makedirs("/run/sshd", exist_ok=True)  # of privilege separation; a service of the same name may use it
        with open(f"{self.folder}/sshd_config", "w") as file:
            file.write(f"Port {self.port}\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/user.pub\n"
                       "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nCompression yes\n")
        self._launch("inet", [self.find("sshd"), "-D", "-e", "-f", f"{self.folder}/sshd_config"], name="sshd")
        wait_for(lambda: f":{self.port}" in self.topology.run("inet", ["ss", "-ltn"], check=False), 10, f"sshd's port{self.said()}")

    def forward(self, port):
        """The port of 127.0.0.1 that leads to this one of INET."""
        local = self.first_local_port + port
        self._launch("node", [self.find("ssh"), "-N", "-C", "-p", self.port, "-i", f"{self.folder}/user", "-F", "none",
                              "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes",
                              "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{local}:{INET}:{port}", f"root@{INET}"], name="ssh")
        wait_for(lambda: f":{local}" in self.topology.run("node", ["ss", "-ltn"], check=False), 15, f"ssh's port{self.said()}")
        return local

    def _undo(self):
        self.topology.run("server", ["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=False)


PEERS = [WireguardGo, OpenVpn, Boringtun, Vtun]
