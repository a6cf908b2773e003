"""A loop of short steps, a few of which stall for 200 ms, each in one of six ways; run by stalls.py, as root.

usage: python -m tests.truth.stalling FOLDER TIMES

`stalls.json` in FOLDER says afterwards which kind each was, and from when to when (CLOCK_MONOTONIC). A kind is the name
of its method. The program runs before all others of its processor, which would make stalls of their own.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import sys
import threading
import time
from pathlib import Path

import pinprof

STALL_S, APART_S, STEP_S = 0.2, 4.0, 0.02
SIZE, PIECE = 256 << 20, 64 << 10
SETUP, REGISTER, REGISTER_BUFFERS, UNREGISTER_BUFFERS = 425, 427, 0, 1
"""io_uring_setup(2), io_uring_register(2)."""
libc = ctypes.CDLL(None, use_errno=True)


class Stalls:
    """What stalls need, and a method for each kind."""

    def __init__(self, folder: Path) -> None:
        path = folder / "random.bin"
        with path.open("wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        self._file = os.open(path, os.O_RDONLY)
        self._mapped = mmap.mmap(self._file, SIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        self._mapped.madvise(mmap.MADV_RANDOM)  # no page is read before it is touched
        path.unlink()
        self._places = random.Random(7)
        memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.write(b"\1" * SIZE)
        self._vector = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.c_char.from_buffer(memory)), SIZE)
        self._ring = libc.syscall(SETUP, 1, ctypes.create_string_buffer(120))
        self._compact = os.open("/proc/sys/vm/compact_memory", os.O_WRONLY)
        self.compaction()  # the first one takes longer
        self._lock, self._asked, self._held = threading.Lock(), threading.Event(), threading.Event()
        self._wake = neighbour()
        threading.Thread(target=self._hold, name="holder", daemon=True).start()

    def prepare(self) -> None:
        """What is read next lies on the disk."""
        self._mapped.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def pin(self) -> None:
        """The kernel pins memory again and again."""
        until = time.thread_time() + STALL_S
        while time.thread_time() < until:
            libc.syscall(REGISTER, self._ring, REGISTER_BUFFERS, self._vector, 1)
            libc.syscall(REGISTER, self._ring, UNREGISTER_BUFFERS, None, 0)

    def compaction(self) -> None:
        """The kernel moves pages, to have free ones beside each other."""
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:
            os.pwrite(self._compact, b"1", 0)

    def lock(self) -> None:
        """Another thread has the lock."""
        self._asked.set()
        self._held.wait()
        with self._lock:
            self._held.clear()

    def disk(self) -> None:
        """A file is read from the disk."""
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:
            os.pread(self._file, PIECE, self._far())

    def fault(self) -> None:
        """Pages of a file are read from the disk when they are touched."""
        until = time.monotonic() + STALL_S
        while time.monotonic() < until:
            self._mapped[self._far()]

    def neighbour(self) -> None:
        """Another process has the processor, when this has run for two looks at Python's frames."""
        until, woken = time.thread_time() + 2 * STEP_S, False
        while time.thread_time() < until:
            sum(range(1000))
            if not woken and time.thread_time() > until - STEP_S:
                woken = bool(os.write(self._wake, b"."))

    def _far(self) -> int:
        return self._places.randrange(SIZE // PIECE) * PIECE

    def _hold(self) -> None:
        while self._asked.wait():
            self._asked.clear()
            with self._lock:
                self._held.set()
                time.sleep(STALL_S)


KINDS = ("pin", "compaction", "lock", "disk", "fault", "neighbour")


def neighbour() -> int:
    """Where a byte is to be written to have another process take this one's processor for 200 ms."""
    processor = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
        while os.read(read, 1):
            compute(STALL_S)
        os._exit(0)
    os.close(read)
    return write


def compute(length_s: float) -> None:
    """As long by the clock of this thread."""
    until = time.thread_time() + length_s
    while time.thread_time() < until:
        sum(range(1000))


def main() -> None:
    """Steps, the first stall when a window is full."""
    folder, times = Path(sys.argv[1]), int(sys.argv[2])
    stalls, told = Stalls(folder), []
    for number in range(times):
        kind = KINDS[number % len(KINDS)]
        due = time.monotonic() + APART_S
        while time.monotonic() < due:
            with pinprof.phase("step"):
                compute(STEP_S / 10)
            time.sleep(STEP_S)
        stalls.prepare()
        began = time.monotonic_ns()
        with pinprof.phase("step"):
            getattr(stalls, kind)()
        told.append((kind, began, time.monotonic_ns()))
    time.sleep(APART_S)
    (folder / "stalls.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
