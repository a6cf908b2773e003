"""Loops over numbers and a dictionary in pure Python."""

import time

begun = time.monotonic()
counts = {}
for i in range(6_000_000):
    key = i * i % 1009
    counts[key] = counts.get(key, 0) + 1
print("seconds", time.monotonic() - begun, max(counts.values()))
