"""Intervals off the CPU: from a thread's switch-out, sampled with its stack, to its next switch-in.

    context-switches, period 1      a sample in the thread that leaves a processor, just before it does: why it waits
    PERF_RECORD_SWITCH(_CPU_WIDE)   out (preempted or not) and in, without a stack: how long

The kernel writes the sample first and the record after it (perf_event_task_sched_out, kernel/events/core.c), so the
first record of the thread at or after a sample says whether it could have run on, and the next one in ends the wait.
What lies between the sample and that record is the recorder's: it takes the stack then. So the wait begins at the
record, unless the sample is older than that takes: thinning joins waits by it.
The wait of a thread that never comes back ends with the thread, or with the recording.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Table, halves, pack, pairs_of, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.data.model import Bool, Int32, Int64, UInt8
from pinprof.read.perf import records as rec
from pinprof.read.perf.samples import Layouts, sizes_of, words_of

IN, OUT, PREEMPTED = range(3)
"""Values of `Switches.way`: onto a processor, off it to wait, off it while able to run on."""
LONGEST_SAMPLE_NS = 100_000
"""What the kernel takes for a stack at most; what a joined wait lasts at least is twenty times as much."""


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

    begin_ns: Int64
    """When the thread left its processor; the sample's own time where no record says it."""
    end_ns: Int64
    """The switch-in; when it left where the thread had ended."""
    ready: Bool
    """Whether the thread could have run on."""


class SwitchGatherer:
    """Grows the columns chunk by chunk."""

    def __init__(self) -> None:
        self._chunks: list[Switches] = []

    def take(self, buffer: bytearray, end: int, starts: Int32, layouts: Layouts) -> int:
        """Turn the records at `starts` into rows; bytes of records that are too short for their trailer."""
        words, at = words_of(buffer, end, starts)
        size = sizes_of(words, at)
        misc = halves(words[at])[1] & 0xFFFF
        source = layouts.sources_of_trailers(words[np.minimum(at + size - 1, len(words) - 1)])
        time, identity = np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)
        valid = np.zeros(len(at), np.bool_)
        for index, layout in enumerate(layouts.each):
            if layout.trailer_time is None or layout.trailer_tid is None:
                continue
            mine = (source == index) & (size > layout.trailer_tid)
            behind = at[mine] + size[mine]
            time[mine], identity[mine] = words[behind - layout.trailer_time], words[behind - layout.trailer_tid]
            valid |= mine
        valid &= time < np.uint64(rec.KERNEL_START)
        out = (misc & perf.MISC_SWITCH_OUT) > 0
        way = np.where(out, np.where((misc & perf.MISC_SWITCH_OUT_PREEMPT) > 0, PREEMPTED, OUT), IN)
        self._chunks.append(Switches(time[valid].view(np.int64), *halves(identity[valid]), way[valid].astype(np.uint8)))
        return 8 * int(size[~valid].sum())

    def result(self) -> Switches:
        """All rows."""
        return Switches.empty().joined(*self._chunks)


@dataclass(frozen=True)
class ThreadSwitches:
    """Switch records thread by thread, in the order of time; and whose each of some samples is."""

    keys: Int64
    """The threads: process and thread packed, ascending."""
    known: NDArray[Any]
    """Per record its thread, by place among `keys`, ascending."""
    time_ns: Int64
    way: UInt8
    of_samples: NDArray[Any]
    """Per sample its thread, by place among `keys`."""

    @classmethod
    def of(cls, switches: Switches, pid: Int32, tid: Int32) -> Self:
        """All records by thread; `pid` and `tid` are columns of samples."""
        both = np.concatenate([pack(switches.pid, switches.tid), pack(pid, tid)])
        keys, number = np.unique(both, return_inverse=True)
        known, mine = np.split(number.reshape(-1), [len(switches)])
        order = np.lexsort((switches.time_ns, known))
        return cls(keys, known[order], switches.time_ns[order], switches.way[order], mine)

    def first_at(self, thread: NDArray[Any], time_ns: Int64) -> Int64:
        """Per moment the place of a thread's first record at or after it; of the next thread's where there is none."""
        return places(self.known, self.time_ns, thread, time_ns, behind=True)

    def last_at(self, thread: NDArray[Any], time_ns: Int64) -> Int64:
        """Per moment the place of a thread's last record at or before it; of the thread before where there is none."""
        return places(self.known, self.time_ns, thread, time_ns, behind=False) - 1

    def table(self, rows: Bool) -> Switches:
        """Some of the records."""
        pid, tid = unpack(self.keys[self.known[rows]])
        return Switches(self.time_ns[rows], pid.astype(np.int32), tid.astype(np.int32), self.way[rows])


def places(known: NDArray[Any], when: Int64, mine: NDArray[Any], time_ns: Int64, *, behind: bool) -> Int64:
    """How many rows of (known, when), ascending, come before each (mine, time_ns); equal ones do not if `behind`."""
    side = np.repeat([behind, not behind], [len(when), len(time_ns)])
    both = np.lexsort((side, np.append(when, time_ns), np.append(known, mine)))
    record = both < len(when)
    ahead = np.cumsum(record)
    place = np.empty(len(time_ns), np.int64)
    place[both[~record] - len(when)] = ahead[~record]
    return place


def waits(
    time_ns: Int64, pid: Int32, tid: Int32, switches: Switches, exits: dict[tuple[int, int], int], end_ns: int
) -> SwitchOuts:
    """How long each sampled switch-out kept its thread off the CPU; `end_ns` is the recording's end."""
    threads = ThreadSwitches.of(switches, pid, tid)
    mine, place = threads.of_samples, threads.first_at(threads.of_samples, time_ns)
    # One more row, so that a place behind the last record of a thread can be read.
    known, when = np.append(threads.known, -1), np.append(threads.time_ns, 0)
    way = np.append(threads.way, np.uint8(IN))
    left = (known[place] == mine) & (way[place] != IN)
    ready = left & (way[place] == PREEMPTED)
    # The next record in, of whatever thread: it counts where the thread is the same.
    back = np.append(_next_in(way[:-1]), len(way) - 1)[place]
    returned = known[back] == mine
    gone = np.array([exits.get(pair, -1) for pair in pairs_of(threads.keys[mine])], np.int64)
    open_end = np.where(gone >= 0, np.maximum(gone, time_ns), max(end_ns, 0))
    end = np.where(returned, when[back], open_end)
    begin = np.where(left & (when[place] <= time_ns + LONGEST_SAMPLE_NS), when[place], time_ns)
    return SwitchOuts(begin, np.maximum(end, begin), ready)


def _next_in(way: UInt8) -> Int64:
    """Per record the place of the first record `IN` at or after it; one past the end when there is none."""
    place = np.where(way == IN, np.arange(len(way)), len(way))
    return np.asarray(np.minimum.accumulate(place[::-1])[::-1])
