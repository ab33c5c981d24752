#!/usr/bin/env python3
"""Tests of what judges an end-to-end test: check_closing_line.sh and run_again.py with small test scripts, and the claims of
lib_stalls.sh."""
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SUPPORT = pathlib.Path(__file__).resolve().parent
E2E = SUPPORT.parent / "e2e"


class RunAgain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def run_tests(self, **scripts):
        """{name: "status RUNS"} and the lines of flaky.txt. A script has in $n how often it runs."""
        lines = ["cmake_minimum_required(VERSION 3.20)", "project(again NONE)", "enable_testing()"]
        for name, script in scripts.items():
            path = self.root / f"{name}.sh"
            path.write_text(f"echo x >>{self.root}/{name}.runs; n=$(grep -c x {self.root}/{name}.runs)\n{script}\n")
            lines.append(f"add_test(NAME {name} COMMAND sh {path})")
            lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)")
        (self.root / "CMakeLists.txt").write_text("\n".join(lines))
        build = self.root / "build"
        subprocess.run(["cmake", "-S", self.root, "-B", build], check=True, stdout=subprocess.DEVNULL)
        results, flaky = self.root / "results.xml", self.root / "flaky.txt"
        subprocess.run(["ctest", "--test-dir", build, "--output-junit", results], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        subprocess.run([SUPPORT / "run_again.py", build, results, flaky], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        outcome = {}
        for case in ElementTree.parse(results).iter("testcase"):
            runs = (self.root / f"{case.get('name')}.runs").read_text().count("x")
            outcome[case.get("name")] = f"{case.get('status')} {runs}"
        return outcome, flaky.read_text().splitlines() if flaky.exists() else []

    def test_one_that_passes_is_not_run_again(self):
        self.assertEqual(self.run_tests(good="echo 'ok    all'"), ({"good": "run 1"}, []))

    def test_one_that_passes_later_passes_and_is_listed_with_its_claims(self):
        script = """[ $n = 3 ] && exit 0; echo 'ok    one'; echo "FAIL  two"; echo '      5 is above 3'; echo 'FAIL  three'; exit 1"""
        self.assertEqual(self.run_tests(late=script, good="exit 0"), (
            {"late": "run 3", "good": "run 1"}, ["flaky: late: two (5 is above 3)", "flaky: late: three"]))

    def test_one_that_fails_three_times_has_failed(self):
        self.assertEqual(self.run_tests(bad="echo 'FAIL  it'; exit 1"), ({"bad": "fail 3"}, []))

    def test_one_that_cannot_be_judged_is_run_again_and_is_not_flaky(self):
        script = "[ $n = 2 ] && exit 0; echo 'VOID  it'; echo '      the machine did not run'; echo '1 held, 0 failed, 1 void'; exit 75"
        self.assertEqual(self.run_tests(stalled=script), ({"stalled": "run 2"}, ["void: stalled: it (the machine did not run)"]))

    def test_one_that_died_after_a_void_claim_is_flaky(self):
        script = "[ $n = 2 ] && exit 0; echo 'VOID  it'; exit 1"
        self.assertEqual(self.run_tests(died=script), ({"died": "run 2"}, ["void: died: it", "flaky: died: failed"]))

    def test_one_that_is_skipped_afterwards_has_failed(self):
        script = "[ $n = 2 ] && exit 77; echo 'FAIL  it'; exit 1"
        self.assertEqual(self.run_tests(late=script), ({"late": "fail 2"}, []))

    def test_where_many_fail_none_is_run_again(self):
        scripts = {f"bad{n}": "[ $n = 2 ]" for n in range(9)}
        self.assertEqual(self.run_tests(**scripts), ({name: "fail 1" for name in scripts}, []))

    def test_one_that_was_never_judged_has_failed(self):
        self.assertEqual(self.run_tests(stalled="echo 'VOID  it'; exit 75"), ({"stalled": "fail 3"}, []))


class ClosingLine(unittest.TestCase):
    """A script that ends with 0 passes only by its last line, and is told apart from one that failed."""

    FAIL = 'FAIL  the script ends with its line "N held, 0 failed"'

    def judge(self, script):
        done = subprocess.run([SUPPORT / "check_closing_line.sh", "bash", "-c", script], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def of_library(self, script):
        """A script that uses lib.sh, without its namespaces."""
        with tempfile.TemporaryDirectory() as work:
            return self.judge(f". {E2E}/lib.sh; work={work}; : >{work}/stalls; {script}")

    def test_one_that_comes_to_its_end_passes(self):
        self.assertEqual(self.of_library("claim it true; finish"), (0, ["ok    it", "1 held, 0 failed"]))

    def test_one_that_a_program_replaced_has_failed(self):
        self.assertEqual(self.of_library("claim it true; exec true; claim that false; finish"), (1, ["ok    it", self.FAIL]))

    def test_one_that_leaves_in_the_middle_has_failed(self):
        self.assertEqual(self.of_library("claim it true; exit 0; finish"), (1, ["ok    it", self.FAIL]))

    def test_one_that_printed_something_after_its_line_or_made_no_claim_has_failed(self):
        for said in ("1 held, 0 failed\nmore", "0 held, 0 failed", "1 held, 1 failed", "11 held, 0 failed, 1 void", ""):
            self.assertEqual(self.judge(f"printf '%b' '{said}'"), (1, said.splitlines() + [self.FAIL]), said)

    def test_other_ends_are_the_script_s_own(self):
        for code in (1, 75, 77, 143):
            self.assertEqual(self.judge(f"echo 'skipped: it'; exit {code}"), (code, ["skipped: it"]))

    def test_the_last_line_of_one_that_skips_is_its_reason(self):
        done = subprocess.run([SUPPORT / "check_closing_line.sh", "bash", "-c", "echo why; exit 77"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (77, "why\n"))

    def test_one_that_is_ended_still_says_why(self):
        script = "trap 'echo ended; exit 143' TERM; echo begun; while :; do read -rt 1; done"
        with subprocess.Popen([SUPPORT / "check_closing_line.sh", "bash", "-c", script], stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as judge:
            self.assertEqual(judge.stdout.readline(), "begun\n")
            os.killpg(judge.pid, signal.SIGTERM)
            self.assertEqual(judge.stdout.read(), "ended\n")


class Claims(unittest.TestCase):
    """A claim on a time, with stalls of two cores in a log: core 0 from 101.0 to 101.2 and from 150 to 160, core 1 from 101.1 to 101.25."""

    def claims(self, script):
        with tempfile.TemporaryDirectory() as work:
            pathlib.Path(work, "stalls").write_text("101.0 101.2 0\n101.1 101.25 1\n150.0 160.0 0\n")
            (pathlib.Path(work) / "arrivals").write_text("100.0 1\n100.5 2\n103.5 3\n104.0 4\n")
            shell = f". {E2E}/lib.sh; work={work}; {script}"
            done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
            return [line for line in done.stdout.splitlines() if line[:4] in ("ok  ", "FAIL", "VOID")] + [done.returncode]

    def test_a_claim_is_void_when_the_machine_stalled_for_a_tenth_of_its_bound(self):
        script = "speaks_of 100 104 {}; claim it at_most 9 {}; finish"
        self.assertEqual(self.claims(script.format("", 1.9)), ["VOID  it", 75])
        self.assertEqual(self.claims(script.format("", 2.1)), ["FAIL  it", 1])

    def test_only_stalls_within_the_window_count(self):
        self.assertEqual(self.claims("speaks_of 101.15 149 ; claim it at_most 9 0.9; finish"), ["VOID  it", 75])
        self.assertEqual(self.claims("speaks_of 101.15 149 ; claim it at_most 9 1.1; finish"), ["FAIL  it", 1])

    def test_one_that_holds_in_spite_of_a_stall_holds(self):
        self.assertEqual(self.claims("speaks_of 100 170 1; claim it true; finish"), ["ok    it", 0])

    def test_a_silence_knows_its_window(self):
        self.assertEqual(self.claims("gap=$(longest_gap 100); claim it at_most $gap 1.5; finish"), ["VOID  it", 75])
        self.assertEqual(self.claims("gap=$(longest_gap 100); claim it at_most $gap 2.5; finish"), ["FAIL  it", 1])

    def test_a_claim_without_a_window_is_never_void(self):
        self.assertEqual(self.claims("gap=$(longest_gap 100); claim one true; claim it at_most 9 0.1; finish"),
                         ["ok    one", "FAIL  it", 1])

    def test_what_did_not_happen_is_not_void(self):
        self.assertEqual(self.claims("speaks_of 100 104 ; claim it at_most 9 -5; finish"), ["FAIL  it", 1])

    def test_a_change_of_the_network_that_took_long_makes_a_claim_void(self):
        script = ("unset EPOCHREALTIME; EPOCHREALTIME=200; slow() {{ EPOCHREALTIME=200.5; }}; takes_effect slow; "
                  "speaks_of 200 204 ; claim it at_most 9 {}; finish")
        self.assertEqual(self.claims(script.format(4.9)), ["VOID  it", 75])
        self.assertEqual(self.claims(script.format(5.1)), ["FAIL  it", 1])

    def test_a_change_of_the_network_that_fails_says_so(self):
        self.assertEqual(self.claims("claim it takes_effect false; finish"), ["FAIL  it", 1])

    def test_what_failed_counts_beside_what_is_void(self):
        self.assertEqual(self.claims("speaks_of 100 104 1; claim one false; claim two false; finish"), ["VOID  one", "FAIL  two", 1])


if __name__ == "__main__":
    unittest.main()
