#!/usr/bin/env python3
"""The harness of the benches, without a bench: verdicts, what a result records, which rows are stale."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
sys.dont_write_bytecode = True

from benches import accounting, handover, latency, move, packets  # noqa: E402
from harness import measure, picture, process, report, tunnels  # noqa: E402
from harness.process import Skip  # noqa: E402


def context_of(folder):
    return types.SimpleNamespace(quick=False, disturbed=0, notes=[], peer_versions={}, built=report.Built(folder),
                                 new_folder=lambda name: name, progress=lambda text: None, pick=lambda full, quick: full,
                                 note=lambda text: None, fail=lambda text: None)


def quietly(call, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        return call(*arguments)


def blast(cpu_us, rate=100_000):
    return types.SimpleNamespace(cpu_us=cpu_us, rate=rate, loss=0)


class HarnessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.context = context_of(self.folder.name)
        self.result = report.Result(self.context, "some")

    def tearDown(self):
        self.folder.cleanup()

    def row(self, *arguments, **keywords):
        with contextlib.redirect_stdout(io.StringIO()):
            return self.result.row(*arguments, **keywords)

    def verdicts(self, part):
        return {row["verdict"] for row in self.result.rows if part in row["name"]}

    def build(self, **commits):
        for name, commit in commits.items():
            pathlib.Path(self.folder.name, f"{name}.built").write_text(f"commit={commit}\nbuild=Release GNU 12.2.0\n")
        self.context.built = report.Built(self.folder.name)

    def test_a_must_is_met_missed_or_skipped(self):
        self.assertEqual(self.row("a", 5, "", must=4)["verdict"], "must")
        self.assertEqual(self.row("a", 3, "", must=4)["verdict"], "short")
        self.assertEqual(self.row("a", 3, "", must=4, lower=True, goal=3)["verdict"], "goal")
        self.assertEqual(self.row("a", None, "", must=4)["verdict"], "short")
        self.assertEqual(self.row("a", None, "", must=4, may_skip=True)["verdict"], "skipped")
        self.assertIsNone(self.row("a", 3, "")["verdict"])

    def test_a_must_against_a_peer_that_is_not_there_is_skipped(self):
        row = self.row("a", 3, "", goal=1, lower=True, without_peer="openvpn is not installed")
        self.assertEqual((row["verdict"], row["reason"]), ("skipped", "openvpn is not installed"))
        self.assertEqual(self.row("a", None, "", without_peer="openvpn is not installed")["verdict"], "short",
                         "ours was not measured")

    def latency_of(self, *names, **skipped):
        times = latency.Times()
        times.skipped = skipped
        for name in names:
            times.add(name, 1, latency.IDLE, {"p50_us": 50 + len(name), "p99_us": 90})
        quietly(latency.report, self.result, times, names, [1], [latency.IDLE])
        return self.verdicts(" added")

    def test_latency_without_openvpn_has_no_fulfilled_must(self):
        self.assertEqual(self.latency_of("plain", latency.ENCRYPT, latency.SLEEPER, openvpn="not installed"), {"skipped"})

    def test_latency_beside_openvpn_has_verdicts(self):
        self.assertLessEqual(self.latency_of("plain", "openvpn", latency.ENCRYPT, latency.SLEEPER), {"must", "short"})

    def packets_of(self, names, skipped):
        figures = {name: [blast(10)] for name in names}
        real = packets.measure_all, packets.Topology
        packets.measure_all = lambda *_: (figures, figures, skipped)
        packets.Topology = lambda _: contextlib.nullcontext()
        self.context.load = None
        try:
            quietly(packets.run, self.context, self.result)
        finally:
            packets.measure_all, packets.Topology = real
        return self.verdicts("best protected peer") | self.verdicts(f"20 000/s: {packets.UNHELD}, tunnel CPU")

    OURS = ("plain", packets.HELD, packets.UNHELD)
    PEERS = ("wireguard-go", "openvpn", "boringtun")

    def test_packets_without_a_peer_has_no_fulfilled_must(self):
        for absent in self.PEERS[:2]:
            self.result.rows = []
            there = [name for name in self.PEERS if name != absent]
            self.assertEqual(self.packets_of([*self.OURS, *there], {absent: "not installed"}), {"skipped"})

    def test_packets_beside_all_peers_has_verdicts(self):
        self.assertEqual(self.packets_of([*self.OURS, *self.PEERS], {}), {"must", "goal"})

    def handover_of(self, *labels, skipped):
        found = {}
        for label in labels:
            found[label] = handover.Series()
            found[label].gaps, found[label].controls = [9.0, 11.0, 10.0], [1.0]
        quietly(handover.report_gaps, self.result, "stream", found, (10, 3, 5), skipped)
        return self.verdicts("beside the best peer")

    def test_handover_without_a_peer_has_no_fulfilled_must(self):
        self.assertEqual(self.handover_of("continuo", skipped={"openvpn": "not installed"}), {"skipped"})
        self.result.rows = []
        self.assertEqual(self.handover_of("continuo", "boringtun", skipped={"openvpn": "not installed"}), {"skipped"})
        self.result.rows = []
        self.assertEqual(self.handover_of("continuo", "openvpn", skipped={}), {"must"})

    def accounting_of(self, counted_us, uncounted_us):
        self.result.rows = []
        pairs = [((counted + 1, counted), (uncounted + 1, uncounted)) for counted, uncounted in zip(counted_us, uncounted_us)]
        quietly(accounting.report, self.result, "some", pairs)
        return next(row for row in self.result.rows if row["name"] == "some: both ends, counting costs")

    def test_what_counting_costs_is_the_mean_of_the_ratios(self):
        row = self.accounting_of([10.1, 10.1, 20.2], [10, 10, 20])
        self.assertAlmostEqual(row["value"], 1)
        self.assertEqual((row["verdict"], row["n"]), ("must", 3))
        self.assertEqual(self.accounting_of([10.3, 10.3], [10, 10])["verdict"], "short")

    def test_accounting_without_another_build_is_skipped(self):
        self.context.uncounted = None
        with self.assertRaises(process.Skip):
            accounting.run(self.context, self.result)

    def test_a_build_that_is_not_what_it_should_be_is_no_measurement(self):
        class Tunnel(contextlib.nullcontext):
            snapt = cnapt = types.SimpleNamespace(pid=os.getpid())
            require = start = lambda self, *_: None

        real = accounting.Continuo, accounting.measure.blast, accounting.measure.wait_quiet, accounting.payload_counted
        accounting.Continuo = lambda *_, **__: Tunnel()
        accounting.measure.blast = lambda *_: measure.Blast(1000, 1000, 1, 1)
        accounting.measure.wait_quiet = lambda _: None
        try:
            for counted in (0, 100_000):
                accounting.payload_counted = lambda _, counted=counted: counted
                for kind in (accounting.COUNTED, accounting.UNCOUNTED):
                    fits = (counted > 0) == (kind == accounting.COUNTED)
                    with contextlib.nullcontext() if fits else self.assertRaises(process.BenchError):
                        accounting.one_run(self.context, None, "snapt", kind, ())
        finally:
            accounting.Continuo, accounting.measure.blast, accounting.measure.wait_quiet, accounting.payload_counted = real

    def test_a_row_says_of_how_many_measurements_it_is(self):
        rates = measure.median([1.0, None, 3.0, 2.0])
        self.assertEqual(self.row("a", rates / 1e9, "")["n"], 3)
        self.assertEqual(self.row("a", measure.ratio(rates, measure.median([1.0])), "")["n"], 1)
        self.assertEqual(self.row("a", 100 * rates, "")["n"], 3)
        self.assertEqual(self.row("a", measure.mean_with_interval([1.0, 2.0])[0], "")["n"], 2)
        self.assertEqual(self.row("a", measure.quantile([1.0] * 9, 0.99), "")["n"], 9)
        self.assertEqual(self.row("a", 7, "", n=20)["n"], 20)
        self.assertEqual(self.row("a", 7, "")["n"], 1)
        self.assertEqual(self.row("a", None, "")["n"], 0)

    def written(self):
        self.row("a | b", measure.median([1.0, 2.0]), "ms")
        self.result.write(self.folder.name)
        target = pathlib.Path(self.folder.name, "BENCHMARKS.md")
        report.write_report(self.folder.name, ["some"], target)
        return json.loads(pathlib.Path(self.folder.name, "some.json").read_text()), target

    def test_a_result_names_what_the_programs_were_built_from(self):
        self.build(cnapt="0123456789ab", snapt="0123456789ab")
        self.context.peer_versions = {"openvpn": "2.6.3"}
        document, target = self.written()
        self.assertEqual((document["commit"], document["build"]), ("0123456789ab", "Release GNU 12.2.0"))
        text = target.read_text()
        self.assertIn("Commit `0123456789ab` (Release GNU 12.2.0), ", text)
        self.assertIn("Peers: openvpn (2.6.3).", text)
        self.assertIn("| a \\| b | 1.5 ms | 2 |  |  |  |", text)

    def test_programs_that_do_not_say_what_they_are_built_from_are_unknown(self):
        self.assertEqual(self.written()[0]["commit"], "unknown")
        self.build(cnapt="0123456789ab", snapt="ba9876543210+changes")
        self.assertEqual(self.context.built.commit, "cnapt 0123456789ab, snapt ba9876543210+changes")

    def test_a_peer_is_recorded_with_its_version(self):
        class Peer(tunnels.Tunnel):
            name, is_peer = "peer", True

            def version(self):
                return "1.2"

            def start(self, topology):
                raise Skip("no further")

        tunnels.through(self.context, None, lambda: Peer(self.context), {}, None)
        self.assertEqual(self.context.peer_versions, {"peer": "1.2"})

    def test_a_pause_begins_soon_after_the_event_and_may_have_no_end(self):
        ms = 1_000_000
        times = [at * ms for at in (80, 100, 110, 150, 160, 300, 310)]
        self.assertEqual(move.pause_of(times, 105 * ms, 155 * ms, 320 * ms), (40 * ms, 110 * ms))
        self.assertEqual(move.pause_of(times, 105 * ms, 165 * ms, 320 * ms), (140 * ms, 160 * ms))
        self.assertEqual(move.pause_of(times, 305 * ms, 400 * ms, 900 * ms), (590 * ms, 310 * ms))
        self.assertEqual(move.pause_of([], 5 * ms, 400 * ms, 900 * ms), (895 * ms, 5 * ms))

    @staticmethod
    def run_with(pause):
        flow = {"pause_ms": pause, "from_ms": -2.0, "usual_ms": 20.0, "stays_away": pause > 1000, "arrivals_ms": [-2.0, 30.0]}
        return {name: {"download": {**flow, "mbit_per_s": [20.0, 0.0, 20.0]}, "call": flow, "ping": flow} for name in ("move", "silent")}

    def test_the_middle_run_is_drawn(self):
        runs = [self.run_with(pause) for pause in (30, 10, 50, 20, 40)]
        self.assertIs(move.middle(runs), runs[0])
        self.assertIs(move.middle(runs[:2]), runs[1])

    def test_a_run_without_return_misses_the_must_of_continuo_alone(self):
        found = {"Continuo": [self.run_with(30), self.run_with(5000)], "wireguard-go": [self.run_with(5000)]}
        quietly(move.report_pauses, self.result, found)
        self.assertEqual({row["name"].split(", ")[-2] for row in self.result.missed()}, {"Continuo"})

    def test_the_same_data_give_the_same_picture(self):
        scenes = [{"name": name, "title": name, "detail": "", "first_s": -0.5, "last_s": 1,
                   "tunnels": {"Continuo": self.run_with(30)[name], "wireguard-go": self.run_with(5000)[name]}} for name in ("move", "silent")]
        self.result.picture = {"rtt_ms": 20, "rate_mbit": 20, "queue_ms": 30, "call_interval_ms": 20, "runs": 5, "scenes": scenes}
        document, target = self.written()
        drawn = (target.parent / "benchmarks" / "some.svg").read_text()
        self.assertEqual(drawn, picture.draw(document["picture"]))
        self.assertIn("![some](benchmarks/some.svg)", target.read_text())
        self.assertIn(">30 ms<", drawn)
        self.assertIn(">no return<", drawn)

    def tree(self):
        def git(*words):
            done = subprocess.run(["git", "-C", self.folder.name, "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
                                  check=True, stdout=subprocess.PIPE, text=True)
            return done.stdout.strip()

        def change(path, text):
            file = pathlib.Path(self.folder.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

        def commit(path, text):
            change(path, text)
            git("add", path)
            git("commit", "-qm", path)
            return git("rev-parse", "--short=12", "HEAD")

        git("init", "-q")
        return change, commit

    def stale(self, commit):
        self.build(cnapt=commit, snapt=commit)
        self.result.rows = []
        return report.stale_rows(self.written()[1], self.folder.name)

    def test_rows_older_than_the_last_change_of_the_data_path_are_stale(self):
        change, commit = self.tree()
        old = commit("common/session/session.cpp", "1")
        new = commit("cnapt/node.cpp", "2")
        commit("docs/README.md", "3")
        commit("snapt/cli.cpp", "3")
        self.assertEqual(self.stale(old), [("some", old, "a | b")])
        self.assertEqual(self.stale(new), [])
        self.assertEqual(len(self.stale(new + "+changes")), 1)
        self.assertEqual(len(self.stale("unknown")), 1)
        self.assertEqual(len(self.stale("0123456789ab")), 1)
        change("common/session/session.cpp", "not committed")
        self.assertEqual(len(self.stale(new)), 1)


if __name__ == "__main__":
    unittest.main()
