"""TCP flows over several paths at once ([T]): what one uplink, mode flow and mode packet with its three allocation strategies get
of the sum of the paths."""
import os
import platform

from harness import measure
from harness.measure import mean_with_interval, ratio
from harness.process import Skip
from harness.topology import ManyUplinks
from harness.tunnels import Continuo, Plain, through

# Mbit/s and one-way delay in ms of each path.
SCENES = {"3 × 10 Mbit/s, 5/15/30 ms": [(10, 5), (10, 15), (10, 30)], "30 and 10 Mbit/s, 1/50 ms": [(30, 1), (10, 50)]}
STRATEGIES = ["packet", "data", "ack"]  # "data+ack" is "packet"
# Congestion control and tcp_recovery of both ends: Reno as [T] had it, which takes three duplicate acknowledgements for a loss.
CONTROLS = {"cubic": ("cubic", 1), "reno without RACK": ("reno", 0)}
ONE, BY_FLOW = "one uplink", "flow"


def by_packet(strategy):
    return f"packet ({strategy})"


class Mptcp(Plain):
    """The kernel's: no tunnel, programs that ask for it, at both ends (RFC 8684); a subflow from each uplink."""
    name = "MPTCP"
    is_peer = True
    transport = {"protocol": "mptcp", "port": measure.TCP_PORT + 1}
    first_table = 200

    def require(self):
        if not os.path.exists("/proc/sys/net/mptcp/enabled"):
            raise Skip("needs a kernel with MPTCP")

    def version(self):
        return f"Linux {platform.release()}"

    def _start(self):
        super()._start()
        count = len(self.topology.links)
        for short in ("node", "inet"):
            self.topology.run(short, ["ip", "mptcp", "limits", "set", "subflows", count])
        for number in range(1, count + 1):
            table = self.first_table + number
            self.topology.ip("node", [f"route add default via 192.168.{number}.1 dev up{number} table {table}",
                                      f"rule add from 192.168.{number}.2 table {table}"])
            if number > 1:
                self.topology.run("node", ["ip", "mptcp", "endpoint", "add", f"192.168.{number}.2", "dev", f"up{number}", "subflow"])

    def _undo(self):
        self.topology.run("node", ["ip", "mptcp", "endpoint", "flush"], check=False)
        for number in range(1, len(self.topology.links) + 1):
            table = self.first_table + number
            self.topology.run("node", ["ip", "rule", "del", "table", table], check=False)
            self.topology.run("node", ["ip", "route", "flush", "table", table], check=False)
        super()._undo()


def policy(mode):
    return (f'version = 1\n\n[promotion]\nenabled = false\n\n[[rule]]\napp = "bench"\n'
            f'match = {{ proto = "tcp", dport = {measure.TCP_PORT} }}\nclass = "ht-hd"\nmode = "{mode}"\n')


def contestants(context, strategies):
    yield ONE, lambda: Continuo(context, policy=policy("handover"), label=ONE)
    yield BY_FLOW, lambda: Continuo(context, policy=policy("flow"), label=BY_FLOW)
    for strategy in strategies:
        knobs = [("class.ht-hd", "striping", f'"{strategy}"')]
        yield by_packet(strategy), lambda knobs=knobs, name=by_packet(strategy): Continuo(context, knobs=knobs,
                                                                                         policy=policy("packet"), label=name)
    yield Mptcp.name, lambda: Mptcp(context)


def measure_scene(context, links, controls, flows, strategies, skipped):
    """{(control, contestant, flows, direction): [bit/s, ...]}"""
    found = {}
    with ManyUplinks(context.load, links) as topology:
        for control in controls:
            congestion, recovery = CONTROLS[control]
            topology.set_recovery(recovery)
            servers = [measure.serve(topology, congestion), measure.serve(topology, congestion, **Mptcp.transport)]
            for name, make in contestants(context, strategies):
                def use(tunnel):
                    for count in flows:
                        for direction in ("up", "down"):
                            for _ in range(context.pick(3, 1)):
                                context.progress(f"{control}, {name}, {count} {direction}")
                                done = measure.transfer(topology, direction, count, context.pick(5, 4), congestion,
                                                        **getattr(tunnel, "transport", {}))
                                found.setdefault((control, name, count, direction), []).append(done["bits_per_s"])

                through(context, topology, make, skipped, use)
            for server in servers:
                topology.processes.remove(server)
                server.stop()
    return found


def report(result, scene, links, found):
    # Rate of the first uplink alone through the tunnel, scaled to all of them.
    share = sum(megabits for megabits, _ in links) / links[0][0]
    names = list(dict.fromkeys(name for _, name, _, _ in found))
    for control in dict.fromkeys(key[0] for key in found):
        for direction in ("up", "down"):
            def of(name, count):
                return found.get((control, name, count, direction), [])

            counts = sorted({count for _, _, count, _ in found})
            alone, _ = mean_with_interval(of(ONE, counts[0]))
            lines = {}
            for name in names:
                for count in counts:
                    value, interval = mean_with_interval([ratio(rate, alone * share) for rate in of(name, count)])
                    bounds = {"must": 0.8, "goal": 0.95} if name == by_packet("packet") and count == 1 else {}
                    result.row(f"{scene}, {control}, {direction}, {count} flows: {name}, of the sum", value, "×",
                               interval=interval, **bounds)
                    if value is not None:
                        lines.setdefault(name, []).append([count, value])
            for count in counts:
                packet, flow = (mean_with_interval(of(name, count))[0] for name in (by_packet("packet"), BY_FLOW))
                result.row(f"{scene}, {control}, {direction}, {count} flows: packet over flow", ratio(packet, flow), "×",
                           goal=1.0)
            result.plot(f"{scene}, {control}, {direction}", "TCP flows", "of the sum of the paths", lines)


def run(context, result):
    flows = context.pick([1, 3, 6], [1, 3])
    skipped = {}
    for scene, links in SCENES.items():
        found = measure_scene(context, links, context.pick(list(CONTROLS), ["cubic"]), flows,
                              context.pick(STRATEGIES, STRATEGIES[:1]), skipped)
        if found:
            report(result, scene, links, found)
    for name, reason in skipped.items():
        result.skip(f"multipath: {name}", reason)
