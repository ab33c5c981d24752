#!/usr/bin/env python3
"""Fails when a file includes a layer it may not see. The table is the architecture (ARCHITECTURE.md draws it)."""
import collections
import pathlib
import re
import subprocess
import sys

BASE = {"common/base"}
PURE = BASE | {"common/packet", "common/wire", "common/crypto", "common/compress", "common/flow", "common/elision"}
SHARED = PURE | {"common/control", "common/recovery", "common/path", "common/queueing", "common/reception", "common/session", "common/config",
                 "common/report", "common/io", "common/netlink", "common/netfilter", "common/process", "common/host",
                 "common/turns", "common/record", "common/dataplane", "common/daemon", "classifier", "policy"}

# The rooms of cnapt, the lowest first.
CNAPT = {
    "cnapt/uplinks": BASE | {"common/wire", "common/io", "common/netlink"},
    "cnapt/settings": BASE | {"common/control", "common/config", "common/io", "common/host", "common/daemon", "classifier",
                              "cnapt/uplinks"},
    "cnapt/names": BASE | {"common/report", "common/io", "common/host", "common/daemon", "cnapt/uplinks", "cnapt/settings"},
    "cnapt/capture": BASE | {"common/packet", "common/wire", "common/report", "common/io", "common/netlink", "common/netfilter",
                             "common/process", "common/host", "common/dataplane", "common/daemon", "classifier", "cnapt/uplinks",
                             "cnapt/settings"},
    "cnapt/control_link": BASE | {"common/wire", "common/control", "common/io", "common/host", "common/dataplane",
                                  "common/daemon", "cnapt/uplinks"},
    "cnapt/links": BASE | {"common/wire", "common/control", "common/session", "common/report", "common/dataplane", "policy",
                           "cnapt/uplinks", "cnapt/control_link"},
    "cnapt/admission": BASE | {"common/packet", "common/flow", "common/io", "common/netfilter", "common/process",
                               "common/dataplane", "classifier", "policy", "cnapt/uplinks", "cnapt/links"},
    "cnapt/node": BASE | {"common/packet", "common/wire", "common/flow", "common/control", "common/session", "common/report",
                          "common/io", "common/netlink", "common/record", "common/dataplane", "policy", "cnapt/uplinks",
                          "cnapt/capture", "cnapt/control_link", "cnapt/links", "cnapt/admission"},
    "cnapt/snapts": BASE | {"common/crypto", "common/control", "common/config", "common/report", "common/io", "common/netlink",
                            "common/daemon", "cnapt/uplinks", "cnapt/settings", "cnapt/names", "cnapt/control_link",
                            "cnapt/links", "cnapt/node"},
    "cnapt/bypass": BASE | {"common/wire", "common/control", "common/report", "common/io", "common/host", "cnapt/uplinks",
                            "cnapt/names", "cnapt/capture", "cnapt/control_link", "cnapt/links", "cnapt/node"},
    "cnapt/commands": BASE | {"common/packet", "common/flow", "common/session", "common/config", "common/report", "common/io",
                              "common/host", "common/dataplane", "common/daemon", "classifier", "policy", "cnapt/settings",
                              "cnapt/names"},
    "cnapt/doctor": BASE | {"common/crypto", "common/report", "common/io", "common/netlink", "common/netfilter", "common/host",
                            "common/daemon", "classifier", "cnapt/uplinks", "cnapt/settings", "cnapt/names", "cnapt/capture",
                            "cnapt/control_link", "cnapt/links", "cnapt/node", "cnapt/snapts", "cnapt/bypass", "cnapt/commands"},
}

# The rooms of snapt, the lowest first.
SNAPT = {
    "snapt/rest": BASE | {"common/config", "common/report", "common/io", "common/host"},
    "snapt/settings": BASE | {"common/control", "common/config", "common/io"},
    "snapt/store": BASE | {"common/config", "common/io", "rating"},
    "snapt/ledger": BASE | {"common/flow", "common/io", "common/host", "rating", "snapt/settings", "snapt/store"},
    "snapt/accounting": BASE | {"common/flow", "common/control", "common/config", "common/report", "common/host",
                                "common/daemon", "rating", "snapt/store", "snapt/ledger"},
    "snapt/nat": BASE | {"common/packet", "common/control", "common/report", "common/netlink", "common/netfilter",
                         "common/process", "common/host", "common/dataplane", "common/daemon", "snapt/settings", "snapt/store"},
    "snapt/relay": BASE | {"common/packet", "common/wire", "common/flow", "common/control", "common/session", "common/report",
                           "common/io", "common/turns", "common/record", "common/dataplane", "snapt/accounting", "snapt/nat"},
    "snapt/links": BASE | {"common/control", "common/io", "common/host", "common/dataplane", "common/daemon", "snapt/store"},
    "snapt/users": BASE | {"common/control", "common/config", "common/report", "common/io", "common/host", "common/dataplane",
                           "common/daemon", "snapt/settings", "snapt/store", "snapt/accounting", "snapt/nat", "snapt/relay",
                           "snapt/links"},
    "snapt/commands": BASE | {"common/flow", "common/config", "common/report", "common/io", "common/netlink", "common/netfilter",
                              "common/process", "common/host", "common/daemon", "snapt/rest", "snapt/settings", "snapt/store",
                              "snapt/ledger", "snapt/accounting", "snapt/nat", "snapt/relay", "snapt/links", "snapt/users"},
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
    "common/recovery": BASE | {"common/wire"},
    "common/path": BASE | {"common/wire", "common/recovery"},
    "common/queueing": BASE | {"common/packet", "common/flow"},
    "common/reception": BASE | {"common/packet", "common/wire", "common/crypto", "common/flow", "common/elision"},
    "common/session": PURE | {"common/recovery", "common/path", "common/queueing", "common/reception"},
    "common/config": BASE,
    "common/report": BASE | {"common/config"},
    "common/io": BASE | {"common/packet"},
    "common/netlink": BASE | {"common/io"},
    "common/netfilter": BASE | {"common/packet", "common/netlink"},
    "common/process": BASE | {"common/packet", "common/io", "common/netlink"},
    "common/host": BASE | {"common/io", "common/netlink", "common/process"},
    "common/turns": BASE | {"common/packet", "common/reception"},
    "common/record": BASE | {"common/packet", "common/control", "common/config", "common/report", "common/io"},
    "common/dataplane": BASE | {"common/packet", "common/wire", "common/crypto", "common/flow", "common/control",
                                "common/session", "common/config", "common/report", "common/io", "common/host",
                                "common/turns", "common/record"},
    "common/daemon": BASE | {"common/config", "common/report", "common/io", "common/netlink", "common/netfilter", "common/host"},
    "classifier": BASE | {"common/packet", "common/flow", "common/config"},
    "policy": BASE | {"common/packet", "common/recovery", "common/config", "classifier"},
    "rating": BASE | {"common/config"},
    **CNAPT,
    "cnapt": SHARED | set(CNAPT),
    **SNAPT,
    "snapt": SHARED | {"rating", *SNAPT},
    "tests": SHARED | set(CNAPT) | set(SNAPT) | {"cnapt", "snapt", "rating", "tests"},
}

MOST_FILES = 30  # in a folder
LARGER = {"common/session", "tests/sim"}  # not divided yet

# Headers of the system and of libraries that only some layers may see.
RESERVED = {
    r"uv\.h": {"common/io"},
    r"sqlite3\.h": {"snapt/store", "tests"},
    r"toml\.hpp": {"common/config"},
    r"nlohmann/.*": {"common/report", "tests"},
    r"openssl/.*": {"common/crypto", "common/control", "tests", "snapt/rest", "snapt/store", "snapt/ledger"},
    r"microhttpd\.h": {"snapt/rest"},
    r"zstd.*\.h": {"common/compress", "tests"},
    r"sys/socket\.h|netinet/.*|linux/.*|sys/epoll\.h|unistd\.h": {
        "common/io", "common/netlink", "common/netfilter", "common/process", "common/host", "common/daemon", "cnapt", *CNAPT, "snapt",
        "snapt/rest", "snapt/store", "snapt/ledger", "snapt/nat", "snapt/links", "snapt/commands", "tests"},
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
    held = collections.Counter(str(pathlib.Path(name).parent) for name in tracked.split())
    faults += [f"{room}: {held[room]} files; nobody finds his way among more than {MOST_FILES}"
               for room in sorted(held) if held[room] > MOST_FILES and room not in LARGER]
    print("\n".join(faults) if faults else f"layers: {len(tracked.split())} files, none crosses a line")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
