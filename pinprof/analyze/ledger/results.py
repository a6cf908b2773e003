"""Types of the ledger: allocations with their lifetimes, and what is known about each site, checkpoint and counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pinprof.analyze.allocations.results import HOST_KINDS, Allocations, IdlePins, PinnedMemory
from pinprof.base.columns import Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Allocated

Basis = Literal["calls", "copies"]
BASES: tuple[Basis, ...] = get_args(Basis)


@dataclass(frozen=True)
class Growth:
    """How a site's live memory changes from step to step."""

    bytes_per_step: float
    """Median slope of all pairs of steps (Theil-Sen)."""
    steps: int
    significant: bool
    """Whether the trend is more than chance (Mann-Kendall, 1 %)."""


@dataclass(frozen=True)
class Pages:
    """Where the pages of a site lay at the look that knows most of them; estimated from single pages."""

    time_ns: int
    """Of that look."""
    nodes: Mapping[int, int]
    """NUMA node → bytes there."""
    absent_bytes: int
    """Without pages: not touched yet."""
    unknown_bytes: int
    """The part of what lived then."""
    huge_share: float | None
    """The part of the pages that are huge ones; None where that is not known."""
    looked_at: int
    """Pages."""

    @property
    def known_bytes(self) -> int:
        """On nodes, or without pages."""
        return sum(self.nodes.values()) + self.absent_bytes


@dataclass(frozen=True)
class Total:
    """Allocations of one kind."""

    kind: Allocated
    allocations: int
    frees: int
    requested_bytes: int
    """For all allocations together; of a caching allocator what its users wanted."""
    granted_bytes: int
    live_bytes: int
    """At the end: what leaks, where the process is to give it back."""
    live_granted_bytes: int
    peak_bytes: int
    """The most that lived at once, as requested."""
    peak_granted_bytes: int
    peak_ns: int


@dataclass(frozen=True)
class SiteResult(Total):
    """What one call at one line of one thread holds; sizes in bytes."""

    api: str
    line: str
    """`function (file:line)`, empty where not known."""
    pid: int
    tid: int
    thread: str
    live_count: int
    unused_bytes: int | None
    """What is live at the end and no copy has reached since it was made; None where copies are not all known."""
    reached_bytes: int | None
    """How much of all allocations copies have reached; None as above."""
    last_copy_ns: int | None
    """When a copy began last that uses this memory."""
    requested_by: Basis
    """Who tells what was requested: the calls, or for PyTorch's rounded blocks how far copies reach."""
    growth: Growth | None
    pages: Pages | None
    """None where no look knows any: the device's memory, small allocations, and those that live shortly."""


@dataclass(frozen=True)
class Checkpoint:
    """What lived at a moment that the program names: an edge of a range, or a mark."""

    name: str
    edge: Literal["start", "end", "mark"]
    time_ns: int
    pid: int
    """The process whose memory counts; -1 for all."""
    by_kind: Mapping[Allocated, int]
    by_line: Mapping[str, int]
    """Requested bytes by line, `OTHERS` for those of the lines that hold least."""

    @property
    def live_bytes(self) -> int:
        """All of it."""
        return sum(self.by_kind.values())


@dataclass(frozen=True)
class KernelView:
    """What a counter of the kernel says, against the ledger's page-locked memory: changes between looks between which
    the ledger changes, since the last look before its most at which it had least.
    """

    counter: Literal["VmPin", "nr_foll_pin"]
    looks: int
    """At which no call was just making or giving back such memory."""
    time_ns: int
    """When the look was at which the ledger has most, on the capture's clock."""
    counted_bytes: int
    """By the kernel, at that look."""
    ledger_bytes: int
    """By the ledger, at that look."""
    worst_bytes: int
    """The difference of any look that is furthest from 0: the kernel's minus the ledger's."""
    before_bytes: int
    """By how much the counter had grown before: the driver pins memory for itself when it creates a context."""
    beside_bytes: int
    """By how much it grew from then on while the ledger did not change: memory of the driver, or of other programs."""

    @property
    def difference_bytes(self) -> int:
        """The kernel's minus the ledger's, at the look with most."""
        return self.counted_bytes - self.ledger_bytes

    @property
    def agrees(self) -> bool:
        """Whether both differ by 1 % of what the ledger has, at most."""
        return abs(self.difference_bytes) * 100 <= self.ledger_bytes


@dataclass(frozen=True, eq=False, repr=False)
class Use:
    """What copies do with allocations; columns of their table's length."""

    last_ns: Int64
    """When the last copy that uses it begins, UNKNOWN without one."""
    begun_bytes: Int64
    """How far from its beginning the first byte lies that copies use; its size without any."""
    reached_bytes: Int64
    """How far copies reach from its beginning."""
    unplaced: int
    """Copies of which the recording does not say where they lie in page-locked or managed memory."""


@dataclass(frozen=True)
class Ledger:
    """The answer: who holds which memory of CUDA, and since when."""

    allocations: Allocations
    sites: tuple[SiteResult, ...]
    """What holds most at its peak first, page-locked memory before other kinds."""
    totals: tuple[Total, ...]
    """For each kind that there is."""
    checkpoints: tuple[Checkpoint, ...]
    checkpoints_left_out: int
    kernel: tuple[KernelView, ...]
    curves: Curves
    unplaced_copies: int
    """Copies of which the recording does not say where they lie in the host's memory."""
    notes: tuple[str, ...]
    use: Use | None = None
    """What copies do with the allocations; None where copies are not all known."""
    idle: tuple[IdlePins, ...] = ()
    """Most bytes first; empty where `use` is None."""

    @property
    def pinned(self) -> PinnedMemory:
        """What rules ask of page-locked memory."""
        sites = [site for site in self.sites if site.kind in HOST_KINDS and site.pages]
        nodes: dict[str, dict[int, int]] = {}
        for site in sites:
            of_line = nodes.setdefault(site.line, {})
            for node, size in site.pages.nodes.items() if site.pages else ():
                of_line[node] = of_line.get(node, 0) + size
        return PinnedMemory(self.idle if self.use else None, nodes)


@dataclass(frozen=True)
class Curves:
    """Live bytes over time, of the sites that hold most; each bin has the most that lived in it."""

    edge_ns: Int64
    """Where each bin begins."""
    labels: tuple[tuple[Allocated, str], ...]
    """Kind and line of each curve; the last may be OTHERS."""
    most: tuple[Int64, ...]


OTHERS = "(other lines)"
