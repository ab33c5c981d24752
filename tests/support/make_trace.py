#!/usr/bin/env python3
"""A made-up capacity of a cellular link while driving: make_trace.py SEED SECONDS [MOST]. Each line is a millisecond at which one packet of
1500 bytes can be delivered, as in the traces of Mahimahi (Winstein et al., NSDI 2013); it repeats.

The rate drifts around a mean (an Ornstein-Uhlenbeck process of its logarithm) up to what a good place gives, packets come in a
Poisson process in slots of 5 ms, and silences of up to two seconds interrupt it, most of them short. In its figures it is like the
recorded traces Verizon-EVDO-driving and TMobile-UMTS-driving where e2e/driving.sh drives them: 75 to 120 packets a second, whose
deviation from second to second is half of that; a tenth to a fifth of the time in silences of 0.1 s and more, of which 0.1 to
0.2 a second last 0.3 s, and one or two a minute 1 s."""
import math
import random
import sys

SLOT_MS = 5
MEAN, MOST = 115, 250  # packets a second
PULL, SPREAD = 0.25, 0.3  # of the logarithm of the rate, each second
SILENCES = 0.4  # a second
SHORTEST_MS, LONGEST_MS = 70, 1900


def poisson(source, mean):
    """Knuth's method; the means are small."""
    bound, count, product = math.exp(-mean), 0, source.random()
    while product > bound:
        count += 1
        product *= source.random()
    return count


def silence_ms(source):
    return min(LONGEST_MS, SHORTEST_MS * source.paretovariate(1))


def make(seed, seconds, most=MOST):
    source = random.Random(seed)
    drift, silent_until = 0.0, 0.0
    for second in range(seconds):
        drift += -PULL * drift + SPREAD * source.gauss(0, 1)
        rate = min(most, MEAN * math.exp(drift))
        for slot in range(second * 1000, (second + 1) * 1000, SLOT_MS):
            if source.random() < SILENCES * SLOT_MS / 1000:
                silent_until = max(silent_until, slot + silence_ms(source))
            if slot >= silent_until:
                for _ in range(poisson(source, rate * SLOT_MS / 1000)):
                    yield slot + source.randrange(1, SLOT_MS + 1)


if __name__ == "__main__":
    print("\n".join(map(str, sorted(make(*map(int, sys.argv[1:]))))))
