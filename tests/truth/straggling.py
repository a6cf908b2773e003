"""A rank of a job whose steps end at a meeting; one rank does more before each, in one of four ways. See launches.py.

usage: python straggling.py gloo|mpi cpu|faults|pins|disk|nothing RANK STEPS FOLDER

Started by torchrun or mpirun. RANK is the one that does more, but not in the first steps, which nothing measures.
`FOLDER/NUMBER.json` says when this rank came to each later meeting, how long all these steps took (CLOCK_MONOTONIC),
and the processor time of its threads meanwhile (ns).
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZE = 16 << 20
SETUP, REGISTER, REGISTER_BUFFERS, UNREGISTER_BUFFERS = 425, 427, 0, 1
"""io_uring_setup(2), io_uring_register(2)."""
libc = ctypes.CDLL(None, use_errno=True)
_WARM, _PINS = 5, 6


class More:
    """What the late rank does more, a method for each way; its heaviest line ends in GUILTY."""

    def __init__(self, folder: Path) -> None:
        path = folder / f"random-{os.getpid()}.bin"
        path.write_bytes(os.urandom(SIZE))
        self._file = os.open(path, os.O_RDONLY)
        os.fsync(self._file)
        path.unlink()
        self._places = random.Random(7)
        self._numbers = np.random.default_rng(7).random(150_000)
        self._memory = mmap.mmap(-1, 4 * SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.write(b"\1" * len(self._memory))
        self._vector = (ctypes.c_void_p * 2)(
            ctypes.addressof(ctypes.c_char.from_buffer(self._memory)), len(self._memory)
        )
        self._ring = libc.syscall(SETUP, 1, ctypes.create_string_buffer(120))

    def cpu(self) -> None:
        """It sorts numbers."""
        np.sort(self._numbers)  # GUILTY

    def faults(self) -> None:
        """It touches new memory."""
        np.frombuffer(mmap.mmap(-1, SIZE), np.uint8)[:: mmap.PAGESIZE].copy()  # GUILTY

    def pins(self) -> None:
        """The kernel pins memory."""
        for _ in range(_PINS):
            libc.syscall(REGISTER, self._ring, REGISTER_BUFFERS, self._vector, 1)  # GUILTY
            libc.syscall(REGISTER, self._ring, UNREGISTER_BUFFERS, None, 0)

    def disk(self) -> None:
        """It reads a file from the disk."""
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(self._file, SIZE // 2, self._places.randrange(SIZE // 2) & -mmap.PAGESIZE)  # GUILTY

    def nothing(self) -> None:
        """It does what the others do."""


def meeting(library: str) -> tuple[int, Callable[[], object], Callable[[], object]]:
    """(rank, how it meets the others, how it ends)."""
    if library == "gloo":
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        distributed.init_process_group("gloo")
        gradient = torch.ones(1000)
        return distributed.get_rank(), lambda: distributed.all_reduce(gradient), distributed.destroy_process_group
    from mpi4py import MPI

    mine, sums = np.ones(1000), np.empty(1000)
    return MPI.COMM_WORLD.rank, lambda: MPI.COMM_WORLD.Allreduce(mine, sums), MPI.Finalize


def main() -> None:
    """Steps."""
    library, way, late, steps, folder = *sys.argv[1:4], int(sys.argv[4]), Path(sys.argv[5])
    rank, meet, end = meeting(library)
    ways = More(folder)
    more = getattr(ways, way if rank == int(late) else "nothing")
    batch = np.random.default_rng(rank).random((120, 120))

    def step(more: Callable[[], None]) -> int:
        for _ in range(4):
            batch @ batch
        more()
        came = time.monotonic_ns()
        meet()
        return came

    for _ in range(_WARM):
        step(ways.nothing)
    begun, used = time.monotonic_ns(), time.process_time_ns()
    came = [step(more) for _ in range(steps)]
    took, used = time.monotonic_ns() - begun, time.process_time_ns() - used
    (folder / f"{rank}.json").write_text(json.dumps({"came": came, "took": took, "used": used}))
    end()


if __name__ == "__main__":
    main()
