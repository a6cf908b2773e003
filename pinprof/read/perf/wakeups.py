"""Wake-ups: samples of the tracepoint sched:sched_waking, each taken in the waker's context, as a table of their own.

    u16 type; u8 flags, preempt_count; s32 pid          the fields of every tracepoint
    char comm[16]; s32 pid, prio, target_cpu            of the woken thread (include/trace/events/sched.h)

The kernel delivers a wake-up within the program twice, to the waker's event and to the woken thread's
(perf_tp_event): the one with the stack counts. Processes outside the program stay outside: a waker there is its process
id alone, and its stack and command's name only where the whole machine was recorded on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from pinprof.base.columns import Bool, Int32, UInt8, UInt64, ascending, distinct, halves
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.data.model import BY_INTERRUPT, BY_SOFTIRQ, BY_THREAD, NO_NODE, WakeupTable
from pinprof.read.perf import records as rec
from pinprof.read.perf.chains import NO_CHAIN
from pinprof.read.perf.header import EventSource
from pinprof.read.perf.mappings import SpaceTable, TaskRecord
from pinprof.read.perf.passes import Raw
from pinprof.read.perf.samples import PAYLOAD_WORDS, RawSamples

ALONE = ("sched-waking/period=1/",)
"""Names of events that hold wake-ups and nothing else: pinprof's own. Another tool's stay among the events as well."""
NAMES = (*ALONE, "sched:sched_waking")
_HARDIRQ_NMI, _SOFTIRQ = 0x08 | 0x40, 0x10
"""TRACE_FLAG_HARDIRQ, TRACE_FLAG_NMI, TRACE_FLAG_SOFTIRQ (include/linux/trace_events.h)."""
_TWICE_NS = 20_000
"""Two records of one wake-up are no further apart."""
_MOST_STRANGERS = 1000


@dataclass(frozen=True)
class Woken:
    """Wake-ups before symbols; columns of one length, ordered by time."""

    samples: RawSamples
    """Taken in the waker; without a call chain where nothing is to be known of that."""
    depth: Int32
    """How many frames the recorded call chain has."""
    woken: Int32
    context: UInt8
    recorded: bool
    outside: Bool
    """Whether the waker is outside the program."""

    def of_program(self, samples: RawSamples, spaces: SpaceTable, *, system_wide: bool) -> Self:
        """Those of the program's threads, each once; `samples` are the program's, of its other events."""
        if not self.recorded:
            return self
        threads = ascending(samples.tid[samples.pid > 0])
        pids = ascending(samples.pid[samples.pid > 0])
        if not system_wide:
            mapped = [pid for pid in ascending(self.samples.pid).tolist() if spaces.has_mappings(pid)]
            pids = distinct(pids, np.array(mapped, pids.dtype))
        kept = np.isin(self.woken, threads) & (self.woken != self.samples.tid)
        table = self._taken(np.flatnonzero(kept))
        table = table._taken(table._once())
        outside = ~np.isin(table.samples.pid, pids)
        by_thread = table.context != BY_INTERRUPT
        shown = by_thread & ~table.samples.unchained & (~outside | system_wide)
        wakes = table.samples
        chain = np.where(shown, wakes.chain, np.int32(NO_CHAIN))
        tid = np.where(outside & ~np.bool_(system_wide), np.int32(-1), wakes.tid)
        return replace(table, samples=replace(wakes, chain=chain, tid=tid), outside=outside)

    def table(self, node: Int32) -> WakeupTable | None:
        """The model's table; `node` are the wakers' stacks."""
        if not self.recorded:
            return None
        wakes = self.samples
        stack = np.where(wakes.chain != NO_CHAIN, node, np.int32(NO_NODE))
        return WakeupTable(wakes.clock, wakes.pid, wakes.tid, self.woken, self.context, stack)

    def strangers(self, tasks: Iterable[tuple[int, TaskRecord]]) -> dict[int, str]:
        """Processes outside the program that woke its threads, and their commands' names where these were recorded."""
        woke = self.outside & (self.context == BY_THREAD) & (self.samples.pid > 0)
        pids, count = np.unique(self.samples.pid[woke], return_counts=True)
        most = pids[np.argsort(-count, kind="stable")][:_MOST_STRANGERS].tolist()
        names = dict.fromkeys(most, "")
        for _, record in tasks:
            if isinstance(record, rec.CommRecord) and record.pid == record.tid and record.pid in names:
                names[record.pid] = record.name
        return names

    def _taken(self, rows: np.ndarray) -> Self:
        return replace(
            self,
            samples=self.samples.take(rows),
            depth=self.depth[rows],
            woken=self.woken[rows],
            context=self.context[rows],
            outside=self.outside[rows],
        )

    def _once(self) -> np.ndarray:
        """The rows without the second record of a wake-up, that with the shorter stack; ordered by time."""
        wakes = self.samples
        order = np.lexsort((-self.depth, wakes.clock, wakes.tid, self.woken))
        same = (self.woken[order][1:] == self.woken[order][:-1]) & (wakes.tid[order][1:] == wakes.tid[order][:-1])
        same &= np.diff(wakes.clock[order]) <= _TWICE_NS
        # The second of a pair goes, unless it is the one with a stack.
        second = np.append(False, same)
        second[1:] &= ~second[:-1]
        first = np.append(second[1:], False)
        bare = wakes.unchained[order]
        swap = first & bare & ~np.append(bare[1:], True)
        kept = order[~second & ~swap | np.append(False, swap[:-1])]
        return np.asarray(kept[np.argsort(wakes.clock[kept], kind="stable")])


def apart(raw: Raw, sources: Sequence[EventSource]) -> tuple[RawSamples, Woken]:
    """The samples without the wake-ups that pinprof recorded, and all wake-ups."""
    numbers = [
        index
        for index, source in enumerate(sources)
        if source.name in NAMES and source.attr.sample_type & perf.SAMPLE_RAW
    ]
    # In a stream events may be described after the first samples: fields of these are not kept.
    mine = np.isin(raw.samples.source, numbers) & np.bool_(len(raw.payload) == len(raw.samples))
    rows = np.flatnonzero(mine)
    payload = raw.payload[rows] if len(rows) else np.zeros((0, PAYLOAD_WORDS), np.uint64)
    chosen = raw.samples.take(rows)
    woken = Woken(
        samples=chosen,
        depth=raw.chains.length_of(chosen.chain),
        woken=halves(payload[:, 3])[0],
        context=_context(payload[:, 0]),
        recorded=bool(numbers),
        outside=np.zeros(len(rows), np.bool_),
    )
    alone = [index for index in numbers if sources[index].name in ALONE]
    kept = raw.samples.take(~np.isin(raw.samples.source, alone)) if alone else raw.samples
    return kept, woken


def _context(head: UInt64) -> UInt8:
    flags = (head >> np.uint64(16)) & np.uint64(0xFF)
    softirq = np.where(flags & np.uint64(_SOFTIRQ), np.uint8(BY_SOFTIRQ), np.uint8(BY_THREAD))
    return np.where(flags & np.uint64(_HARDIRQ_NMI), np.uint8(BY_INTERRUPT), softirq)
