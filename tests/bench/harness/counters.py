"""Outer IP bytes, counted by nftables at the router between gateways and server."""
import json

from .topology import SERVER

TABLE = "bench_count"


class Count:
    def __init__(self, packets, bytes_):
        self.packets, self.bytes = packets, bytes_


class OuterCounter:
    """Counts from its making on what passes `core` from or to the server's own address, and what is longer than 1500 bytes:
    a super-packet there would hide headers that the wire carries."""

    def __init__(self, topology):
        self.topology = topology
        topology.nft("core", f"add table ip {TABLE}; "
                             + "".join(f"add counter ip {TABLE} {name}; " for name in ("up", "down", "long"))
                             + f"add chain ip {TABLE} forward {{ type filter hook forward priority -10; }}; "
                             f"add rule ip {TABLE} forward ip daddr {SERVER} counter name up; "
                             f"add rule ip {TABLE} forward ip saddr {SERVER} counter name down; "
                             f"add rule ip {TABLE} forward meta length gt 1500 counter name long")

    def read(self):
        text = self.topology.run("core", ["nft", "-j", "list", "counters", "table", "ip", TABLE])
        found = {}
        for item in json.loads(text)["nftables"]:
            if "counter" in item:
                one = item["counter"]
                found[one["name"]] = Count(one["packets"], one["bytes"])
        return found

    def total(self):
        found = self.read()
        return Count(found["up"].packets + found["down"].packets, found["up"].bytes + found["down"].bytes)

    def remove(self):
        self.topology.run("core", ["nft", f"delete table ip {TABLE}"], check=False)


class InnerCounter:
    """IP bytes of UDP packets that inet takes, by destination port of the load."""

    def __init__(self, topology, ports):
        self.topology = topology
        listed = "{ " + ", ".join(str(port) for port in ports) + " }"
        topology.nft("inet", f"add table ip {TABLE}; add counter ip {TABLE} inner; "
                             f"add chain ip {TABLE} input {{ type filter hook input priority -10; }}; "
                             f"add rule ip {TABLE} input udp dport {listed} counter name inner")

    def total(self):
        text = self.topology.run("inet", ["nft", "-j", "list", "counters", "table", "ip", TABLE])
        one = next(item["counter"] for item in json.loads(text)["nftables"] if "counter" in item)
        return Count(one["packets"], one["bytes"])

    def remove(self):
        self.topology.run("inet", ["nft", f"delete table ip {TABLE}"], check=False)
