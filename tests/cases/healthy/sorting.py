"""Sorts one array repeatedly, in place."""

import time

import numpy as np

random = np.random.default_rng(1)
values = np.empty(1 << 21)
begun = time.monotonic()
for _ in range(8):
    random.random(out=values)
    values.sort()
print("seconds", time.monotonic() - begun)
