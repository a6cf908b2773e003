"""Starts a helper with fork in every step, and goes on writing to a large table while the helper lives."""

import multiprocessing
import sys
import time

import numpy as np

CURED = "cured" in sys.argv
STEPS, SIZE = 6, 48 << 20
context = multiprocessing.get_context("fork")
table = np.zeros(SIZE, np.float32)


def helper(orders):
    while orders.get() is not None:
        pass


orders = context.SimpleQueue()
if CURED:  # one helper, from before the table has pages
    context.Process(target=helper, args=(orders,), daemon=True).start()
table[:] = 1
begun = time.monotonic()
for step in range(STEPS):
    if not CURED:
        child = context.Process(target=helper, args=(orders,), daemon=True)
        child.start()  # GUILTY
    orders.put(step)
    table += 1  # GUILTY
    if not CURED:
        orders.put(None)
        child.join()
print("seconds", time.monotonic() - begun, table[-1])
