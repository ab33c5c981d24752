"""Texts of the bytes-saved bench. A corpus is cut into one part a flow, so that no byte of it is sent twice, but for
`lockstep`, whose flows all carry the same text. Each has a hash, which the rows carry."""
import hashlib
import os
import pathlib
import random

from .process import Skip

# Literature in the public domain, not part of the repository: in the directory given with --data.
LIT = ("alice29.txt", "plrabn12.txt")
# Files that every Debian has. None of them may be used to train a dictionary.
DOCS_FOLDER = "/usr/share/common-licenses"
DOCS = ("Apache-2.0", "Artistic", "GFDL-1.3", "GPL-1", "GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3", "MPL-1.1", "MPL-2.0")
RANDOM_SEED, RANDOM_BYTES = 9347, 1_500_000


class Corpus:
    def __init__(self, name, text, same_for_all=False):
        self.name, self.text, self.same_for_all = name, text, same_for_all
        self.hash = hashlib.sha256(text).hexdigest()[:12]

    def whole(self, folder):
        """Path of a file with all of it."""
        path = f"{folder}/{self.name}"
        pathlib.Path(path).write_bytes(self.text)
        return path

    def parts(self, folder, flows, limit):
        """Paths of one file a flow, of at most `limit` bytes."""
        size = len(self.text) if self.same_for_all else len(self.text) // flows
        paths = []
        for number in range(flows):
            begin = 0 if self.same_for_all else number * size
            path = f"{folder}/{self.name}-{flows}-{number}"
            pathlib.Path(path).write_bytes(self.text[begin:begin + min(size, limit)])
            paths.append(path)
        return paths


def _read(paths, hint):
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise Skip(f"{missing[0]} is not there{hint}")
    return b"".join(pathlib.Path(path).read_bytes() for path in paths)


def load(name, data):
    """The corpus of that name; Skip where its files are missing."""
    if name == "random":
        return Corpus(name, random.Random(RANDOM_SEED).randbytes(RANDOM_BYTES))
    if name == "docs":
        return Corpus(name, _read([f"{DOCS_FOLDER}/{file}" for file in DOCS], ""))
    if not data:
        raise Skip("needs --data DIR with texts/" + ", texts/".join(LIT))
    text = _read([f"{data}/texts/{file}" for file in LIT], " (--data)")
    return Corpus(name, text, same_for_all=name == "lockstep")
