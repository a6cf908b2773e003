"""What the analysis of CUDA and GPU activity returns: frozen and plain; tables of columns where there can be many rows.

Rates are decimal gigabytes per second, which is bytes per nanosecond, as vendors state link rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from pinprof.analyze.activity.row_tables import ActivityRows
from pinprof.analyze.activity.sampled import GpuSample
from pinprof.analyze.intervals import union
from pinprof.analyze.ranges.paths import RangePath
from pinprof.base.columns import Float64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Purpose, api_of
from pinprof.data.model import Event, Int32, Int64, UInt64

Direction = Literal["H2D", "D2H", "D2D", "H2H", "P2P", "other"]
Cause = Literal["prefetch", "fault", "speculative", "eviction", "access counters", "unknown"]
Pattern = Literal["prefetched", "fault storm", "on demand", "host only"]
Work = Literal["kernels", "copies"]
LostFrom = Literal["fault windows", "migration causes"]

GIB = 1 << 30
LEAST_SIZED = 64 << 10
"""Bytes of a call on average: below, the call itself is what takes the time, not its bytes."""


@dataclass(frozen=True)
class Spread:
    """How a quantity is distributed, in its own unit."""

    total: int
    least: int
    median: int
    most: int


@dataclass(frozen=True)
class CallSplit:
    """Where the calling threads spent the time of some calls, by cause; from samples of the same run."""

    event: Event
    """The sampled clock."""
    samples: int
    by_leaf: Mapping[str, int]
    """Leaf → nanoseconds, heaviest first: on a CPU by cause; where waits were recorded, off it by `wait.*`."""
    unsampled_ns: int
    """The calls' own time less all of that. Sampling error makes it negative at times."""
    waits: bool = False
    """Whether waits were recorded: what is left is then unexplained, else it is time off the CPU."""

    @property
    def sampled_ns(self) -> int:
        """Time inside the calls that samples, and waits where they were recorded, explain."""
        return sum(self.by_leaf.values())


@dataclass(frozen=True)
class CallSite:
    """From where calls of one name were made."""

    name: str
    """`function (library)`."""
    count: int
    time_ns: int


@dataclass(frozen=True)
class CallError:
    """An error that calls of one name returned."""

    name: str
    """`cudaErrorMemoryAllocation`."""
    status: int
    count: int


@dataclass(frozen=True)
class FailedPin:
    """Page-locking by one call that failed with one error, and what the program did instead."""

    call: str
    error: CallError
    asked_bytes: int
    """In all; 0 where the recording does not say."""
    largest_bytes: int | None
    """By one call; None where the recording does not say."""
    copies: int
    """Later copies of pageable memory of the size that was asked for."""
    copied_bytes: int
    copying_ns: int
    """Time in them, of the calls where they were recorded, else of the GPU."""
    surfaces: str
    """The thread's next launch, whose check reports this error; empty where the thread asked for it before."""


@dataclass(frozen=True)
class IdleContext:
    """A context that gives its GPU no work, while another process, or this one on other GPUs, does work."""

    pid: int
    call: str
    """What created it."""
    site: str
    """Its line; empty where not known."""
    duration_ns: int
    """The time that creating it took."""
    pinned_bytes: int
    """What the process page-locks."""
    device: int
    """Whose it is, as the process numbers GPUs; -1 where the process works on none."""
    work: int
    """The process's kernels, copies and memsets, all on other GPUs."""


@dataclass(frozen=True)
class CallFaults:
    """Page faults of threads inside their calls."""

    calls: int
    """Of which they are known: all that pin memory, and others that took long."""
    minor: int
    major: int
    """Those that waited for a disk."""


@dataclass(frozen=True)
class CallResult:
    """All calls of one name, but those that initialised a context."""

    name: str
    """Without version suffix."""
    purpose: Purpose
    count: int
    time_ns: Spread
    first_ns: int
    """The first call of this name; often the most expensive, because it also sets something up."""
    size_bytes: int | None
    """Allocated, freed, copied or set; None when the recording does not say."""
    failures: int
    """Calls that returned an error; no sum has their bytes."""
    split: CallSplit | None
    """None without samples of the calling threads on the same clock."""
    errors: tuple[CallError, ...] = ()
    """What the failed ones returned, most frequent first."""
    sites: tuple[CallSite, ...] = ()
    """Who made them, most expensive first; empty when stacks of calls were not recorded."""
    faults: CallFaults | None = None
    """None where nobody looked at the faults of any of them."""

    @property
    def ns_per_gib(self) -> float | None:
        """Cost by size; None for calls without one, and for small ones, whose cost their size does not set."""
        if not self.size_bytes or self.size_bytes < LEAST_SIZED * self.count:
            return None
        return self.time_ns.total / self.size_bytes * GIB


@dataclass(frozen=True)
class ContextInit:
    """The call of a process that had to create its CUDA context; counted nowhere else."""

    name: str
    pid: int
    start_ns: int
    duration_ns: int
    typical_ns: int | None
    """Median of the later calls it was compared with; None when there are none."""
    split: CallSplit | None


@dataclass(frozen=True)
class Moved:
    """Data that moved in one direction."""

    direction: Direction
    count: int
    size_bytes: Spread
    busy_ns: int
    """Sum of the moves' own times."""

    @property
    def gb_per_s(self) -> float:
        """Bandwidth while moving; 0 when no time was recorded."""
        return self.size_bytes.total / self.busy_ns if self.busy_ns else 0.0


@dataclass(frozen=True)
class CopyResult(Moved):
    """Copies of one direction and kind of memory; migrations of managed memory are not among them."""

    memory: str
    """Kind of the memory on the host's side (`pageable`, `pinned`, `managed`); of the source where no host is."""
    asynchronous: bool
    """By the name of the call: it may return before the copy is done."""
    host_ns: int
    """Time that threads of the program spent inside the calls that made the copies."""
    link_share: float | None
    """Bandwidth, of the link's practical rate; None for unknown links and copies that cross none."""


@dataclass(frozen=True)
class MigrationResult(Moved):
    """Migrations of managed memory of one direction and cause."""

    cause: Cause
    in_kernel_count: int
    """The part that began while a kernel ran."""
    in_kernel_bytes: int


@dataclass(frozen=True)
class DeviceWork:
    """How long one GPU worked."""

    device: int
    kernel_ns: int
    copy_ns: int
    overlap_ns: int
    busy_ns: int


@dataclass(frozen=True)
class ScopeActivity:
    """What happened in one range, all its instances together, or in the whole recording.

    Calls belong to the range they begin in, copies and kernels to the range of the call that made them, everything
    else to the range it happens in. GPU times are what the GPUs did while the range lasted, whoever asked for it: time
    in which any of them did it, never a sum over GPUs; `devices` has each.
    """

    path: RangePath | None
    """As in `RangeResult`; None for the whole recording."""
    calls: tuple[CallResult, ...]
    """Longest total first."""
    copies: tuple[CopyResult, ...]
    migrations: tuple[MigrationResult, ...]
    kernels: int
    kernel_ns: int
    copy_ns: int
    """Explicit copies and migrations."""
    overlap_ns: int
    """Time in which copies and kernels ran at once on one GPU."""
    busy_ns: int
    """Time in which a GPU did anything."""
    lost_ns: int
    """Kernel time in which a GPU waited for pages; see `UvmAnalysis.lost_ns`."""
    devices: tuple[DeviceWork, ...]
    """Each GPU that did anything meanwhile."""
    gpu_fault_groups: int
    gpu_faults: int
    cpu_faults: int


@dataclass(frozen=True)
class Link:
    """The way between host and GPU, and what it delivers in practice."""

    name: str
    """`PCIe 5.0 x16`, `NVLink-C2C`."""
    to_device_gb_per_s: float
    to_host_gb_per_s: float
    source: str
    """How the link is known, and where the rate comes from."""

    def rate(self, direction: Direction) -> float | None:
        """Practical rate of a direction; None where the link is not crossed."""
        return {"H2D": self.to_device_gb_per_s, "D2H": self.to_host_gb_per_s}.get(direction)


@dataclass(frozen=True, eq=False, repr=False)
class BandwidthPoints(Table):
    """Size against bandwidth, thinned to a bounded number of points; columns of one length."""

    size_bytes: Int64
    gb_per_s: Float64
    count: Int64
    """Copies that the point stands for."""
    group: Int32
    """Index into `groups`."""
    groups: tuple[tuple[Direction, str], ...]
    """(direction, memory)."""


@dataclass(frozen=True)
class DeviceTime(DeviceWork):
    """What one GPU did in the whole recording."""

    span_ns: int
    """From its first work to its last."""
    to_device_ns: int
    """Time in which the link carried copies or migrations to it."""
    to_host_ns: int
    idle_gaps: int
    longest_gaps: tuple[tuple[int, int], ...]
    """(start, duration) of the longest idle gaps, longest first."""


@dataclass(frozen=True)
class CopyTotals:
    """A sum over some copies, for a verdict."""

    count: int
    size_bytes: int
    busy_ns: int
    host_ns: int


@dataclass(frozen=True)
class DirectionTotals(CopyTotals):
    """All copies of one direction, whatever the memory."""

    direction: Direction
    median_bytes: int
    large_pinned: CopyTotals
    """Copies of pinned memory large enough to show what the link can do."""


@dataclass(frozen=True)
class Serialisation:
    """Copies that the program waited for before it did anything else, without those of pageable memory."""

    count: int
    copy_ns: int
    """Time in which such copies ran."""
    overlapped_ns: int
    """The part while kernels ran."""
    span_ns: int
    """From each GPU's first work to its last. These three are sums over GPUs."""
    devices: int
    """How many GPUs that is."""


@dataclass(frozen=True)
class TransferAnalysis:
    """Copies and what they left of the GPU's time."""

    link: Link | None
    """None when the recording does not tell which link the GPU has, or GPUs have different ones."""
    devices: tuple[DeviceTime, ...]
    directions: tuple[DirectionTotals, ...]
    points: BandwidthPoints
    pageable_async: CopyTotals
    """Copies by `*Async` calls of pageable memory that block the caller all the same."""
    pageable_sync: CopyTotals
    """Copies between host and device of pageable memory by calls that return when they are done."""
    serial: Serialisation


@dataclass(frozen=True)
class SizeHistogram:
    """Migrations of one direction by size: powers of two, as columns."""

    direction: Direction
    at_least_bytes: Int64
    count: Int64
    size_bytes: Int64


@dataclass(frozen=True, eq=False, repr=False)
class KernelTable(Table):
    """Kernels during which managed memory moved or was waited for, in order of their start; columns of one length."""

    start_ns: Int64
    end_ns: Int64
    name: Int32
    fault_migrations: Int64
    """Migrations to the device with cause fault that began inside."""
    uvm_bytes: Int64
    """Migrated to the device inside, whatever the cause."""
    fault_bytes: Int64
    """The part with cause fault or speculative."""
    prefetch_bytes: Int64
    copying_ns: Int64
    """Inside, time in which copies or migrations ran."""
    lost_ns: Int64
    """Inside, time spent on faults while nothing was copied."""
    threads: Int64
    """How many threads it was launched with; 0 when not recorded."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class BlockTable(Table):
    """Managed memory by 2 MiB block, the driver's unit (uvm_va_block); columns of one length, ordered by address."""

    address: UInt64
    to_device_bytes: Int64
    to_host_bytes: Int64
    migrations: Int64
    gpu_faults: Int64
    cpu_faults: Int64
    flips: Int64
    """How often the direction changed from one migration to the next within the life of one allocation."""


@dataclass(frozen=True)
class UvmAnalysis:
    """Managed memory: what moved, why, and what waiting for it cost."""

    pattern: Pattern
    """`fault storm`: a dense field of small faults inside kernels; `prefetched`: a few bulk migrations."""
    summary: str
    """One sentence that tells the two apart."""
    sizes: tuple[SizeHistogram, ...]
    gpu_fault_groups: int | None
    """None when GPU faults were not recorded."""
    gpu_faults: int | None
    gpu_fault_ns: int | None
    """Time in which GPU faults were being served."""
    cpu_faults: int | None
    """None when CPU faults were not recorded."""
    cpu_fault_functions: tuple[tuple[str, int], ...]
    """Who touched the pages on the CPU, most faults first."""
    kernel_ns: int
    """Time of the kernels in `kernels`, overlapping ones once."""
    lost_ns: int
    """The part in fault windows while nothing was copied."""
    stalled_ns: int
    """`lost_ns` and the migrations that were waited for: the most that prefetching can save."""
    lost_from: LostFrom
    """Without fault tables a window is a migration that a touch caused and a short time before it: an upper bound."""
    kernels: KernelTable
    drain_ns: int
    """Time outside kernels in which the CPU's touches brought pages back, piece by piece."""
    drain_bytes: int
    blocks: BlockTable
    """The busiest ones where there are very many; `block_count` counts all."""
    block_count: int
    flips_per_block: float
    """Direction changes per block and allocation."""
    moved_per_byte: float
    """Bytes migrated for each byte of memory that migrated at all, per allocation."""
    eviction_share: float
    """Evicted bytes, of all migrated ones."""


@dataclass(frozen=True)
class MemoryPeaks:
    """The most memory of each kind that was allocated at once."""

    pinned_bytes: int
    managed_bytes: int
    largest_pin_bytes: int
    """The largest single allocation of pinned memory."""


@dataclass(frozen=True)
class AllocLoop:
    """Allocations of one kind and size class that were freed and made again, after the program's work began."""

    what: str
    """`pinned`, `device`, `managed`, `registered`."""
    up_to_bytes: int | None
    """The size class's upper end, a power of two; None when sizes are unknown."""
    pairs: int
    """In a scenario: of one measured iteration on average."""
    cost_ns: int
    """Time in those calls, allocating and freeing; where not all calls of the class are in pairs, by their mean."""


@dataclass(frozen=True)
class ActivityAnalysis:
    """CUDA and GPU activity, explained."""

    source: str
    recorded: frozenset[str]
    """As in `Activity`."""
    unrecorded: frozenset[Work]
    """What calls asked the GPU for and the recording holds nothing of: it did happen."""
    span_ns: int
    """From the first CUDA call or GPU work to the last."""
    whole: ScopeActivity
    ranges: tuple[ScopeActivity, ...]
    """One for each of `Run.ranges`, in its order."""
    context_init: tuple[ContextInit, ...]
    loops: tuple[AllocLoop, ...]
    """Most expensive first."""
    transfers: TransferAnalysis
    uvm: UvmAnalysis | None
    """None when no managed memory moved or faulted."""
    memory: MemoryPeaks | None
    """None when memory was not recorded."""
    make_rows: Callable[[], ActivityRows]
    """Makes `rows`."""
    sampled: tuple[GpuSample, ...] = ()
    """What windows say of each GPU, where its work was recorded only in these."""
    failed_pins: tuple[FailedPin, ...] = ()
    """Most bytes first."""
    idle_contexts: tuple[IdleContext, ...] = ()
    """In order of time."""

    @property
    def api(self) -> str:
        """What the calls are called, after their vendor's API: `CUDA`."""
        return api_of(call.name for call in self.whole.calls)

    @property
    def rows(self) -> ActivityRows:
        """Single calls, copies and migrations: made when asked for, since there may be millions, for a page alone."""
        return self.make_rows()

    @property
    def wall_ns(self) -> int:
        """The span without the creation of contexts; several processes may create theirs at once."""
        starts = np.array([entry.start_ns for entry in self.context_init], np.int64)
        lengths = np.array([entry.duration_ns for entry in self.context_init], np.int64)
        return max(0, self.span_ns - union(starts, starts + lengths).total)
