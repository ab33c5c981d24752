#!/usr/bin/env python3
"""Fails when a file includes a layer it may not see. The table is the architecture (ARCHITECTURE.md draws it)."""
import pathlib
import re
import subprocess
import sys

BASE = {"common/base"}
PURE = BASE | {"common/packet", "common/wire", "common/crypto", "common/compress", "common/flow", "common/elision"}
SHARED = PURE | {"common/control", "common/path", "common/session", "common/config", "common/report", "common/io",
                 "common/dataplane", "common/daemon", "classifier", "policy"}

# The rooms of cnapt, the lowest first.
CNAPT = {
    "cnapt/uplinks": BASE | {"common/wire", "common/io"},
    "cnapt/settings": BASE | {"common/control", "common/config", "common/io", "common/daemon", "classifier", "cnapt/uplinks"},
    "cnapt/names": BASE | {"common/report", "common/io", "common/daemon", "cnapt/uplinks", "cnapt/settings"},
    "cnapt/capture": BASE | {"common/packet", "common/wire", "common/report", "common/io", "common/dataplane", "common/daemon",
                             "classifier", "cnapt/uplinks", "cnapt/settings"},
    "cnapt/control_link": BASE | {"common/wire", "common/control", "common/io", "common/dataplane", "common/daemon",
                                  "cnapt/uplinks"},
    "cnapt/node": BASE | {"common/packet", "common/wire", "common/flow", "common/control", "common/path", "common/session",
                          "common/report", "common/io", "common/dataplane", "classifier", "policy", "cnapt/uplinks",
                          "cnapt/capture", "cnapt/control_link"},
    "cnapt/snapts": BASE | {"common/crypto", "common/control", "common/config", "common/report", "common/io", "common/daemon",
                            "cnapt/uplinks", "cnapt/settings", "cnapt/names", "cnapt/control_link", "cnapt/node"},
    "cnapt/bypass": BASE | {"common/wire", "common/control", "common/report", "common/io", "cnapt/uplinks", "cnapt/settings",
                            "cnapt/names", "cnapt/capture", "cnapt/control_link", "cnapt/node"},
    "cnapt/commands": SHARED | {"cnapt/settings", "cnapt/names"},
    "cnapt/doctor": BASE | {"common/crypto", "common/report", "common/io", "common/daemon", "classifier", "cnapt/uplinks",
                            "cnapt/settings", "cnapt/names", "cnapt/capture", "cnapt/control_link", "cnapt/node",
                            "cnapt/snapts", "cnapt/bypass", "cnapt/commands"},
}

MAY_INCLUDE = {
    "common/base": set(),
    "common/packet": BASE,
    "common/wire": BASE,
    "common/crypto": BASE | {"common/wire"},
    "common/compress": BASE,
    "common/flow": BASE | {"common/packet"},
    "common/elision": BASE | {"common/packet"},
    "common/control": BASE | {"common/wire"},
    "common/path": BASE | {"common/wire"},
    "common/session": PURE | {"common/path"},
    "common/config": BASE,
    "common/report": BASE | {"common/config"},
    "common/io": BASE | {"common/packet"},
    "common/dataplane": BASE | {"common/packet", "common/wire", "common/crypto", "common/flow", "common/control",
                                "common/session", "common/config", "common/report", "common/io"},
    "common/daemon": BASE | {"common/config", "common/report", "common/io"},
    "classifier": BASE | {"common/packet", "common/flow", "common/config"},
    "policy": BASE | {"common/packet", "common/config", "classifier"},
    "rating": BASE | {"common/config"},
    **CNAPT,
    "cnapt": SHARED | set(CNAPT),
    "snapt/rest": BASE | {"common/config", "common/report", "common/io"},
    "snapt": SHARED | {"rating", "snapt/rest"},
    "tests": SHARED | set(CNAPT) | {"cnapt", "snapt", "snapt/rest", "rating", "tests"},
}

# Headers of the system and of libraries that only some layers may see.
RESERVED = {
    r"uv\.h": {"common/io"},
    r"sqlite3\.h": {"snapt", "tests"},
    r"toml\.hpp": {"common/config"},
    r"nlohmann/.*": {"common/report", "tests"},
    r"openssl/.*": {"common/crypto", "common/control", "tests", "snapt", "snapt/rest"},
    r"microhttpd\.h": {"snapt/rest"},
    r"zstd.*\.h": {"common/compress", "tests"},
    r"sys/socket\.h|netinet/.*|linux/.*|sys/epoll\.h|unistd\.h": {"common/io", "common/daemon", "cnapt", *CNAPT, "snapt", "snapt/rest",
                                                                              "tests"},
}


def layer_of(path):
    return max((name for name in MAY_INCLUDE if path == name or path.startswith(name + "/")), key=len, default=None)


def check(source):
    own = layer_of(str(source))
    if own is None:
        yield f"{source}: no layer in the table holds this file"
        return
    for number, line in enumerate(source.read_text().splitlines(), 1):
        project = re.match(r'#include "([^"]+)"', line)
        if project and "/" in project[1]:  # a bare name is a neighbour in the same folder
            target = layer_of(project[1])
            allowed = MAY_INCLUDE[own] | {own}
            if target not in allowed:
                yield f"{source}:{number}: {own} may not include {project[1]}"
        system = re.match(r"#include <([^>]+)>", line)
        if system:
            for pattern, layers in RESERVED.items():
                if re.fullmatch(pattern, system[1]) and own not in layers:
                    yield f"{source}:{number}: {own} may not include <{system[1]}>"


def main():
    tracked = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp"], capture_output=True, text=True, check=True).stdout
    faults = [fault for name in tracked.split() for fault in check(pathlib.Path(name))]
    print("\n".join(faults) if faults else f"layers: {len(tracked.split())} files, none crosses a line")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
