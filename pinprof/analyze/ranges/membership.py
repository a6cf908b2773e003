"""Which samples, calls, GPU operations and faults belong to a range: the one rule that everything else follows.

- **Time**: an event belongs to the ranges open when it begins, [start, end) of the range.
- **Process**: a range counts its process, every thread of it. A range whose process is unknown (below 1), or has none
  of the events asked about (another PID namespace), counts those of all processes but idle CPUs.
- **Kernel threads** (system-wide recordings) work for whoever asked: they belong to every range open meanwhile.
- **Instances** of one path that overlap count an event once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.intervals import Intervals, batches, highest, joined_up, union, union_by_key
from pinprof.analyze.ranges.paths import RangePath, range_paths
from pinprof.base.columns import ascending, is_uniform, looked_up, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import KERNEL, Bool, Capture, Int32, Int64, RangeTable

EVERYBODY = -1
"""The owner of a range that counts all processes."""
WHOLE = 0
"""The scope that holds everything; scope n + 1 is the nth path."""

_IDLE_PID = 0
_KERNEL_THREAD_ROOTS = ("ret_from_fork", "ret_from_fork_asm", "kthread", "ret_from_kernel_thread")


@dataclass(frozen=True)
class Events:
    """What may belong to ranges, of one kind; columns of one length in any order."""

    time_ns: Int64
    pid: Int32
    kernel_thread: Bool | None = None
    """Which samples are those of kernel threads; None for all other kinds of events, where pid 0 is no idle CPU."""

    def __len__(self) -> int:
        return len(self.time_ns)

    def counted(self, owner: Int64 | int, row: Int64 | slice = slice(None)) -> Bool:
        """For each row, whether a range of this owner (one for all rows, or one each) counts it."""
        pid = self.pid[row]
        if self.kernel_thread is None:
            return np.asarray((pid == owner) | (np.asarray(owner) == EVERYBODY))
        # Outside the recorder's PID namespace kernel threads have the pid of idle CPUs.
        everybody = (np.asarray(owner) == EVERYBODY) & (pid != _IDLE_PID)
        return np.asarray((pid == owner) | everybody | self.kernel_thread[row])

    def all_counted(self, owner: Int64) -> bool:
        """Whether ranges of this owner count every row, where that is quick to see."""
        if self.kernel_thread is not None or not len(self):
            return False
        return bool((owner == EVERYBODY).all() or (is_uniform(self.pid) and (owner == self.pid[0]).all()))


def sample_events(capture: Capture) -> Events:
    """The samples of a capture."""
    return Events(capture.samples.time_ns, capture.samples.pid, kernel_threads(capture))


def kernel_threads(capture: Capture) -> Bool:
    """Per sample, whether a kernel thread took it, by the outermost frame of its stack."""
    stacks = capture.stacks
    started = np.array([symbol in _KERNEL_THREAD_ROOTS for symbol in stacks.frames.function], np.bool_)
    started &= stacks.frames.mode == KERNEL
    return looked_up(stacks.under(started, roots=True), capture.samples.stack)


def owners(ranges: RangeTable, pids: NDArray[np.integer]) -> Int64:
    """Per range, the process whose events it counts among events of the processes `pids`; EVERYBODY for all."""
    if not len(ranges):
        return np.zeros(0, np.int64)
    return np.where(np.isin(ranges.pid, pids) & (ranges.pid > _IDLE_PID), ranges.pid, EVERYBODY).astype(np.int64)


def inside(ranges: RangeTable, events: Events, chosen: Bool) -> Bool:
    """Per event, whether it belongs to any of the chosen ranges (a mask)."""
    result = np.zeros(len(events), np.bool_)
    if not chosen.any():
        return result
    owner = owners(ranges, events.pid)
    for process in ascending(owner[chosen]).tolist():
        mine = chosen & (owner == process)
        result |= union(ranges.start_ns[mine], ranges.end_ns[mine]).contains(events.time_ns) & events.counted(process)
    return result


def samples_inside(capture: Capture, chosen: Bool) -> Bool:
    """Per sample, whether it belongs to any of the chosen ranges (a mask)."""
    return inside(capture.ranges, sample_events(capture), chosen)


@dataclass(frozen=True)
class Scopes:
    """The ranges of a capture as some kind of event sees them: intervals merged so that no path counts an event twice.

    Columns of one length, ordered by path, owner and start.
    """

    paths: tuple[RangePath, ...]
    path: Int64
    """Per merged interval, the index into `paths`."""
    start_ns: Int64
    end_ns: Int64
    owner: Int64
    """The process whose events count, or EVERYBODY."""

    def __len__(self) -> int:
        return len(self.paths) + 1

    def inside(self, events: Events, first_path: int = 0) -> Iterator[tuple[Int64, Int64]]:
        """(path, row) of every event in every path it belongs to, each pair once, ascending, in batches.

        A batch holds whole paths, so that ranges which overlap without end cost time, not memory. The paths' numbers
        begin with `first_path`.
        """
        if not len(self.path):
            return
        order, low, high = self.bounds(events)
        size = np.zeros(len(self.paths), np.int64)
        np.add.at(size, self.path, high - low)
        for first, last in batches(size):
            start, end = np.searchsorted(self.path, (first, last))
            length = high[start:end] - low[start:end]
            row = joined_up(low[start:end], length)
            row = row if order is None else order[row]
            path, owner = self.path[start:end] + first_path, self.owner[start:end]
            path = uniform(path[0], len(row), np.int64) if len(row) and is_uniform(path) else np.repeat(path, length)
            several = bool((owner != owner[:1]).any())
            if several or not events.all_counted(owner[:1]):
                mine = events.counted(np.repeat(owner, length), row)
                path, row = path[mine], row[mine]
            if several:
                # Sorting merges the ascending runs of the intervals.
                key = np.sort(path * (len(events) + 1) + row, kind="stable")
                path, row = np.divmod(key[np.diff(key, prepend=-1) > 0], len(events) + 1)
            yield path, row
            del path, row  # before the next ones are made

    def bounds(self, events: Events) -> tuple[Int64 | None, Int64, Int64]:
        """The events in order of time (None: as they are), and per interval the first in it and the first behind it."""
        order, ordered = None, events.time_ns
        if (ordered[1:] < ordered[:-1]).any():
            order = np.argsort(ordered, kind="stable")
            ordered = ordered[order]
        low = np.searchsorted(ordered, self.start_ns, "left")
        return order, low, np.maximum(low, np.searchsorted(ordered, self.end_ns, "left"))

    def by_process(self, events: Events) -> Iterator[tuple[Bool, Int64, Int64, Int64]]:
        """(mask of intervals, rows, first, behind the last): events in an order in which each of the intervals counts
        those between two places. Every pair of an interval and an event of its is in one of a few such orders.
        """
        everybody, times = self.owner == EVERYBODY, np.sort(events.time_ns)
        asleep = np.zeros(len(events), np.bool_) if events.kernel_thread is None else events.kernel_thread
        one = np.zeros(len(events), np.int64)
        for chosen, counted, process, owner in (
            (everybody, events.counted(EVERYBODY), one, np.zeros(len(self.owner), np.int64)),
            (~everybody, asleep, one, np.zeros(len(self.owner), np.int64)),
            (~everybody, ~asleep, events.pid, self.owner),
        ):
            if not chosen.any() or not counted.any():
                continue
            # A process and the rank of a time in it are one number, in the order of which its events are neighbours.
            place = process.astype(np.int64) * (len(times) + 1) + np.searchsorted(times, events.time_ns)
            row = np.flatnonzero(counted)
            row = row[np.argsort(place[row], kind="stable")]
            low, high = (
                np.searchsorted(place[row], owner[chosen] * (len(times) + 1) + np.searchsorted(times, edge[chosen]))
                for edge in (self.start_ns, self.end_ns)
            )
            yield chosen, row, low, np.maximum(low, high)

    def only(self, chosen: Bool) -> Scopes:
        """The intervals of chosen paths (a mask); paths keep their numbers."""
        mine = chosen[self.path]
        return Scopes(self.paths, self.path[mine], self.start_ns[mine], self.end_ns[mine], self.owner[mine])

    def members(self, events: Events) -> Iterator[tuple[Int64, Int64 | slice]]:
        """(scope, row) in batches as `inside`, after a first one with the whole recording, which takes all rows."""
        yield uniform(WHOLE, len(events), np.int64), slice(None)
        yield from self.inside(events, 1)

    def covered(self, times: Intervals) -> Int64:
        """Per scope, how much of its wall time lies in a set of time; all of the set in the whole recording."""
        total = np.zeros(len(self), np.int64)
        path, start, end = union_by_key(self.path, self.start_ns, self.end_ns)
        np.add.at(total, path + 1, times.covered(start, end))
        total[WHOLE] = times.total
        return total


@dataclass(frozen=True)
class Membership:
    """The ranges of a capture, by path once, and what belongs to them."""

    ranges: RangeTable
    path: Int64
    """Per range, the index into `paths`."""
    paths: tuple[RangePath, ...]
    """In the order of their first start, a parent before its children."""
    samples: Events

    def among(self, pids: NDArray[np.integer]) -> Scopes:
        """The scopes of events of the processes `pids`."""
        processes, index = np.unique(owners(self.ranges, pids), return_inverse=True)
        count = max(len(processes), 1)
        key = self.path * count + index.reshape(-1)
        key, start, end = union_by_key(key, self.ranges.start_ns, self.ranges.end_ns)
        return Scopes(self.paths, key // count, start, end, processes[key % count])

    @cached_property
    def of_samples(self) -> Scopes:
        """The scopes of the samples."""
        return self.among(self.samples.pid)

    def innermost(self, events: Events) -> Int64:
        """Per event the path of the innermost range that it belongs to, -1 outside of all."""
        best = np.full(len(events), -1, np.int64)
        if not self.paths or not len(events):
            return best
        count = len(self.paths)
        # Depth first, then the path: one number that is largest for the innermost range.
        depth = np.array([path.depth for path in self.paths], np.int64)
        scopes = self.of_samples if events is self.samples else self.among(events.pid)
        key = depth[scopes.path] * count + scopes.path
        for chosen, row, low, high in scopes.by_process(events):
            best[row] = np.maximum(best[row], highest(low, high, key[chosen], len(row)))
        return np.where(best < 0, -1, best % count)


def membership(capture: Capture) -> Membership:
    """What belongs to the ranges of a capture; waits must have been cut at their edges (`ranges.spans`)."""
    return Membership(capture.ranges, *range_paths(capture.ranges), sample_events(capture))
