#!/usr/bin/env python3
"""Prints what ./demo saw, from the reports that it saved in a directory."""
import json
import os
import statistics
import sys

CLASSES = ("lt-ld", "ht-ld", "lt-hd", "ht-hd")


def load(directory, name):
    with open(os.path.join(directory, name)) as stream:
        return json.load(stream)


def table(title, heads, rows):
    """Columns as wide as they need be; numbers to the right."""
    texts = [[f"{cell:,}".replace(",", " ") if isinstance(cell, int) else "-" if cell is None else str(cell) for cell in row]
             for row in rows]
    widths = [max(len(row[i]) for row in [list(heads)] + texts) for i in range(len(heads))]
    right = [any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(heads))]
    print(f"\n{title}")
    for line in [list(heads)] + texts:
        print("  " + "  ".join(cell.rjust(width) if is_right else cell.ljust(width)
                               for cell, width, is_right in zip(line, widths, right)).rstrip())


def flows(directory):
    rows = []
    for flow in sorted(load(directory, "flows.json"), key=lambda f: f["flow_id"]):
        rows.append((flow["process"], flow["app"], flow["proto"], f"{flow['dst']}:{flow['dport']}" if flow["dport"] else flow["dst"],
                     flow["class"], flow["snapt"], flow["inner_bytes_up"], flow["inner_bytes_down"]))
    table("flows", ("process", "application", "proto", "to", "class", "SNAPT", "bytes up", "bytes down"), rows)


def savings(directory):
    rows = []
    for name in CLASSES:
        for direction, files in (("up", ["cnapt.json"]), ("down", ["snapt1.json", "snapt2.json"])):
            counts = [load(directory, one)["classes"].get(name, {}) for one in files]
            inner, wire, packets, frames = (sum(c.get(key) or 0 for c in counts)
                                            for key in ("inner_bytes", "wire_bytes", "packets", "datagrams"))
            if packets:
                percent = f"{100 * (inner - wire) / inner:.1f} %" if inner else None
                rows.append((name, direction, inner, wire, inner - wire, percent, packets, frames, packets - frames))
    table("saved per class", ("class", "way", "inner bytes", "on the wire", "bytes saved", "", "packets", "frames", "frames saved"), rows)


def usual_silence(directory, flow):
    """Median time between arrivals, in ms."""
    with open(os.path.join(directory, f"{flow}.arrivals")) as stream:
        times = [float(line.split()[0]) for line in stream if line.strip()]
    return statistics.median(after - before for before, after in zip(times, times[1:])) * 1000 if len(times) > 1 else 0


def gaps(directory):
    rows = []
    for flow in ("download", "chat", "voice", "ping"):
        with open(os.path.join(directory, f"{flow}.gap")) as stream:
            words = stream.readline().split()
        if len(words) == 3:
            rows.append((flow, *(f"{number:.1f}" for number in (usual_silence(directory, flow), *map(float, words[:2])))))
        else:
            rows.append((flow, "", "no answer", ""))
    table("handover gap: longest silence around the move, ms", ("flow", "usual silence", "longest", "the link itself was away"), rows)


def usage(directory):
    rows = []
    for number in (1, 2):
        for row in load(directory, f"usage{number}.json")["rows"]:
            rows.append((row["user"], row["class"], f"zrh-{number}", row["flows"], row["inner_up"], row["inner_down"], row["pre"],
                         row["post"], row["saved"]))
    table("usage", ("user", "class", "SNAPT", "flows", "inner up", "inner down", "as packets", "as sent", "saved"), rows)


def main():
    for show in (flows, savings, gaps, usage):
        try:
            show(sys.argv[1])
        except (OSError, KeyError, TypeError, ValueError) as error:
            print(f"\n{show.__name__}: no report ({error!r})")


if __name__ == "__main__":
    main()
