"""A process with 512 MiB in pages of 4 KiB forks in every step, only to start another program."""

import mmap
import os
import sys
import time

CURED = "cured" in sys.argv
SIZE, STEPS = 512 << 20, 60
memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, SIZE, mmap.PAGESIZE):
    memory[page] = 1


def step():
    if CURED:
        child = os.posix_spawn("/bin/true", ["true"], os.environ)
    else:
        child = os.fork()  # GUILTY
        if not child:
            os.execv("/bin/true", ["true"])
    os.waitpid(child, 0)


begun = time.monotonic()
for _ in range(STEPS):
    step()
print("seconds", time.monotonic() - begun)
