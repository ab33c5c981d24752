#!/usr/bin/env python3
"""Reads JUnit files of ctest. Prints "N passed, N failed, N skipped" and fails when a test failed or none ran; with
--failures prints the names of the tests that failed or were skipped instead, and why. What a GoogleTest program skips counts,
too. Root with a TUN device can run all of them, so there a skip that no kernel, sanitizer or recording explains is a failure."""
import argparse
import os
import re
import sys
import xml.etree.ElementTree


# Reasons to skip that ./test cannot remove: what the kernel lacks, what is recorded and not in the tree, what a sanitizer
# does not allow.
MAY_SKIP = re.compile(r"""kernel|needs IPv6|no ping sockets here|cannot attach here|no capture|^no "?/|needs \S+ in /|sanitizer""")


def is_unexpected(reason):
    able = os.geteuid() == 0 and os.path.exists("/dev/net/tun")
    return able and not MAY_SKIP.search(reason)


def outcome(case):
    """passed, failed or skipped, and the reason ctest gives."""
    status = case.get("status")
    if status == "run":
        return "passed", ""
    skipped = case.find("skipped")
    reason = skipped.get("message", "") if skipped is not None else ""
    if status == "disabled" or reason.startswith("SKIP_"):
        output = case.findtext("system-out", "").strip().splitlines()
        return "skipped", output[-1] if output else reason
    failure = case.find("failure")
    return "failed", reason or (failure.get("message", "") if failure is not None else "")


def skipped_inside(case):
    """What a GoogleTest program that passed has skipped: {Suite.Test: reason}."""
    lines = case.findtext("system-out", "").splitlines()
    found = {}
    for at, line in enumerate(lines):
        match = re.match(r"\[  SKIPPED \] (\w+(?:/\w+)*\.\S+)(?: \(\d+ ms\))?$", line)
        if match:
            said = [text.strip() for text in lines[:at] if text.strip()]
            found.setdefault(match[1], said[-1] if said else "")
    return found


def output_of(case):
    """The claims of an end-to-end test that failed, with what was had and wanted, then the end of all it printed."""
    lines = case.findtext("system-out", "").strip().splitlines()
    claims = []
    is_claim = False
    for line in lines:
        is_claim = line.startswith(("FAIL  ", "VOID  ")) or (is_claim and line.startswith("      "))
        if is_claim:
            claims.append(line)
    return claims[:40] + lines[-30:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--also-failed", type=int, default=0, help="steps outside ctest that failed")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    totals = {"passed": 0, "failed": arguments.also_failed, "skipped": 0}
    for path in filter(os.path.exists, arguments.files):
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            kind, reason = outcome(case)
            if kind == "skipped" and is_unexpected(reason):
                kind = "failed"
            totals[kind] += 1
            skipped = skipped_inside(case) if kind == "passed" else {}
            for why in skipped.values():
                totals["failed" if is_unexpected(why) else "skipped"] += 1
            if arguments.failures:
                for name, why in skipped.items():
                    print(f"   {'skipped, but should run here' if is_unexpected(why) else 'skipped'}: {name}: {why}")
            if not arguments.failures or kind == "passed":
                continue
            print(f"   {kind}: {case.get('name')}{': ' if reason else ''}{reason}")
            if kind == "failed":
                print("\n".join("      " + line for line in output_of(case)))
    if arguments.failures:
        return 0
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0 if totals["failed"] == 0 and totals["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
