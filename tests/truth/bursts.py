"""A program that works in bursts, with eight threads and many short children, for the truth of long recordings.

usage: python bursts.py SECONDS CHILDREN_A_SECOND

It begins when a line comes on its standard input. Each thread repeats bursts of its own kind of work and rests between
them; all rest together as well, a third of the time.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

BURST_S, REST_S = 0.2, 0.1
_BLOCK = os.urandom(1 << 20)
_PAGES = 8 << 20


def touch() -> None:
    """New memory, each page of it written."""
    with mmap.mmap(-1, _PAGES) as fresh:
        for at in range(0, _PAGES, mmap.PAGESIZE):
            fresh[at] = 1


def read() -> None:
    """A file of which the pages are cached."""
    with Path(sys.executable).open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def wait() -> None:
    """Short sleeps."""
    for _ in range(20):
        time.sleep(0.0005)


def count() -> None:
    """Python's own work."""
    sum(range(20_000))


WORK: tuple[Callable[[], object], ...] = (
    touch, touch, read, wait, wait, count, lambda: hashlib.sha256(_BLOCK).digest(), lambda: zlib.crc32(_BLOCK),
)  # fmt: skip


def main(seconds: float, children: float) -> None:
    """Run for so long, with so many children a second."""
    sys.stdin.readline()
    end = time.monotonic() + seconds

    def repeat(work: Callable[[], object]) -> None:
        while (now := time.monotonic()) < end:
            if now % (BURST_S + REST_S) < BURST_S:
                work()
            else:
                time.sleep(0.01)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in WORK]
    for thread in threads:
        thread.start()
    due = time.monotonic()
    begun = 0
    while time.monotonic() < end:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        begun += 1
        due += 1 / children
        time.sleep(max(due - time.monotonic(), 0))
    for thread in threads:
        thread.join()
    print(begun, flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
