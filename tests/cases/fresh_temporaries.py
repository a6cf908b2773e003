"""An expression makes temporary arrays of 3 MiB in every step; NumPy asks for huge pages from 4 MiB on only."""

import sys
import time

import numpy as np

CURED = "cured" in sys.argv
SIZE, STEPS = 768 << 10, 250
a, b, c = (np.full(SIZE, value, np.float32) for value in (1, 2, 3))
one, two, three = (np.ones_like(a) for _ in range(3))


def step():
    if CURED:
        np.multiply(a, b, out=one)
        np.multiply(b, c, out=two)
        np.multiply(c, a, out=three)
        return np.add(np.add(one, two, out=one), three, out=one)
    return (a * b) + (b * c) + (c * a)  # GUILTY


begun = time.monotonic()
total = sum(float(step()[-1]) for _ in range(STEPS))
print("seconds", time.monotonic() - begun, total)
