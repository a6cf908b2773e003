"""How many bytes live when: exact levels, peaks and bins of sets of allocations."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pinprof.analyze.activity.results import MemoryPeaks
from pinprof.analyze.allocations.results import FOREVER, HOST_KINDS, KINDS, Allocations, AllocationTable
from pinprof.base.columns import Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Allocated


def of_kinds(history: Allocations | None, kinds: Collection[Allocated]) -> AllocationTable:
    """The allocations of some kinds; none without a history."""
    table = history.table if history is not None else AllocationTable.empty()
    return table.take(np.isin(table.kind, [KINDS.index(kind) for kind in kinds]))


def peaks_of(history: Allocations | None) -> MemoryPeaks:
    """The most memory that lived at once, by kind."""
    pinned, managed = of_kinds(history, HOST_KINDS), of_kinds(history, ["managed"])
    return MemoryPeaks(
        pinned_bytes=StepFunction.of(pinned, pinned.size_bytes).peak[0],
        managed_bytes=StepFunction.of(managed, managed.size_bytes).peak[0],
        largest_pin_bytes=int(pinned.size_bytes.max(initial=0)),
    )


@dataclass(frozen=True)
class StepFunction:
    """A step function: the bytes that live from each time on."""

    time_ns: Int64
    bytes: Int64

    @classmethod
    def of(cls, table: AllocationTable, amount: Int64) -> StepFunction:
        """All rows of a table, with what each counts. What ends at a time is gone when another one begins there."""
        ends = table.end_ns < FOREVER
        time = np.concatenate([table.end_ns[ends], table.start_ns])
        step = np.concatenate([-amount[ends], amount])
        order = np.argsort(time, kind="stable")
        return cls(time[order], np.cumsum(step[order]))

    def at(self, time_ns: Int64) -> Int64:
        """What lives just after each time."""
        place = np.searchsorted(self.time_ns, time_ns, "right")
        return np.asarray(np.concatenate([np.zeros(1, np.int64), self.bytes])[place])

    @property
    def peak(self) -> tuple[int, int]:
        """The most bytes, and when; (0, 0) of nothing."""
        if not len(self.bytes):
            return 0, 0
        place = int(np.argmax(self.bytes))
        return max(int(self.bytes[place]), 0), int(self.time_ns[place])

    def most_in(self, edges: Int64) -> Int64:
        """The most that lives within each bin; the last one has no end."""
        begins = self.at(edges)
        first = np.searchsorted(self.time_ns, edges, "right")
        inside = np.append(first[1:], len(self.time_ns)) > first
        most = begins.copy()
        if inside.any():
            # Bins with no event of their own would take that of the next one.
            reduced = np.maximum.reduceat(self.bytes, first[inside])
            most[inside] = np.maximum(most[inside], reduced)
        return most
