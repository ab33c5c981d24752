#!/usr/bin/env python3
"""gaps.py ARRIVALS MOVES: for each move (a line "BEGAN DONE") the longest silence among the arrivals (first column)
around it, in ms, and when it began and ended: "SILENCE LINK_OUTAGE BEYOND FROM TO". The last line is "median" and the median
of BEYOND, the silence that the link's own outage does not explain."""
import statistics
import sys

AFTER_S = 3.0


def column(path):
    with open(path) as lines:
        return [[float(word) for word in line.split()] for line in lines if line.strip()]


def main():
    arrivals = sorted(row[0] for row in column(sys.argv[1]))
    moves = [row[:2] for row in column(sys.argv[2])]
    beyond = []
    for index, (began, done) in enumerate(moves):
        until = min(done + AFTER_S, moves[index + 1][0] if index + 1 < len(moves) else done + AFTER_S)
        silences = [(after - before, before, after) for before, after in zip(arrivals, arrivals[1:])
                    if after > began and before < until]
        if not silences:
            print("none")
            continue
        (silence, since, to), outage = max(silences), done - began
        beyond.append(max(0.0, silence - outage) * 1000)
        print(f"{silence * 1000:.1f} {outage * 1000:.1f} {beyond[-1]:.1f} {since:.6f} {to:.6f}")
    print(f"median {statistics.median(beyond):.1f}" if len(beyond) == len(moves) and beyond else "median none")


if __name__ == "__main__":
    main()
