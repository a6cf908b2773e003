"""Times that no clock shows: sums and differences of forged ones would overflow, so they count as the last possible."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from pinprof.base.columns import Int64, Table, extent
from pinprof.base.units import format_counted
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import LATEST_NS, Capture, SampleTable

_Table = TypeVar("_Table", bound=Table)


def with_possible_times(capture: Capture) -> Capture:
    """The capture with all times between -LATEST_NS and LATEST_NS, and a note where some were not."""
    bounds = _Bounds()
    activity = capture.activity
    changed = replace(
        capture,
        samples=_ended(bounds.of(capture.samples), np.array([event.spans for event in capture.events], np.bool_)),
        ranges=bounds.of(capture.ranges),
        marks=bounds.of(capture.marks),
        wakeups=None if capture.wakeups is None else bounds.of(capture.wakeups),
        exits=bounds.of(capture.exits),
        memory=None if capture.memory is None else bounds.of_memory(capture.memory),
        activity=activity and activity.each(bounds.of),
        traced=capture.traced and with_possible_times(capture.traced),
    )
    if not bounds.beyond:
        return changed
    times = format_counted(bounds.beyond, "time lies", "times lie")
    return changed.with_notes(f"{times} beyond 73 years, which no clock shows, and count as 73 years.")


class _Bounds:
    """Puts times within the bounds, and counts those that were not."""

    def __init__(self) -> None:
        self.beyond = 0

    def of(self, table: _Table) -> _Table:
        """The same table where all its times are possible."""
        times = table.times()
        changed = {name: self.column(column) for name, column in times.items()}
        same = all(changed[name] is column for name, column in times.items())
        return table if same else replace(table, **changed)

    def of_memory(self, log: MemoryLog) -> MemoryLog:
        """What was looked at over time."""
        processes = tuple(replace(process, time_ns=self.column(process.time_ns)) for process in log.processes)
        return replace(log, time_ns=self.column(log.time_ns), processes=processes, pages=self.of(log.pages))

    def column(self, times: Int64) -> Int64:
        """The same column where all its times are possible."""
        first, last = extent(times)
        if first >= -LATEST_NS and last <= LATEST_NS:
            return times
        self.beyond += int(np.count_nonzero((times < -LATEST_NS) | (times > LATEST_NS)))
        return np.clip(times, -LATEST_NS, LATEST_NS)


def _ended(samples: SampleTable, spans: np.ndarray) -> SampleTable:
    """Samples whose weight is the time that they last, which ends at a possible time."""
    if not spans.any() or int(samples.weight.max(initial=0)) <= LATEST_NS:
        return samples
    last = np.where(spans[samples.event], LATEST_NS - samples.time_ns, samples.weight)
    return replace(samples, weight=np.minimum(samples.weight, last))
