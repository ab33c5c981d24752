#!/usr/bin/env python3
"""Tests of tidy_units.py: what is checked as one, and how findings in it are told. The checks themselves are clang-tidy's."""
import json
import pathlib
import tempfile
import unittest

import tidy_units


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name).resolve()
        (self.root / "Unity").mkdir()
        self.entries = []

    def tearDown(self):
        self.folder.cleanup()

    def source(self, name, text="int x;\n"):
        path = self.root / name
        path.write_text(text)
        return path

    def compiled(self, path):
        self.entries.append({"file": str(path), "command": f"c++ -DA='b c' -o {path}.o -c {path}"})

    def compiled_as_one(self, *members):
        unity = self.source(f"Unity/unity_{len(self.entries)}_cxx.cxx", "".join(f'#include "{member}"\n' for member in members))
        self.compiled(unity)

    def units(self, *sources):
        (self.root / "compile_commands.json").write_text(json.dumps(self.entries))
        return tidy_units.units_of(self.root, [str(source) for source in sources])

    def test_the_sources_named_are_checked_as_the_build_compiles_them(self):
        one, two, three, four = (self.source(f"{name}.cpp") for name in ("one", "two", "three", "four"))
        self.compiled_as_one(one, two, three)
        self.compiled(four)
        units = self.units(one, three, four, self.root / "nowhere.cpp")
        self.assertEqual([unit.members for unit in units], [[one, three], [four]])
        self.assertEqual(units[0].entry(units[0].path)["arguments"][1:], ["-DA=b c", "-o", f"{self.root}/Unity/unity_0_cxx.cxx.o", "-c", str(units[0].path)])

    def test_a_finding_is_told_by_its_file_and_line(self):
        one, two = self.source("one.cpp", "int a;\nint b;\n"), self.source("two.cpp", "int c;\nint d;\n")
        self.compiled_as_one(one, two)
        unit, = self.units(one, two)
        self.assertEqual([unit.told_by_file(f"{unit.path}:{line}:3: warning") for line in (1, 2, 3, 4)],
                         [f"{one}:1:3: warning", f"{one}:2:3: warning", f"{two}:1:3: warning", f"{two}:2:3: warning"])

    def test_each_file_can_be_checked_by_itself(self):
        one, two = self.source("one.cpp"), self.source("two.cpp")
        self.compiled_as_one(one, two)
        unit, = self.units(one, two)
        entries = json.loads((unit.path.parent / "compile_commands.json").read_text())
        self.assertEqual([(entry["file"], entry["arguments"][-1]) for entry in entries], [(str(path), str(path)) for path in (unit.path, one, two)])


if __name__ == "__main__":
    unittest.main()
