"""Types of the history of allocations: what was allocated, by whom, and how long it lived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np

from pinprof.base.columns import Int32, Int64, Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Allocated

KINDS: tuple[Allocated, ...] = get_args(Allocated)
HOST_KINDS: tuple[Allocated, ...] = ("pinned", "registered")
"""Page-locked memory of the host: what counters of the kernel may know of."""
FOREVER = int(np.iinfo(np.int64).max)
"""The end of what nobody gave back while the recording went on."""
UNKNOWN = -1


@dataclass(frozen=True, eq=False, repr=False)
class AllocationTable(Table):
    """Allocations of one capture, ordered by start; each lives in [start, end)."""

    start_ns: Int64
    """When the call that made it returned."""
    end_ns: Int64
    """When the call that gave it back began, or its process ended; FOREVER where it was never given back."""
    pid: Int32
    tid: Int32
    kind: UInt8
    """Index into `KINDS`."""
    api: Int32
    """Index into `Allocations.names`."""
    site: Int32
    """Index into `Allocations.sites`, -1 where the caller is not known."""
    size_bytes: Int64
    """What the call asked for."""
    wanted_bytes: Int64
    """What was wanted of an allocator that rounds up; else what the call asked for."""
    granted_bytes: Int64
    """What it got: its mapping where that is known, else what was asked for."""
    address: UInt64
    """0 where not known."""
    call: Int64
    """Row of the calls' table, -1 where no call was recorded."""
    freed: UInt8
    """1 where a call gave it back."""
    free: Int64
    """Row of the call that gave it back, -1 where none is known. Where `freed` is 0, which of several allocations that
    call gave back is not certain, and this is the one made last."""


@dataclass(frozen=True)
class Allocations:
    """The allocations of a capture, and how certain their lifetimes are."""

    table: AllocationTable
    names: tuple[str, ...]
    """The calls that allocate."""
    sites: tuple[str, ...]
    frees: int
    """Calls that gave back one of these."""
    unknown_frees: int
    """Calls that gave back memory of which no allocation is known: it was made before the recording, or not traced."""
    undecided_frees: int
    """Calls that gave back one of several allocations whose addresses are not known: they stay alive here."""
    unsized: int
    """Allocations whose size is not known; they count as nothing."""

    def freeing(self, calls: int) -> Int64:
        """Per call, the call that gave back what it made, -1 where none is known; `calls` is their number."""
        called = self.table.call >= 0
        result = np.full(calls, -1, np.int64)
        result[self.table.call[called]] = self.table.free[called]
        return result


@dataclass(frozen=True)
class IdlePins:
    """Page-locked memory that one line of a process makes and keeps, and that no copy uses any more."""

    line: str
    """`function (file:line)`, empty where not known."""
    pid: int
    count: int
    bytes: int
    """As granted."""
    idle_ns: int
    """From the last copy that may have used any of it to the process's last copy."""
    made_beside: int
    """How many of these were made while one of their size, or larger, was not used any more."""


@dataclass(frozen=True)
class PinnedMemory:
    """What is known of the use and the place of page-locked memory."""

    idle: tuple[IdlePins, ...] | None
    """Most bytes first; None where copies are not all known."""
    nodes: Mapping[str, Mapping[int, int]]
    """Line → NUMA node → bytes there, where single pages tell."""
