"""What each thread did, piece by piece: what it ran, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.intervals import Intervals, numbers, union
from pinprof.analyze.ranges.spans import IDLE_EVENT
from pinprof.base.columns import Bool, Int64, narrowed
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture, clock_event

_BUSY_WAIT = np.isin(
    [row.name for row in CATEGORIES],
    [
        "wait.disk", "wait.gpu", "wait.uvm", "wait.driver", "wait.kernel", "wait.reclaim", "wait.uffd",
        "wait.mmap_lock", "wait.runnable", "wait.exit",
    ],
)  # fmt: skip
_RUN_FACTOR, _RUN_SLACK_NS = 2, 20_000_000
"""A thread cannot have run for much longer than its samples say: else its waits were not all recorded."""


@dataclass(frozen=True)
class ThreadPieces:
    """What a thread did: pieces in order of time, without overlap."""

    time: Intervals
    sample: Int64
    """Rows of `Capture.samples`."""


@dataclass(frozen=True)
class Doing:
    """One thread."""

    pid: int
    tid: int
    capture: Capture
    ran: Int64
    """Rows of its samples on processors,"""
    waited: Int64
    """of its waits,"""
    explaining: Int64
    """and of those among them in which it is busy: with a disk, the kernel, a driver or the GPU."""

    @cached_property
    def busy(self) -> ThreadPieces | None:
        """What it ran, and the waits in which it is busy; None where that is nothing."""
        return _pieces(self.capture, self.ran, self.waited, self.explaining)

    @cached_property
    def everything(self) -> ThreadPieces | None:
        """What it ran, and all its waits."""
        return _pieces(self.capture, self.ran, self.waited, self.waited)


def timelines(capture: Capture, attribution: Attribution, pids: Int64) -> tuple[Doing, ...]:
    """All threads of some processes, by process and thread."""
    return tuple(_threads(capture, attribution, pids))


def _threads(capture: Capture, attribution: Attribution, pids: Int64) -> Iterator[Doing]:
    samples = capture.samples
    clock = clock_event(capture.events)
    spans = capture.spans[samples.event]
    idle = np.array([event.name == IDLE_EVENT for event in capture.events], np.bool_)[samples.event]
    of_these = np.isin([pid for pid, _ in capture.sampled_threads], pids)
    used: Bool = (spans | (samples.event == clock)) & (samples.weight > 0) & of_these[capture.thread]
    rows = np.flatnonzero(used)
    # Of narrow numbers numpy sorts millions at once.
    thread = narrowed(capture.thread[rows])
    order = np.argsort(thread, kind="stable")
    rows, bounds = rows[order], np.flatnonzero(np.diff(thread[order])) + 1
    for mine in np.split(rows, bounds):
        if len(mine):
            waiting = spans[mine]
            explains = waiting & _BUSY_WAIT[attribution.leaf[mine]] & ~idle[mine]
            pid, tid = int(samples.pid[mine[0]]), int(samples.tid[mine[0]])
            yield Doing(pid, tid, capture, mine[~waiting], mine[waiting], mine[explains])


def _pieces(capture: Capture, ran: Int64, waited: Int64, explaining: Int64) -> ThreadPieces | None:
    """Between its waits a thread runs, and each sample stands for the time since the one before."""
    samples = capture.samples
    time, weight = samples.time_ns, samples.weight
    start, end, owner = np.maximum(time[ran] - weight[ran], np.append(-(1 << 62), time[ran][:-1])), time[ran], ran
    if len(waited) and len(ran):
        off = union(time[waited], time[waited] + weight[waited])
        first = min(int(start[0]), int(off.start[0]))
        gaps = Intervals(np.append(first, off.end), np.append(off.start, max(int(time[ran[-1]]), int(off.end[-1]))))
        running = union(gaps.start, gaps.end)
        if running.total <= _RUN_FACTOR * int(weight[ran].sum()) + _RUN_SLACK_NS:
            start, end, owner = _between_samples(running, time[ran], ran)
    start, end = np.append(start, time[explaining]), np.append(end, time[explaining] + weight[explaining])
    owner = np.append(owner, explaining)
    order = np.argsort(start, kind="stable")
    start, end, owner = start[order], end[order], owner[order]
    end[:-1] = np.minimum(end[:-1], start[1:])
    kept = end > start
    if not kept.any():
        return None
    return ThreadPieces(Intervals(start[kept], end[kept]), owner[kept])


def _between_samples(running: Intervals, time: Int64, ran: Int64) -> tuple[Int64, Int64, Int64]:
    """Running time cut at the samples; what follows the last one is its own."""
    low = np.searchsorted(time, running.start, "right").astype(np.int64)
    high = np.searchsorted(time, running.end, "left").astype(np.int64)
    piece, cut = numbers(low, high)
    start = np.append(running.start, time[cut])
    place = np.append(np.arange(len(running)), piece)
    order = np.argsort(start, kind="stable")
    start, place = start[order], place[order]
    end = np.minimum(running.end[place], np.append(start[1:], np.iinfo(np.int64).max))
    return start, end, ran[np.minimum(np.searchsorted(time, start, "right"), len(ran) - 1)]
