"""Which threads a program consists of, by what the kernel has recorded of their beginnings and ends.

/proc does not say whose descendant a process is whose parent has ended; the records do, and when each was started.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from pinprof.collect.native import existing
from pinprof.data import perf_format as perf

_TASK = struct.Struct("<IIIIQ")
"""`u32 pid, ppid, tid, ptid; u64 time` (perf_event.h, PERF_RECORD_FORK and PERF_RECORD_EXIT)."""
_PIECE = 1 << 20


class Tasks:
    """Reads the records that a file holds so far; `written` first empties the rings, and tells where records end."""

    def __init__(self, processes: Iterable[int], file: str, start: int, written: Callable[[], int]) -> None:
        """`processes`: those that were there before."""
        self._path, self._place, self._written = file, start, written
        self._alive = {thread: 0 for process in processes for thread in existing.threads(process)}

    def alive(self) -> list[int]:
        """Every thread, ascending."""
        for _ in self._read():
            pass
        return sorted(self._alive)

    def since(self) -> list[tuple[int, int, int]]:
        """Threads that have begun since the last look, by whom, and when (CLOCK_MONOTONIC); some may have ended."""
        return [begun for begun in self._read() if begun[0] in self._alive]

    def _read(self) -> Iterator[tuple[int, int, int]]:
        end = self._written()
        with open(self._path, "rb", buffering=_PIECE) as file:  # noqa: PTH123 - a buffer of this size
            file.seek(self._place)
            while self._place + perf.RECORD_HEADER.size <= end:
                kind, _, size = perf.RECORD_HEADER.unpack(file.read(perf.RECORD_HEADER.size))
                assert size >= perf.RECORD_HEADER.size, "a record that the kernel made"
                body = file.read(size - perf.RECORD_HEADER.size)
                self._place += size
                if kind not in (perf.RECORD_FORK, perf.RECORD_EXIT) or len(body) < _TASK.size:
                    continue
                _, _, thread, parent, when = _TASK.unpack_from(body)
                if kind == perf.RECORD_EXIT:
                    self._alive.pop(thread, None)
                else:
                    self._alive[thread] = when
                    yield thread, parent, when
