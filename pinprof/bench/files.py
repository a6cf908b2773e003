"""Files in memory: reading one, touching its mapping, and the copies that private mappings of it make.

They are memfds: pages of the page cache without a disk beneath, so that no value waits for one.
"""

from __future__ import annotations

import mmap
import os
import weakref

import numpy as np

from pinprof.base.errors import ScenarioError
from pinprof.bench.timers import ALONE, Timer, fresh, repeated

_PAGE = os.sysconf("SC_PAGESIZE")


class _File:
    """A file in memory, all of whose pages exist; it ends with the object."""

    def __init__(self, size_bytes: int, value: float = 1.0) -> None:
        self.number = os.memfd_create("pinprof-bench", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.number)
        self.size_bytes = size_bytes
        os.ftruncate(self.number, size_bytes)
        with self.mapping(mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as whole:
            np.frombuffer(whole, np.float32, size_bytes // 4).fill(value)

    def mapping(self, flags: int, access: int) -> mmap.mmap:
        """A new mapping of all of it."""
        return mmap.mmap(self.number, self.size_bytes, flags=flags, prot=access)


def read_whole(size_bytes: int, value: float) -> Timer:
    """read() of all of it into one buffer, whose pages exist."""
    file = _File(size_bytes, value)
    target = np.full(size_bytes // 4, value + 1, np.float32)
    buffer = target.data.cast("B")

    def read() -> None:
        done = 0
        # Linux reads 2 GiB less a page at a time at most.
        while done < len(buffer):
            done += os.preadv(file.number, [buffer[done:]], done)

    def check(_calls: int) -> None:
        if not (target == np.float32(value)).all():
            raise ScenarioError(
                "Reading a file from memory returned wrong data.", "Check the memory of this machine.", "wrong-result"
            )

    return repeated(read, check, clock=ALONE)


def map_touched(size_bytes: int) -> Timer:
    """One read in every page of a new mapping; the kernel maps pages around each that is touched."""
    file = _File(size_bytes)
    return fresh(lambda: file.mapping(mmap.MAP_SHARED, mmap.PROT_READ), _read_pages, mmap.mmap.close, clock=ALONE)


def copied_on_write(size_bytes: int) -> Timer:
    """One write in every page of a private mapping that has been read: what a forked child pays that writes."""
    file = _File(size_bytes)

    def make() -> mmap.mmap:
        mapping = file.mapping(mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        _read_pages(mapping)
        return mapping

    return fresh(make, _write_pages, mmap.mmap.close, clock=ALONE)


def _read_pages(mapping: mmap.mmap) -> None:
    np.frombuffer(mapping, np.uint8)[::_PAGE].max()


def _write_pages(mapping: mmap.mmap) -> None:
    np.frombuffer(mapping, np.uint8)[::_PAGE] = 1
