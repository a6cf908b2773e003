"""A worker returns arrays of 32 MiB: each is pickled, copied through a pipe, and made again in the parent."""

import multiprocessing
import sys
import time
from multiprocessing import shared_memory

import numpy as np

CURED = "cured" in sys.argv
COUNT, STEPS = 4 << 20, 12


def attach(name):
    global block
    block = shared_memory.SharedMemory(name)


def work(step):
    result = np.ndarray(COUNT, np.float64, block.buf) if CURED else np.empty(COUNT)
    result[:] = step
    return None if CURED else result


shared = shared_memory.SharedMemory(create=True, size=8 * COUNT)
with multiprocessing.get_context("fork").Pool(1, attach, (shared.name,)) as pool:
    total, begun = 0.0, time.monotonic()
    for step in range(STEPS):
        result = pool.apply(work, (step,))  # GUILTY
        total += (np.ndarray(COUNT, np.float64, shared.buf) if CURED else result).sum()
    print("seconds", time.monotonic() - begun, total)
shared.close()
shared.unlink()
