"""The ring that the kernel fills with records: one per CPU, read in place, without a look inside.

The first page is `struct perf_event_mmap_page`; the kernel writes `data_head` after the records before it, the reader
writes `data_tail` after it is done with them. Both only grow; a place in the ring is their remainder. Because a head
always stands between two records, everything between tail and head can go to a file as it is.

Source: `include/uapi/linux/perf_event.h` (perf_event_mmap_page), `kernel/events/ring_buffer.c` (perf_output_put_handle:
which barriers pair with which).
"""

from __future__ import annotations

import errno
import mmap
import threading
from collections.abc import Sequence

from pinprof.collect.native import perf_event

_DATA_HEAD, _DATA_TAIL, _DATA_OFFSET = 1024 // 8, 1032 // 8, 1040 // 8
"""Words of the first page."""


class Ring:
    """The mapped ring of one event; other events of its CPU may share it."""

    def __init__(self, file: int, data_bytes: int) -> None:
        """Map a ring of `data_bytes` (a power of two of pages); OSError EPERM when so much may not be locked."""
        self.file = file
        self.data_bytes = data_bytes
        self._memory = mmap.mmap(file, mmap.PAGESIZE + data_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        whole = memoryview(self._memory)
        page = whole[: mmap.PAGESIZE]
        self._words = page.cast("Q")
        # Kernels before 4.1 leave the offset 0; it is one page in all.
        start = self._words[_DATA_OFFSET] or mmap.PAGESIZE
        self._data = whole[start : start + data_bytes]
        self._views = (self._data, self._words, page, whole)
        self._tail = self._words[_DATA_TAIL]
        self._head = self._tail

    @property
    def waiting_bytes(self) -> int:
        """How much the kernel has written since the last `release`."""
        return self._words[_DATA_HEAD] - self._tail

    def pending(self) -> list[memoryview]:
        """What the kernel has written since the last `release`, in one piece or, at the ring's end, in two."""
        head = self._words[_DATA_HEAD]
        if head == self._tail:
            return []
        _barrier()  # the records are read after the head that covers them
        self._head = head
        begin, end = self._tail % self.data_bytes, head % self.data_bytes
        if begin < end:
            return [self._data[begin:end]]
        return [piece for piece in (self._data[begin:], self._data[:end]) if piece.nbytes]

    def release(self) -> None:
        """Give the room of what `pending` returned back to the kernel."""
        if self._head != self._tail:
            _barrier()  # the records have been read before the kernel may write over them
            self._tail = self._words[_DATA_TAIL] = self._head

    def close(self) -> None:
        """Unmap the ring; nothing that `pending` returned may be in use any more."""
        for view in self._views:
            view.release()
        self._memory.close()


_lock = threading.Lock()
_lock.acquire()


def _barrier() -> None:
    """Keep the processor from moving memory accesses across this call.

    Giving a lock back is a store with release semantics, taking it a load with acquire semantics, and those two stay in
    order: nothing passes the pair. x86 needs less; on Arm this is what perf's `smp_rmb` and `smp_mb` stand for.
    """
    _lock.release()
    _lock.acquire()


def map_rings(files: Sequence[int], wanted_bytes: int, least_bytes: int) -> list[Ring]:
    """A ring for each event, all of the wanted size or, where so much may not be locked, of the largest size that may.

    What may be locked is counted over all of them. OSError of the last attempt when not even `least_bytes` are
    available.
    """
    size = wanted_bytes
    while True:
        rings: list[Ring] = []
        try:
            for file in files:
                rings.append(Ring(file, size))  # noqa: PERF401 - those mapped so far are given back below
        except OSError as error:
            for ring in rings:
                ring.close()
            if error.errno not in (errno.EPERM, errno.ENOMEM) or size // 2 < least_bytes:
                raise
            size //= 2
        else:
            return rings


def share(files: list[int], ring: Ring) -> None:
    """Let all these events write into one ring."""
    for file in files:
        if file != ring.file:
            perf_event.share_ring(file, ring.file)
