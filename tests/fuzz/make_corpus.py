#!/usr/bin/env python3
"""make_corpus.py FOLDER: writes the seeds that come from tests/vectors, a folder for each target. The build calls it."""
import hashlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent / "vectors"
SOURCES = {
    "tunnel_header_fuzz": ["tunnel_header.hex", "worked_examples.hex"],
    "body_fuzz": ["frames.hex", "bodies.hex", "bodies_invalid.hex"],
    "unsealed_fuzz": ["unsealed.hex", "tcp_record.hex"],
}
MANIFESTS = ["cnapt", "plan", "policy", "snapt", "syntax"]
FRAMES_OF_A_SEED = 6


def read_records(path):
    record = None
    for line in path.read_text().splitlines():
        key, colon, value = line.partition(":")
        if line.startswith("#") or not colon:
            continue
        if key == "name":
            if record is not None:
                yield record
            record = b""
        elif key == "hex":
            record += bytes.fromhex(value)
    if record is not None:
        yield record


def path_of(folder, target, content):
    return folder / target / hashlib.sha256(content).hexdigest()[:16]


def session_seeds():
    """Every frame and body, a few in a row, to either role: the form is told in session_fuzz.cpp."""
    records = [r for name in ("frames.hex", "bodies.hex") for r in read_records(VECTORS / name) if r]
    for first in range(0, len(records), FRAMES_OF_A_SEED):
        part = records[first:first + FRAMES_OF_A_SEED]
        bodies = b"".join(b"\xc0" + len(r).to_bytes(2, "big") + r for r in part)
        yield b"\x00" + bodies
        yield b"\x01" + bodies


def config_seeds(path):
    """The files of a manifest."""
    for case in path.read_text().split("\n=== ")[1:]:
        claim, _, body = case.partition("\n")
        text = body.partition("---\n")[0].replace("+rest\n", "")
        if claim.startswith("bytes: "):
            yield text.encode().decode("unicode_escape").encode("latin-1")
        elif text:
            yield text.encode()


def all_seeds():
    """(target, content)"""
    for target, files in SOURCES.items():
        for name in files:
            yield from ((target, record) for record in read_records(VECTORS / name) if record)
    yield from (("session_fuzz", seed) for seed in session_seeds())
    for name in MANIFESTS:
        yield from (("config_fuzz", seed) for seed in config_seeds(VECTORS / "bad_config" / f"{name}.txt"))


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, content in all_seeds():
        path = path_of(folder, target, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
