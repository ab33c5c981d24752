#!/usr/bin/env python3
"""What rating/ computes, written a second time, from docs/man/plan.toml.5 alone; tests compare the two.

  price_oracle.py shipped                   the plan of packaging/config/plan.toml.example
  price_oracle.py plan SEED                 a random plan
  price_oracle.py records PLAN SEED COUNT   random records rated by the plan in that file, a line for each:
                                            class payload active_us delay_us pre post sharer multiplier gross discount net reward
                                            (delay_us is - where it is unknown)
"""
import bisect
import math
import random
import sys
import tomllib

CLASSES = ("lt-ld", "ht-ld", "lt-hd", "ht-hd")

# --- the shipped plan

X_KBPS = [0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
D_MS = [0, 20, 50, 100, 150, 200, 300, 400, 500, 700, 1000, 2000, 3000, 5000, 10000, 30000]


def logarithmic(x, scale, end):
    """Worth of throughput to a transfer, which only ever gets faster."""
    return math.log(1 + x / scale) / math.log(1 + end / scale)


def rate_adaptive(x, scale):
    """Worth of throughput to what adapts its rate, as video does (Breslau and Shenker 1998)."""
    b = x / scale
    return 1 - math.exp(-b * b / (0.62086 + b))


def voice(d):
    """Worth of delay to a call: the delay term of the E-model (Cole and Rosenbluth 2001)."""
    return max(0.0, (93.2 - 0.024 * d - 0.11 * max(0.0, d - 177.3)) / 93.2)


def lines(d, points):
    """Linear between the points, level beyond them."""
    if d <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if d < x1:
            return y0 + (y1 - y0) * (d - x0) / (x1 - x0)
    return points[-1][1]


SHIPPED = {  # token: denarii/s, worth of throughput, of delay, k_x, k_d
    "lt-ld": (0.005, lambda x: rate_adaptive(x, 10), lambda d: lines(d, [(0, 1), (100, 1), (200, .7), (500, .2), (1000, 0)]), 10, -10),
    "ht-ld": (0.020, lambda x: rate_adaptive(x, 128), voice, 100, -10),
    "lt-hd": (0.002, lambda x: logarithmic(x, 16, 65536), lambda d: lines(d, [(0, 1), (5000, 1), (30000, 0)]), 10, 0),
    "ht-hd": (0.010, lambda x: logarithmic(x, 256, 65536), lambda d: lines(d, [(0, 1), (1000, 1), (5000, .2), (30000, 0)]), 100, 0),
}

HEADER = """\
# A price plan of snapt: what its users' traffic costs, in denarii. plan.toml(5) explains it. Check it with `snapt plan check
# FILE`, add it with `snapt plan add FILE`. Made by tests/support/price_oracle.py: the utilities follow published curves,
# but k_x and k_d, and the size of everything, are placeholders until they are fitted to measurements: "calibrated".
version = 1

[plan]
name = "standard"
calibrated = false
delay_unknown_ms = 100            # of usage whose delay was not measured
p_min_denarii_per_vu = 0.0
p_max_denarii_per_vu = 1.0

[plan.discount]
basis = "saved"                   # saved | pre: bytes saved by aggregation, or all that were served
rho_denarii_per_mb = 0.25         # MB of the basis
cap = 0.5                         # largest share of a charge
sharer_share = 0.0                # must be 0: no reward is booked
"""


def numbers(values):
    return "[" + ", ".join(values) + "]"


def shipped():
    text = HEADER
    for token, (worth, of_x, of_d, k_x, k_d) in SHIPPED.items():
        text += f"\n[plan.class.{token}]\nk_x = {k_x}.0\nk_d = {k_d}.0\n"
        text += f"x_kbps = {numbers(map(str, X_KBPS))}\nd_ms = {numbers(map(str, D_MS))}\n"
        text += "u = [  # denarii/s: a row for each of x_kbps, a column for each of d_ms\n"
        for x in X_KBPS:
            text += "  " + numbers(f"{round(worth * of_x(x) * of_d(d), 9):.9f}" for d in D_MS) + ",\n"
        text += "]\n"
    return text


# --- a random plan

def rising(draw, count, least, most):
    values, value = [], draw.choice([0.0, draw.uniform(0, least)])
    for _ in range(count):
        values.append(value)
        value += max(0.002, draw.uniform(0, most / count))
    return values


def random_plan(seed):
    draw = random.Random(seed)
    p_min = draw.choice([0.0, draw.uniform(0, 1e-4)])
    text = (f'version = 1\n[plan]\nname = "random-{seed}"\ndelay_unknown_ms = {draw.uniform(0, 5000)!r}\n'
            f"p_min_denarii_per_vu = {p_min!r}\np_max_denarii_per_vu = {p_min + draw.choice([1e-5, 0.01, 1.0, 1000.0])!r}\n"
            f'[plan.discount]\nbasis = "{draw.choice(["saved", "pre"])}"\nrho_denarii_per_mb = {draw.choice([0, 0.25, 10 * draw.random()])!r}\n'
            f"cap = {draw.choice([0.0, 0.5, 1.0, draw.random()])!r}\nsharer_share = {draw.choice([0.0, 1.0, draw.random()])!r}\n")
    for token in CLASSES:
        xs = rising(draw, draw.choice([2, 3, 64, draw.randint(2, 64)]), 10, draw.choice([100, 1e5, 1e7]))
        ds = rising(draw, draw.choice([2, 3, 64, draw.randint(2, 64)]), 10, draw.choice([100, 1e4, 1e6]))
        worth = [0.0]
        for _ in xs[1:]:
            worth.append(worth[-1] + draw.choice([0.0, draw.random()]))
        left = [draw.uniform(0.1, 1)]
        for _ in ds[1:]:
            left.append(left[-1] * draw.choice([1.0, 0.0, draw.random(), draw.random()]))
        size = 10 ** draw.uniform(-4, 1)
        text += f"[plan.class.{token}]\nk_x = {10 ** draw.uniform(-2, 4)!r}\nk_d = {-draw.choice([0.0, 10 ** draw.uniform(-2, 3)])!r}\n"
        text += f"x_kbps = {xs!r}\nd_ms = {ds!r}\nu = [\n"
        text += "".join(f"{[size * w * q for q in left]!r},\n" for w in worth) + "]\n"
    return text


# --- rating

class Table:
    def __init__(self, terms):
        self.x, self.d = terms["x_kbps"], terms["d_ms"]
        self.k_x, self.k_d = terms["k_x"], terms.get("k_d", 0)
        u = terms["u"]
        self.by_d = [self.derivative(self.d, row) for row in u]
        columns = [self.derivative(self.x, [row[j] for row in u]) for j in range(len(self.d))]
        self.by_x = [[column[i] for column in columns] for i in range(len(self.x))]

    @staticmethod
    def derivative(grid, f):
        h = [b - a for a, b in zip(grid, grid[1:])]
        s = [(b - a) / w for a, b, w in zip(f, f[1:], h)]
        inner = [(h[i - 1] * s[i] + h[i] * s[i - 1]) / (h[i - 1] + h[i]) for i in range(1, len(h))]
        return [s[0], *inner, s[-1]]

    def between(self, values, x, d):
        x = min(max(x, self.x[0]), self.x[-1])
        d = min(max(d, self.d[0]), self.d[-1])
        i = min(bisect.bisect_right(self.x, x) - 1, len(self.x) - 2)
        j = min(bisect.bisect_right(self.d, d) - 1, len(self.d) - 2)
        a = (x - self.x[i]) / (self.x[i + 1] - self.x[i])
        b = (d - self.d[j]) / (self.d[j + 1] - self.d[j])
        return ((values[i][j] * (1 - a) + values[i + 1][j] * a) * (1 - b)
                + (values[i][j + 1] * (1 - a) + values[i + 1][j + 1] * a) * b)


def rate(plan, tables, record):
    token, payload, active_us, delay_us, pre, post, has_sharer, multiplier = record
    table, discount = tables[token], plan["discount"]
    x = payload * 8 / 1000 / max(active_us / 1e6, 0.001)
    d = plan["delay_unknown_ms"] if delay_us is None else delay_us / 1000
    price = table.between(table.by_x, x, d) * table.k_x + table.between(table.by_d, x, d) * table.k_d
    price = min(max(price, plan.get("p_min_denarii_per_vu", 0)), plan["p_max_denarii_per_vu"])
    gross = min(round(price * (payload * 8 / 1000 / table.k_x) * 1e6 * multiplier), 2**53)
    earned = discount["rho_denarii_per_mb"] * max(0, pre - post if discount["basis"] == "saved" else pre)
    off = min(math.floor(discount["cap"] * gross), math.floor(earned))
    reward = min(math.floor(discount["sharer_share"] * earned), gross - off) if has_sharer else 0
    return gross, off, gross - off, reward


def random_record(draw):
    payload = int(10 ** draw.uniform(0, 10)) if draw.random() < 0.99 else draw.choice([0, 1, 2**32 - 1, 2**32, 2**53 + 1])
    active_us = draw.choice([0, 1, 999, 1000, 60_000_000, int(10 ** draw.uniform(0, 9))])
    delay_us = None if draw.random() < 0.1 else draw.choice([0, int(10 ** draw.uniform(0, 8))])
    pre = int(payload * draw.uniform(1, 3)) + 40
    post = int(pre * draw.uniform(0.2, 1.3))
    return (draw.choice(CLASSES), payload, active_us, delay_us, pre, post, draw.random() < 0.3, draw.choice([1.0, 1.0, 0.0, draw.uniform(0, 10)]))


def records(path, seed, count):
    with open(path, "rb") as file:
        plan = tomllib.load(file)["plan"]
    tables = {token: Table(terms) for token, terms in plan["class"].items()}
    draw = random.Random(seed)
    for _ in range(count):
        record = random_record(draw)
        shown = ("-" if value is None else int(value) if value is True or value is False else repr(value) for value in record[1:])
        print(record[0], *shown, *rate(plan, tables, record))


def main():
    match sys.argv[1:]:
        case ["shipped"]:
            print(shipped(), end="")
        case ["plan", seed]:
            print(random_plan(int(seed)), end="")
        case ["records", path, seed, count]:
            records(path, int(seed), int(count))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
