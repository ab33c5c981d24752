#!/usr/bin/env python3
"""clang-tidy over sources of one database, as many at once as there are processors: tidy_units.py DATABASE TIDY_ARGUMENT... -- SOURCE...

Most of clang-tidy's time goes to the headers of a file, which it checks with it. So files that the build compiles as one (CONTINUO_UNITY)
are checked as one: their text in one file, in which every check takes each of them for the main file. Findings are told by file and
line as usual. What other files of it would hide is looked for in each by itself, with few checks: that it includes what it uses and nothing
twice, and uses the names that it takes from elsewhere. Exit code 1: findings."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

# Checks of each file by itself: another one of the unit may declare or include the same.
ALONE = ("misc-unused-alias-decls", "misc-unused-using-decls", "readability-duplicate-include")


class Unit:
    """Sources that are checked as one. `arguments` compile what the build makes of them, `source` in there."""

    def __init__(self, path, arguments, source, members):
        self.path = path
        self.members = members
        self.arguments = arguments
        self.source = source
        self.begins = []
        lines = []
        for member in members:
            self.begins.append((len(lines), member))
            lines += member.read_text().removesuffix("\n").split("\n")
        path.write_text("\n".join(lines) + "\n")

    def entry(self, file):
        """Of a database: how that file is compiled."""
        return {"directory": str(self.path.parent), "file": str(file),
                "arguments": [str(file) if word == self.source else word for word in self.arguments]}

    def told_by_file(self, text):
        """Findings with the file and the line of the member."""
        def place(match):
            begin, member = [(begin, member) for begin, member in self.begins if begin < int(match[1])][-1]
            return f"{member}:{int(match[1]) - begin}:"
        return re.sub(re.escape(str(self.path)) + r":(\d+):", place, text)


def units_of(database, sources):
    """Of the sources; what the build does not compile is left out."""
    folder = database / "units"
    folder.mkdir()
    units, left = [], {pathlib.Path(source).resolve() for source in sources}
    for entry in json.loads((database / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        members = [source.resolve()]
        if source.parent.name == "Unity":
            members = [pathlib.Path(path).resolve() for path in re.findall(r'#include "(.*)"', source.read_text())]
        members = [member for member in members if member in left]
        if members:
            left -= set(members)
            units.append(Unit(folder / f"unit_{len(units)}.cpp", shlex.split(entry["command"]), entry["file"], members))
    (folder / "compile_commands.json").write_text(json.dumps(
        [unit.entry(file) for unit in units for file in (unit.path, *unit.members)]))
    return units


def check(unit, file, arguments):
    """(is clean, text)"""
    done = subprocess.run(["clang-tidy-14", "--quiet", "--config-file=.clang-tidy", *arguments, "-p", str(unit.path.parent), str(file)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode == 0, unit.told_by_file(done.stdout or (done.stderr if done.returncode else ""))


def main():
    middle = sys.argv.index("--")
    arguments = sys.argv[2:middle]
    units = units_of(pathlib.Path(sys.argv[1]), sys.argv[middle + 1:])
    if not units:
        print("tidy: the build compiles none of these files")
        return 1
    # The longest first, so that none is left alone at the end.
    units.sort(key=lambda unit: -unit.path.stat().st_size)
    clean = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        several = [unit for unit in units if len(unit.members) > 1]
        jobs = [pool.submit(check, unit, unit.path, [*arguments, "--checks=" + ",".join(f"-{name}" for name in ALONE)] if unit in several else arguments)
                for unit in units]
        jobs += [pool.submit(check, unit, member, [*arguments, "--checks=" + ",".join(["-*", *ALONE])])
                 for unit in several for member in unit.members]
        for job in concurrent.futures.as_completed(jobs):
            is_clean, text = job.result()
            print(text, end="", flush=True)
            clean = clean and is_clean
    print(f"tidy: {sum(len(unit.members) for unit in units)} files {'clean' if clean else 'checked'}")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
