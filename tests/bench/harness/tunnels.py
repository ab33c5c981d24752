"""What carries packets between node and server in a run: nothing (plain forwarding), Continuo, or one of its peers."""
import json
import os
import re

from .process import BenchError, Process, Skip, run, wait_for
from .topology import INET, SERVER

PORT = 9347
NO_HOLD = [(f"class.{token}", "hold_ms", "0") for token in ("lt-ld", "ht-ld", "lt-hd", "ht-hd")]


def set_key(text, section, key, value):
    """TOML text with `key = value` in [section], replaced or added; section "" is the top."""
    line = f"{key} = {value}"
    head = re.search(rf"^\[{re.escape(section)}\].*$", text, re.M) if section else None
    if section and not head:
        return f"{text.rstrip()}\n\n[{section}]\n{line}\n"
    start = head.end() if head else 0
    after = re.search(r"^\[", text[start:], re.M)
    end = start + after.start() if after else len(text)
    body, changed = re.subn(rf"^{re.escape(key)}\s*=.*$", line, text[start:end], count=1, flags=re.M)
    if not changed:
        body = f"\n{line}{body}" if head else f"{line}\n{body}"
    return text[:start] + body + text[end:]


class Tunnel:
    """Between start() and stop() the node reaches INET through it."""
    name = "?"
    is_peer = False

    def __init__(self, context):
        self.context = context
        self.processes = []
        self.topology = None
        self.folder = context.new_folder(self.name)

    def require(self):
        """Raises Skip where it cannot be run."""

    def version(self):
        """Of a peer, as its program says it."""
        return "unknown"

    def start(self, topology):
        self.topology = topology
        self._start()
        wait_for(lambda: topology.run("node", ["ping", "-c", "1", "-W", "1", INET], check=False).find(" 0% packet loss") > 0,
                 15, f"an answer through {self.name}{self.said()}")
        return self

    def said(self):
        return "".join(process.said() for process in self.processes)

    def stop(self):
        for process in reversed(self.processes):
            if not process.stop():
                self.context.note(f"{self.name}: {process.name} had to be killed")
        self._undo()
        self.processes = []

    def pids(self):
        return [process.pid for process in self.processes]

    def _launch(self, short, command, **keywords):
        process = Process(command, namespace=self.topology.ns(short), **keywords)
        self.processes.append(process)
        return process

    def _start(self):
        raise NotImplementedError

    def _undo(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def through(context, topology, make, skipped, use, label=None):
    """Starts what `make` gives, calls `use` with it, stops it. A peer that is not there, or does not work, is written down in
    `skipped` and left out from then on; a failure of anything else makes the run fail, and the rest goes on."""
    tunnel = make()
    label = label or tunnel.name
    if label in skipped:
        return
    context.progress(label)
    try:
        tunnel.require()
        if tunnel.is_peer:
            context.peer_versions.setdefault(tunnel.name, tunnel.version())
        with tunnel:
            tunnel.start(topology)
            use(tunnel)
    except Skip as reason:
        skipped[label] = str(reason)
    except BenchError as error:
        if tunnel.is_peer:
            skipped[label] = f"failed: {error}"
            context.note(f"{label} is left out from then on: {error}")
        else:
            context.fail(f"{label} failed: {error}")


class Plain(Tunnel):
    name = "plain"

    def _start(self):
        self.topology.forward_plain()

    def _undo(self):
        self.topology.run("server", ["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=False)


class Continuo(Tunnel):
    """`knobs` are (section, key, value) for both ends' class tables, `policy` the text of a policy file."""

    def __init__(self, context, protection="encrypt", knobs=(), policy=None, label=None, snapt=None):
        self.name = label or f"continuo {protection}"
        super().__init__(context)
        self.snapt_program = snapt or f"{context.bin}/snapt"
        self.protection, self.knobs, self.policy = protection, knobs, policy

    def require(self):
        for program in ("cnapt", "snapt"):
            if not os.access(f"{self.context.bin}/{program}", os.X_OK):
                raise BenchError(f"no {program} in {self.context.bin}; give --bin DIR")

    def _path(self, name):
        return f"{self.folder}/{name}"

    def _configure(self, name, changes):
        with open(self._path(name)) as file:
            text = file.read()
        for change in changes:
            text = set_key(text, *change)
        with open(self._path(name), "w") as file:
            file.write(text)
        os.chmod(self._path(name), 0o600)

    def _start(self):
        cnapt, snapt = f"{self.context.bin}/cnapt", self.snapt_program
        for name in ("s", "c"):
            os.makedirs(self._path(name), exist_ok=True)
        run([snapt, "init", "--config", self._path("snapt.toml"), "--state", self._path("s"), "--name", "bench",
             "--public", f"{SERVER}:{PORT}"])
        self._configure("snapt.toml", self.knobs)
        self.snapt = self._launch("server", [snapt, "run", "--config", self._path("snapt.toml"), "--state",
                                             self._path("s"), "--socket", self._path("snapt.sock")], name="snapt")
        self._wait_up(snapt, "snapt")
        text = run([snapt, "user", "add", "bench", "--socket", self._path("snapt.sock")])
        with open(self._path("cnapt.toml"), "w") as file:
            file.write(text)
        self._configure("cnapt.toml", [("", "protection", f'"{self.protection}"'), *self.knobs])
        command = [cnapt, "run", "--config", self._path("cnapt.toml"), "--state", self._path("c"), "--socket",
                   self._path("cnapt.sock")]
        if self.policy:
            with open(self._path("policy.toml"), "w") as file:
                file.write(self.policy)
            command += ["--policy", self._path("policy.toml")]
        self.cnapt = self._launch("node", command, name="cnapt")
        self._wait_up(cnapt, "cnapt")

    def _wait_up(self, program, name):
        try:
            run([program, "status", "--wait", "up", "--timeout", "15", "--socket", self._path(f"{name}.sock")], timeout=20)
        except BenchError as error:
            raise BenchError(f"{name} did not come up ({error}){self.said()}") from None

    def status(self, end):
        """`cnapt status` or `snapt status`, parsed."""
        return json.loads(run([f"{self.context.bin}/{end}", "status", "--json", "--socket", self._path(f"{end}.sock")]))

    def query(self, end, what):
        return json.loads(run([f"{self.context.bin}/{end}", what, "--json", "--socket", self._path(f"{end}.sock")]))
