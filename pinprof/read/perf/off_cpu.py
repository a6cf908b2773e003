"""Intervals off the CPU: from a thread's switch-out, sampled with its stack, to its next switch-in.

    context-switches, period 1      a sample in the thread that leaves a processor, just before it does: why it waits
    PERF_RECORD_SWITCH(_CPU_WIDE)   out (preempted or not) and in, without a stack: how long

The kernel writes the sample first and the record after it (perf_event_task_sched_out, kernel/events/core.c), so the
first record of the thread at or after a sample says whether it could have run on, and the next one in ends the wait.
The wait of a thread that never comes back ends with the thread, or with the recording.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Table, pack, pairs_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.data.model import Bool, Int32, Int64, UInt8, UInt64
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import EventSource
from pinprof.read.perf.samples import words_of

IN, OUT, PREEMPTED = range(3)
"""Values of `Switches.way`: onto a processor, off it to wait, off it while able to run on."""


@dataclass(frozen=True, eq=False, repr=False)
class Switches(Table):
    """One row per switch record, in file order."""

    time_ns: Int64
    pid: Int32
    tid: Int32
    way: UInt8


@dataclass(frozen=True)
class SwitchOuts:
    """What each switch-out became; columns of the samples' length."""

    end_ns: Int64
    """The switch-in; the sample's own time where the thread had ended."""
    ready: Bool
    """Whether the thread could have run on."""


class SwitchGatherer:
    """Grows the columns chunk by chunk; `sources_changed()` before the first chunk."""

    def __init__(self) -> None:
        self._layouts: list[rec.SampleLayout] = []
        self._identified = False
        self._ids: UInt64 = np.zeros(0, np.uint64)
        self._source: Int32 = np.zeros(0, np.int32)
        self._chunks: list[Switches] = []

    def sources_changed(self, sources: list[EventSource]) -> None:
        """Derive the trailers' layouts from the events known by now."""
        self._layouts = [rec.sample_layout(source.attr) for source in sources]
        # Events may carry different trailers only where each ends in the id that says whose it is.
        self._identified = all(source.attr.sample_type & perf.SAMPLE_IDENTIFIER for source in sources)
        pairs = sorted((number, index) for index, source in enumerate(sources) for number in source.ids)
        self._ids = np.array([number for number, _ in pairs], np.uint64)
        self._source = np.array([index for _, index in pairs], np.int32)

    def take(self, buffer: bytearray, end: int, starts: Int32) -> int:
        """Turn the records at `starts` into rows; bytes of records that are too short for their trailer."""
        words, at = words_of(buffer, end, starts)
        head = words[at]
        size = (head >> np.uint64(48)).astype(np.int64) >> 3
        misc = (head >> np.uint64(32)).astype(np.int64) & 0xFFFF
        source = self._sources_of(words, at + size - 1)
        time, identity = np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)
        valid = np.zeros(len(at), np.bool_)
        for index, layout in enumerate(self._layouts):
            if layout.trailer_time is None or layout.trailer_tid is None:
                continue
            mine = (source == index) & (size > layout.trailer_tid)
            behind = at[mine] + size[mine]
            time[mine], identity[mine] = words[behind - layout.trailer_time], words[behind - layout.trailer_tid]
            valid |= mine
        valid &= time < np.uint64(rec.KERNEL_START)
        out = (misc & perf.MISC_SWITCH_OUT) > 0
        way = np.where(out, np.where((misc & perf.MISC_SWITCH_OUT_PREEMPT) > 0, PREEMPTED, OUT), IN)
        self._chunks.append(
            Switches(
                time[valid].view(np.int64),
                (identity[valid] & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32),
                (identity[valid] >> np.uint64(32)).astype(np.uint32).view(np.int32),
                way[valid].astype(np.uint8),
            )
        )
        return 8 * int(size[~valid].sum())

    def result(self) -> Switches:
        """All rows."""
        return Switches.empty().joined(*self._chunks)

    def _sources_of(self, words: UInt64, last: Int64) -> Int32:
        """Per record the event whose trailer it carries, by the id in its last word."""
        if len(self._layouts) <= 1 or not self._identified or not len(self._ids):
            return np.zeros(len(last), np.int32)
        number = words[np.minimum(last, len(words) - 1)]
        place = np.minimum(np.searchsorted(self._ids, number), len(self._ids) - 1)
        return np.where(self._ids[place] == number, self._source[place], 0).astype(np.int32)


def waits(
    time_ns: Int64, pid: Int32, tid: Int32, switches: Switches, exits: dict[tuple[int, int], int], end_ns: int
) -> SwitchOuts:
    """How long each sampled switch-out kept its thread off the CPU; `end_ns` is the recording's end."""
    thread, number = np.unique(np.concatenate([pack(switches.pid, switches.tid), pack(pid, tid)]), return_inverse=True)
    known, mine = np.split(number.reshape(-1), [len(switches)])
    order = np.lexsort((switches.time_ns, known))
    known, when, way = known[order], switches.time_ns[order], switches.way[order]
    place = _first_at_or_after(known, when, mine, time_ns)
    # One more row, so that a place behind the last record of a thread can be read.
    known, when, way = np.append(known, -1), np.append(when, 0), np.append(way, np.uint8(IN))
    left = (known[place] == mine) & (way[place] != IN)
    ready = left & (way[place] == PREEMPTED)
    # The next record in, of whatever thread: it counts where the thread is the same.
    back = np.append(_next_in(way[:-1]), len(way) - 1)[place]
    returned = known[back] == mine
    gone = np.array([exits.get(pair, -1) for pair in pairs_of(thread[mine])], np.int64)
    open_end = np.where(gone >= 0, np.maximum(gone, time_ns), max(end_ns, 0))
    end = np.where(returned, when[back], open_end)
    return SwitchOuts(np.maximum(end, time_ns), ready)


def _first_at_or_after(known: NDArray[Any], when: Int64, mine: NDArray[Any], time_ns: Int64) -> Int64:
    """Per sample the place of its thread's first record at or after it; records are ordered by thread and time."""
    both = np.lexsort((np.repeat([1, 0], [len(when), len(time_ns)]), np.append(when, time_ns), np.append(known, mine)))
    record = both < len(when)
    ahead = np.cumsum(record)
    place = np.empty(len(time_ns), np.int64)
    place[both[~record] - len(when)] = ahead[~record]
    return place


def _next_in(way: UInt8) -> Int64:
    """Per record the place of the first record `IN` at or after it; one past the end when there is none."""
    place = np.where(way == IN, np.arange(len(way)), len(way))
    return np.asarray(np.minimum.accumulate(place[::-1])[::-1])
