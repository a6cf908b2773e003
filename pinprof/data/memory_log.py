"""Memory over time: what processes hold, what they have mapped, and where single pages lie; no I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pinprof.base.columns import Int8, Int16, Int32, Int64, Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ProcessMemory:
    """What one process of the program held over time; columns of one length."""

    pid: int
    name: str
    time_ns: Int64
    values: Mapping[str, Int64]
    """`rss, shmem, pinned, locked, swap, huge` in bytes and `threads`; what was not recorded is absent."""


@dataclass(frozen=True, eq=False, repr=False)
class PageTable(Table):
    """Single pages of the program's large mappings, as they were found at single moments; ordered by time."""

    time_ns: Int64
    pid: Int32
    address: UInt64
    node: Int16
    """The NUMA node; -1 where there was no page, -2 where it is not known."""
    huge: Int8
    """1 where it is mapped as a huge page, 0 where not, -1 where that is not known."""


@dataclass(frozen=True, eq=False, repr=False)
class MappingTable(Table):
    """What processes had mapped at single moments, ordered by time: a list holds until the next one of its process."""

    time_ns: Int64
    pid: Int32
    start: UInt64
    end: UInt64
    kind: UInt8
    """`Mapped`."""


@dataclass(frozen=True)
class MemoryLog:
    """Memory of the program and counters of the machine, looked at about ten times a second."""

    time_ns: Int64
    machine: Mapping[str, Int64]
    """Counter of /proc/vmstat → its value at each time; pages, or events since the machine started."""
    processes: tuple[ProcessMemory, ...]
    """In the order in which they were first seen: the program itself, then its descendants."""
    bad_lines: int = 0
    pages: PageTable = field(default_factory=PageTable.empty)
    maps: MappingTable = field(default_factory=MappingTable.empty)
