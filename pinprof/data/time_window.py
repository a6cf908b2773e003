"""A window of time of a recording: a test's block, a scenario's measured part, and what `--after` and `--until` choose.

What belongs to a window is decided here, once, whoever chose it and whatever wrote the recording. Files of a capture
that can be divided are cut before that, so that a window's capture has little else (streams/window.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pinprof.base.columns import Bool, Int64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.host_memory import LargeMemory
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import Capture

_AnyTable = TypeVar("_AnyTable", bound=Table)

EVER_NS = 1 << 62


@dataclass(frozen=True)
class TimeWindow:
    """From a time up to another one, on the clock of a capture; without an edge as long as it was recorded."""

    start_ns: int = -EVER_NS
    end_ns: int = EVER_NS

    @property
    def edges(self) -> Int64:
        """The times at which it begins and ends."""
        return np.array([edge for edge in (self.start_ns, self.end_ns) if abs(edge) < EVER_NS], np.int64)

    def holds(self, time_ns: Int64) -> Bool:
        """Per event, whether it is in the window."""
        return (time_ns >= self.start_ns) & (time_ns < self.end_ns)

    def reaches(self, start_ns: Int64, end_ns: Int64) -> Bool:
        """Per interval, whether some of it is in the window."""
        return (start_ns < self.end_ns) & ((end_ns > self.start_ns) | (start_ns >= self.start_ns))

    def cut(self, capture: Capture) -> Capture:
        """The capture in the window. What reaches across an edge is cut there, its bytes in proportion.

        So rates stay what they were. Intervals off the CPU, which are samples, belong to where they begin.
        """
        return replace(
            self._marked(capture),
            samples=self._of(capture.samples),
            activity=capture.activity and capture.activity.each(self._of),
            host_memory=self._host_memory(capture),
            memory=capture.memory and self._memory(capture.memory),
        )

    def begun(self, capture: Capture) -> Capture:
        """The capture with the calls and the work of the GPU that begin in the window, whole.

        So what one test started is not counted for the next. Samples and memory stay as they are.
        """
        activity = capture.activity
        return replace(
            self._marked(capture),
            activity=activity and activity.each(lambda table: table.within(self.start_ns, self.end_ns)),
            host_memory=self._host_memory(capture),
        )

    def _host_memory(self, capture: Capture) -> LargeMemory | None:
        memory = capture.host_memory
        return memory and replace(memory, table=self._of(memory.table))

    def _marked(self, capture: Capture) -> Capture:
        return replace(capture, ranges=self._of(capture.ranges), marks=self._of(capture.marks))

    def _of(self, table: _AnyTable) -> _AnyTable:
        rows: Any = table
        if "end_ns" not in table.times():
            return table.within(self.start_ns, self.end_ns)
        rows = table.take(self.reaches(rows.start_ns, rows.end_ns))
        start, end = np.maximum(rows.start_ns, self.start_ns), np.minimum(rows.end_ns, self.end_ns)
        changed: dict[str, Any] = {"start_ns": start, "end_ns": np.maximum(end, start)}
        if "lived_ns" in table.times():
            changed["lived_ns"] = np.minimum(rows.lived_ns, self.end_ns)
        size = getattr(rows, "size_bytes", None)
        if size is not None:
            length = rows.end_ns - rows.start_ns
            cut = (size > 0) & (end - start < length)
            changed["size_bytes"] = np.where(cut, np.round(size * ((end - start) / np.maximum(length, 1))), size)
            changed["size_bytes"] = changed["size_bytes"].astype(size.dtype)
        return replace(rows, **changed)  # type: ignore[no-any-return]

    def _memory(self, log: MemoryLog) -> MemoryLog | None:
        """Memory over the window's time; None where nothing remains."""
        inside, processes = self.holds(log.time_ns), []
        for process in log.processes:
            seen = self.holds(process.time_ns)
            if seen.any():
                values = {name: value[seen] for name, value in process.values.items()}
                processes.append(replace(process, time_ns=process.time_ns[seen], values=values))
        if not inside.any() and not processes:
            return None
        machine = {name: value[inside] for name, value in log.machine.items()}
        return replace(log, time_ns=log.time_ns[inside], machine=machine, processes=tuple(processes))
