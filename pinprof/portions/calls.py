"""CUDA calls of a recording that goes on, cut into portions.

What a call did depends on what was granted before: a copy from a pointer is one from pinned memory where that was
allocated, perhaps in another portion. So all that is recorded between two portions is read, too, and each portion
begins with what is known of the process by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CollectError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.cuda_libraries import loaded_by
from pinprof.collect.native.calls import CallTracer
from pinprof.read.perf import cuda_calls, cuda_processes
from pinprof.read.perf.cuda_memory import NOBODY
from pinprof.read.perf.cuda_processes import Known, Process
from pinprof.read.symbols.kept import KeptSymbols
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams.records import RecordsFile, between, composed, lost
from pinprof.streams.store import CALLS_BEFORE, CALLS_DATA
from pinprof.streams.window import Window

_ANOTHER = 2**64 - 1
"""The id of no event: who reads it knows that it is not the first one's."""


@dataclass(frozen=True)
class CallsPlace:
    """How far the recording of calls goes, and what is known by then."""

    parts: CallParts
    size: int
    lost: tuple[int, int]
    """Records that show memory, and the rest."""
    known: Known
    """Where a portion begins."""
    kept: int
    """How much of what is kept lies before it, there."""


class CallParts:
    """What a tracer records of this process."""

    def __init__(self, tracer: CallTracer, folder: Path, before: Mapping[int, Process] | None = None) -> None:
        """`before`: what is known of it by another tracer, which ended just now."""
        self._tracer, self._file = tracer, RecordsFile(folder / CALLS_DATA)
        self._unread = folder / f"{CALLS_DATA}.unread"
        self._symbols = KeptSymbols()
        self._pid = os.getpid()
        self._known = Known(_clock_ns(), before or {self._pid: self._running()})
        """At the last place."""

    def _running(self) -> Process:
        maps = Path(f"/proc/{self._pid}/maps").read_text("utf-8", "surrogateescape")
        return cuda_processes.running(self._pid, maps, whole=self._tracer.first)

    @property
    def processes(self) -> Mapping[int, Process]:
        """What is known of processes at the last place."""
        return self._known.processes

    @property
    def size(self) -> int:
        """Bytes of its file."""
        return self._file.size

    @property
    def kept_bytes(self) -> int:
        """How much each portion carries of what was before."""
        return len(self._file.kept)

    def begin(self) -> CallsPlace:
        """The place that the recording has reached, and what is known there; CollectError where calls are not traced.

        What was recorded since the last one is read here.
        """
        now_ns = _clock_ns()
        self._tracer.flush()
        self._known = Known(now_ns, self._after(self._file.size))
        return CallsPlace(self, self._file.gathered, self._tracer.lost_so_far(), self._known, len(self._file.kept))

    def end(self) -> CallsPlace:
        """The place that it has reached; CollectError where not all calls before it were traced."""
        self._tracer.flush()
        if others := sorted({str(path) for path in loaded_by(self._pid)} - self._tracer.files):
            raise CollectError(
                f"CUDA calls were not traced: the process has loaded {others[0]}, which pinprof did not find at the "
                "start.",
                "Name its folder in LD_LIBRARY_PATH, or load it before the first recorded test.",
                "cuda-calls",
            )
        return CallsPlace(self, self._file.size, self._tracer.lost_so_far(), NOBODY, 0)

    def write(self, target: Path, first: CallsPlace, last: CallsPlace) -> None:
        """Put what was recorded between two places into a capture."""
        path = self._file.path
        kept, records = self._file.kept[: first.kept], between(path, first.size, last.size)
        of_memory, others = (after - before for before, after in zip(first.lost, last.lost, strict=True))
        whole = composed(self._tracer.head.read_bytes(), kept, records, lost(of_memory), lost(others, _ANOTHER))
        files.written(target / CALLS_DATA, whole)
        files.written(target / CALLS_BEFORE, cuda_processes.written(first.known))

    def _after(self, place: int) -> Mapping[int, Process]:
        """What is known at a place: by what was before, and what was recorded since."""
        file = self._file
        file.begin()
        if place <= file.gathered:
            return self.processes
        head, records = self._tracer.head.read_bytes(), between(file.path, file.gathered, place)
        files.written(self._unread, composed(head, file.kept, records))
        file.keep_until(place)
        resolver = Resolver(kept=self._symbols)
        return cuda_calls.load(self._unread, resolver, before=self._known, callers=False).after


def cut(source: Path, target: Path, window: Window) -> None:
    """Cut the file of calls by a window at both ends of which they were traced."""
    first, last = (mark.noted.get(source.name) for mark in (window.begin, window.end))
    if first and last:
        first.parts.write(target.parent, first, last)


def _clock_ns() -> int:
    """Now, also where a test has stopped `time.monotonic`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
