"""One emulated link between node and SNAPT whose counters can be read while it runs."""
import json
import os
import socket

from .process import BenchError
from .topology import Topology

ANSWER_BYTES = 4096
PATIENCE_S = 10


class Relay:
    """Speaks with a link_relay that listens at `path`."""

    def __init__(self, path):
        self.path = path

    def _ask(self, command):
        own = f"{self.path}.{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
            asker.settimeout(PATIENCE_S)
            asker.bind(own)
            try:
                asker.sendto(command.encode(), self.path)
                answer = asker.recv(ANSWER_BYTES).decode()
            except OSError as error:
                raise BenchError(f"link_relay at {self.path}: {error}") from None
            finally:
                os.unlink(own)
        if answer.startswith("error"):
            raise BenchError(f"link_relay: {answer}")
        return answer

    def counters(self, direction):
        """Of `a-to-b`, from the node, or `b-to-a`."""
        return json.loads(self._ask("stats"))[direction]

    def change(self, settings):
        self._ask(settings)


class OneLink(Topology):
    """As Topology, with one uplink through an emulated link, and no NAT."""

    def __init__(self, load, folder, settings):
        """`settings`: link_relay's words, for both directions."""
        self.settings = settings
        self.relay = Relay(f"{folder}/relay.sock")
        super().__init__(load)

    def _build(self, delay_ms, hops):
        self._add("node", "cable", "core", "server", "inet")
        self.run("cable", ["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
        self._connect("node", "up1", "cable", "near")
        self._connect("cable", "far", "core", "up1")
        relay = os.path.join(os.path.dirname(self.load), "link_relay")
        self.start("cable", [relay, "near", "far", "--control", self.relay.path, *self.settings.split()]).wait_ready()
        self.ip("core", ["addr add 192.168.1.1/24 dev up1"])
        self.ip("node", ["addr add 192.168.1.2/24 dev up1", "route add default via 192.168.1.1 dev up1"])
        self._join_server(0)
        self._join_inet(hops)
        self._forward("core")
        self.ip("server", ["route replace 192.168.0.0/16 via 198.51.100.1"])
