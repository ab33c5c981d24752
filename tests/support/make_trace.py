#!/usr/bin/env python3
"""A made-up capacity of a cellular link while driving: make_trace.py SEED SECONDS. Each line is a millisecond at which one packet of
1500 bytes can be delivered, as in the traces of Mahimahi (Winstein et al., NSDI 2013); it repeats.

The rate drifts around a mean (an Ornstein-Uhlenbeck process of its logarithm), packets come in a Poisson process in slots of 5 ms, and
silences of up to two seconds interrupt it, most of them short. The figures are near those of the recorded traces
Verizon-EVDO-driving and TMobile-UMTS-driving: about 100 packets a second, seconds of 0 to 230 and more, and in many half minutes a
silence of more than a second."""
import math
import random
import sys

SLOT_MS = 5
MEAN = 90  # packets a second
PULL, SPREAD = 0.15, 0.4  # of the logarithm of the rate, each second
SILENCES = 1 / 6  # a second
LONGEST_MS = 1900


def poisson(source, mean):
    """Knuth's method; the means are small."""
    bound, count, product = math.exp(-mean), 0, source.random()
    while product > bound:
        count += 1
        product *= source.random()
    return count


def silence_ms(source):
    return min(LONGEST_MS, 60 * source.paretovariate(0.8))


def make(seed, seconds):
    source = random.Random(seed)
    drift, silent_until = 0.0, 0.0
    for second in range(seconds):
        drift += -PULL * drift + SPREAD * source.gauss(0, 1)
        rate = MEAN * math.exp(drift)
        for slot in range(second * 1000, (second + 1) * 1000, SLOT_MS):
            if source.random() < SILENCES * SLOT_MS / 1000:
                silent_until = max(silent_until, slot + silence_ms(source))
            if slot >= silent_until:
                for _ in range(poisson(source, rate * SLOT_MS / 1000)):
                    yield slot + source.randrange(1, SLOT_MS + 1)


if __name__ == "__main__":
    print("\n".join(map(str, sorted(make(int(sys.argv[1]), int(sys.argv[2]))))))
