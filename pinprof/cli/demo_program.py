"""A small program with a known problem: each step makes new arrays, and the kernel makes new memory for all of them.

`python pinprof-demo.py reuse` runs it with the cure: arrays that are made once, and filled in each step.
"""

import sys
import time

import numpy as np

SIZE, STEPS = 768 << 10, 250
prices, amounts, rates = (np.full(SIZE, value, np.float32) for value in (1, 2, 3))
first, second = np.empty_like(prices), np.empty_like(prices)


def step() -> float:
    """One step, with new arrays."""
    total = (prices * amounts) + (amounts * rates) + (rates * prices)
    return float(total[-1])


def reusing_step() -> float:
    """The same step, with the same arrays each time."""
    np.multiply(prices, amounts, out=first)
    np.add(first, np.multiply(amounts, rates, out=second), out=first)
    np.add(first, np.multiply(rates, prices, out=second), out=first)
    return float(first[-1])


if __name__ == "__main__":
    begun = time.monotonic()
    chosen = reusing_step if "reuse" in sys.argv else step
    result = sum(chosen() for _ in range(STEPS))
    print(f"{STEPS} steps take {time.monotonic() - begun:.2f} s; the result is {result:,.0f}.")
