#!/usr/bin/env python3
"""Runs the end-to-end tests again that failed, each alone, up to twice: run_again.py TEST_DIR RESULTS.xml FLAKY.txt, where
TEST_DIR is that of ctest and RESULTS.xml what it wrote. One that passes then counts as passed in RESULTS.xml, and FLAKY.txt has
a line for each claim of it that did not hold before: "flaky: NAME: CLAIM (WHY)" where it failed, "void: NAME: CLAIM (WHY)" where
the machine stalled. One that fails three times stays failed, and so does one of which the machine's stalls allowed no judgement
three times."""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

RUNS_MORE = 2


def has_failed(case):
    return case.get("status") == "fail"


def claims_of(case):
    """What failed in a run and what was void: [(flaky or void, claim)]; what ctest says where no claim did."""
    lines = case.findtext("system-out", "").splitlines()
    found = []
    for line, after in zip(lines, lines[1:] + [""]):
        match = re.match(r"(FAIL|VOID)  (.*)", line)
        if not match:
            continue
        why = after.strip() if after.startswith("      ") else ""
        found.append(("flaky" if match[1] == "FAIL" else "void", match[2] + (f" ({why})" if why else "")))
    if not found:
        failure = case.find("failure")
        found = [("flaky", (failure.get("message", "") if failure is not None else "") or "failed")]
    return found


def run_alone(test_dir, name):
    """The testcase of another run, or None where ctest did not make one."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder, "again.xml")
        subprocess.run(["ctest", "--test-dir", test_dir, "-R", f"^{re.escape(name)}$", "--output-junit", str(result),
                        "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000"],
                       stdin=subprocess.DEVNULL, check=False)
        return ElementTree.parse(result).find("testcase") if result.exists() else None


def main():
    test_dir, results, flaky = sys.argv[1:]
    tree = ElementTree.parse(results)
    suite = tree.getroot()
    lines = []
    for index, case in enumerate(list(suite)):
        if case.tag != "testcase" or not has_failed(case):
            continue
        name = case.get("name")
        claims = claims_of(case)
        for turn in range(RUNS_MORE):
            print(f"{name}, {turn + 1} of {RUNS_MORE}, after: {'; '.join(claim for _, claim in claims_of(case))}", flush=True)
            again = run_alone(test_dir, name)
            if again is None:
                break
            suite.remove(case)
            suite.insert(index, again)
            case = again
            if not has_failed(case):
                lines += [f"{kind}: {name}: {claim}" for kind, claim in dict.fromkeys(claims)]
                break
            claims += claims_of(case)
    tree.write(results, encoding="UTF-8", xml_declaration=True)
    if lines:
        with open(flaky, "a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
