#!/usr/bin/env python3
"""Writes the seeds of the wire targets from tests/vectors. Run it after a vector was added; the result is committed."""
import hashlib
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent / "vectors"
SOURCES = {
    "tunnel_header_fuzz": ["tunnel_header.hex", "worked_examples.hex"],
    "body_fuzz": ["frames.hex", "bodies.hex", "bodies_invalid.hex"],
    "unsealed_fuzz": ["unsealed.hex", "tcp_record.hex"],
}


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


for target, files in SOURCES.items():
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        for record in read_records(VECTORS / name):
            if record:
                (folder / hashlib.sha256(record).hexdigest()[:16]).write_bytes(record)
