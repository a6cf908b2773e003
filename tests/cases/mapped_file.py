"""Maps a file anew in every step and scales the mapping in place: a page's first write copies it."""

import mmap
import sys
import tempfile
import time

import numpy as np

CURED = "cured" in sys.argv
SIZE, STEPS = 16 << 20, 16
file = tempfile.NamedTemporaryFile()
np.ones(SIZE, np.float32).tofile(file)
buffer = np.frombuffer(mmap.mmap(-1, SIZE * 4), np.float32)
buffer[:] = 1


def step():
    if CURED:
        file.seek(0)
        file.raw.readinto(buffer)
        batch = buffer
    else:
        batch = np.memmap(file.name, np.float32, "c")
    batch *= 0.5  # GUILTY
    return float(batch[-1])


begun = time.monotonic()
total = sum(step() for _ in range(STEPS))
print("seconds", time.monotonic() - begun, total)
