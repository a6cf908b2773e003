"""Large memory of the host: what the program made, gave back and advised the kernel about, and who did; no I/O here."""

from __future__ import annotations

from enum import IntEnum

from pinprof.base.columns import Bool, Int32, Int64, Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Caller


class HostEvent(IntEnum):
    """What happened to memory."""

    MADE = 1
    GIVEN = 2
    """It was given back."""
    ADVISED = 3
    """The program advised the kernel about it, or opened shared memory."""
    BEFORE = 4
    """It was made before each making had a row, by whom nobody knows; when it was given back is not in the table."""


class Maker(IntEnum):
    """What made memory, or advised the kernel about it. What grows memory makes it and gives back what was there."""

    MALLOC = 0
    CALLOC = 1
    REALLOC = 2
    ALIGNED = 3
    """`posix_memalign`, `aligned_alloc` and `memalign`."""
    MMAP = 4
    MREMAP = 5
    DONTNEED = 6
    """`madvise`, as the two below."""
    FREE_LAZILY = 7
    HUGE_PAGES = 8
    SHM_OPEN = 9


@dataclass(frozen=True, eq=False, repr=False)
class HostMemoryTable(Table):
    """Events by time. A row is one event, or the sum of several that are alike: then it has the time of the first."""

    time_ns: Int64
    event: UInt8
    """`HostEvent`."""
    maker: UInt8
    """`Maker`: of what was given back, what had made it."""
    pid: Int32
    tid: Int32
    count: Int64
    size_bytes: Int64
    """The sum."""
    address: UInt64
    """0 in sums."""
    site: Int32
    """Who made it, an index into `LargeMemory.sites`; -1 where that is not known, or was another process."""
    given_at: Int32
    """Who gave it back; -1 for other events."""
    lifetime_ns: Int64
    """From the making to the giving back, of all together; 0 for other events."""
    took_ns: Int64
    """How long the calls took, all together."""
    elsewhere: Bool
    """Whether another thread had made what was given back."""


@dataclass(frozen=True)
class HostSite:
    """Who makes memory or gives it back."""

    caller: Caller
    """The line that counts."""
    frames: tuple[Caller, ...]
    """What led there, innermost first, as far as it was recorded; their `file` is empty."""


@dataclass(frozen=True)
class LargeMemory:
    """The large memory of a program's processes: blocks and mappings of 256 KiB and more."""

    table: HostMemoryTable
    sites: tuple[HostSite, ...]
    lost: int
    """Events that were not recorded."""
