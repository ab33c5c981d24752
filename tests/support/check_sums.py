#!/usr/bin/env python3
"""check_sums.py DOM: whether the figures of the page agree, as a browser has it (chromium --dump-dom). Payload of users, of classes
and of days add up to the sum (to what rounding to three digits allows), and what is charged less the discount is to pay, in each
row and in all. Each fault is a line, and fails."""
import decimal
import re
import sys

from check_page import Tree

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
ROUNDING = 0.005  # of a figure of three digits
CAPTIONS = ("Usage by day", "Usage by class", "Usage by user")


def octets(text):
    number, unit = re.match(r"(−?[0-9.]+) (\w+)", text).groups()
    return float(number.replace("−", "-")) * UNITS[unit]


def money(text):
    return decimal.Decimal(text.replace("−", "-"))


def rows_of(root, caption):
    for table in (node for node in root.all() if node.tag == "table"):
        if any(node.tag == "caption" and node.words() == caption for node in table.all()):
            lines = [[cell.words() for cell in line.children] for line in table.all() if line.tag == "tr"]
            return [dict(zip(lines[0], line)) for line in lines[1:]]
    return []


def faults(root):
    terms = [node.words() for node in root.all() if node.tag == "dt"]
    sums = dict(zip(terms, (node.words() for node in root.all() if node.tag == "dd")))
    payload = octets(sums["Payload"])
    if money(sums["Charged, denarii"]) - money(sums["Discount"]) != money(sums["To pay"]):
        yield f"sums: {sums}"
    if money(sums["To pay"]) <= 0:
        yield "nothing is to pay"
    for caption in CAPTIONS:
        rows = rows_of(root, caption)
        if len(rows) < 2:
            yield f"{caption}: {len(rows)} rows"
            continue
        have = sum(octets(row["up"]) + octets(row["down"]) for row in rows)
        if abs(have - payload) > 2 * ROUNDING * payload:
            yield f"{caption}: {have:.0f} bytes, not {payload:.0f}"
        for row in rows:
            if money(row["charged"]) - money(row["discount"]) != money(row["to pay"]):
                yield f"{caption}: {row}"
        for column, name in (("charged", "Charged, denarii"), ("discount", "Discount"), ("to pay", "To pay")):
            if sum(money(row[column]) for row in rows) != money(sums[name]):
                yield f"{caption}: {column} is not {sums[name]}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = list(faults(Tree(file.read()).root))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
