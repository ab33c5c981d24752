#!/usr/bin/env python3
"""Prints what ./demo saw, from the reports that it saved in a directory: demo_report.py DIRECTORY [bill]"""
import json
import os
import statistics
import sys
import tomllib

CLASSES = ("lt-ld", "ht-ld", "lt-hd", "ht-hd")
FRAME_BYTES = 50  # IPv4, UDP, header and tag of Continuo


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


def sent(directory):
    """(class, way, configuration of who sent, [counters]) of all that carried packets."""
    for name in CLASSES:
        for way, config, files in (("up", "cnapt.toml", ["cnapt.json"]), ("down", "snapt1.toml", ["snapt1.json", "snapt2.json"])):
            counts = [load(directory, one)["classes"].get(name, {}) for one in files]
            if any(one.get("packets") for one in counts):
                yield name, way, config, counts


def setting(directory, config, name, key):
    with open(os.path.join(directory, config), "rb") as stream:
        return tomllib.load(stream).get("class", {}).get(name, {}).get(key)


def total(counts, key):
    return sum(one.get(key) or 0 for one in counts)


def savings(directory):
    rows = []
    for name, way, _, counts in sent(directory):
        rows.append([name, way, *(total(counts, key) for key in ("inner_bytes", "wire_bytes", "packets", "datagrams"))])
    rows.append(["all", "", *(sum(row[i] for row in rows) for i in range(2, 6))])
    table("saved per class", ("class", "direction", "inner bytes", "on the wire", "bytes saved", "of inner", "packets", "frames", "frames saved"),
          [(name, way, inner, wire, inner - wire, f"{100 * (inner - wire) / inner:.1f} %", packets, frames, packets - frames)
           for name, way, inner, wire, packets, frames in rows])
    print(f"  Each frame adds {FRAME_BYTES} bytes: small packets that travel alone cost more than without Continuo. Text is compressed to\n"
          "  about half; encrypted and other incompressible data saves nothing and costs its frames.")


def holds(directory):
    rows = []
    for name, way, config, counts in sent(directory):
        # Settings that a file omits have the values of `snapt init`: both daemons have the same defaults.
        hold = setting(directory, config, name, "hold_ms") or setting(directory, "snapt1.toml", name, "hold_ms")
        waited = (max(one.get(key) or 0 for one in counts) for key in ("queue_ms_p50", "queue_ms_p99"))
        packets, frames, alone, by_time = (total(counts, key) for key in ("packets", "datagrams", "packets_alone", "sent_by_timeout"))
        rows.append((name, way, f"{hold:g}", *(f"< {ms:g}" for ms in waited), by_time, packets - alone, packets - frames,
                     (packets - frames) * FRAME_BYTES))
    table("hold time: what it costs in waiting, and saves in frames",
          ("class", "direction", "hold, ms", "median wait, ms", "99th percentile, ms", "held to its end", "packets sharing a frame", "frames saved",
           "bytes saved"), rows)
    print("  A packet is held only while another is expected within the hold time. Those of a call, a ping or keystrokes leave at once.")


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
        if len(words) >= 3:
            rows.append((flow, *(f"{number:.1f}" for number in (usual_silence(directory, flow), *map(float, words[:2])))))
        else:
            rows.append((flow, "", "no answer", ""))
    table("handover gap: longest silence around the move, ms", ("flow", "median gap", "longest gap", "outage of the link"), rows)


def usage(directory):
    rows = []
    for number in (1, 2):
        for row in load(directory, f"usage{number}.json")["rows"]:
            rows.append((row["user"], row["class"], f"zrh-{number}", row["flows"], row["inner_up"], row["inner_down"], row["pre"],
                         row["post"], row["saved"]))
    table("usage", ("user", "class", "SNAPT", "flows", "inner up", "inner down", "as packets", "as sent", "saved"), rows)


def denarii(micro):
    return f"{'-' if micro < 0 else ''}{abs(micro) // 1000000}.{abs(micro) % 1000000:06}"


def bill(directory):
    """Payload, as quotas and prices have it: bytes of the usage table are those of packets."""
    rows = []
    for number in (1, 2):
        used = load(directory, f"bill{number}.json")["rows"]
        rows.append([f"zrh-{number}", sum(row["payload_up"] + row["payload_down"] for row in used),
                     *(sum(row[key] for row in used) for key in ("saved", "gross_ud", "discount_ud", "net_ud"))])
    rows.append(["both", *(sum(row[i] for row in rows) for i in range(1, 6))])
    table("alice's bill in denarii, by the example price plan", ("SNAPT", "payload bytes", "bytes saved", "charge", "discount", "to pay"),
          [(*row[:3], *map(denarii, row[3:])) for row in rows])
    print("  To print: build/demo/statement-zrh-1.html, build/demo/statement-zrh-2.html")


def main():
    for show in (bill,) if sys.argv[2:] == ["bill"] else (flows, savings, holds, gaps, usage):
        try:
            show(sys.argv[1])
        except (OSError, KeyError, TypeError, ValueError) as error:
            print(f"\n{show.__name__}: no report ({error!r})")


if __name__ == "__main__":
    main()
