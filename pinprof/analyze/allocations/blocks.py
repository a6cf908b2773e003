"""Large memory of the host by the line that makes it: how often, how much, how long it lives, what is made again.

A line needs as much memory as lives at once. All that it makes beyond that could have lain in memory that it had given
back: it is made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pinprof.analyze.groups import group
from pinprof.base.columns import Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory, Maker

_GROWS = (Maker.REALLOC, Maker.MREMAP)
_PAGE = 4096
_LEAST_RETURN_NS, _RETURN_NS_PER_PAGE = 1_500, 3.0
"""To give pages to the kernel takes a call of it, and 10 to 60 ns each; an allocator that keeps them takes 0.1 µs."""


@dataclass(frozen=True)
class LineBlocks:
    """What one line makes in one process, by the allocator and by mappings."""

    site: HostSite
    pid: int
    zeroed: bool
    """Whether its maker asks for zeros (`calloc`), which memory that stays has to be given."""
    grows: bool
    """Whether it grows what is there: `realloc` and `mremap` make memory again as their work."""
    made: int
    made_bytes: int
    given: int
    """How often it was given back, …"""
    given_bytes: int
    given_at: tuple[tuple[HostSite, int], ...]
    """… where, and how often there; what was given back most often first."""
    elsewhere: int
    """How often by another thread."""
    most: int
    """How many lived at once at most, …"""
    most_bytes: int
    """… and how many bytes did."""
    lifetime_ns: int
    """The lifetimes of those that were given back, added up."""
    giving_ns: int
    """How long giving them back took, of all together."""
    making_ns: int
    typical_giving_ns: float
    """How long one took, the median of those that were recorded by themselves."""

    @property
    def again(self) -> int:
        """How often it made what could have lain in memory that it had made before."""
        return max(self.made - self.most, 0)

    @property
    def again_bytes(self) -> int:
        """How much of it."""
        return max(self.made_bytes - self.most_bytes, 0)

    @property
    def live(self) -> int:
        """How many were never given back."""
        return max(self.made - self.given, 0)

    @property
    def mean_lifetime_ns(self) -> int:
        """Of one that was given back."""
        return self.lifetime_ns // max(self.given, 1)

    @cached_property
    def returned(self) -> bool:
        """Whether its pages go back to the kernel when it is given back: else the allocator keeps them."""
        pages = self.given_bytes / max(self.given, 1) / _PAGE
        return self.given > 0 and self.typical_giving_ns > max(_LEAST_RETURN_NS, _RETURN_NS_PER_PAGE * pages)


def blocks_of(memory: LargeMemory | None) -> tuple[LineBlocks, ...]:
    """By line, process and whether it grows memory; what made most first. Without what nobody is known to have made."""
    if memory is None:
        return ()
    table = memory.table
    table = table.take((table.site >= 0) & np.isin(table.event, (HostEvent.MADE, HostEvent.GIVEN)))
    found = [each for each in _by_line(memory, table) if each.made]
    return tuple(sorted(found, key=lambda each: -each.made_bytes))


def _by_line(memory: LargeMemory, table: HostMemoryTable) -> Iterator[LineBlocks]:
    callers: dict[object, int] = {}
    line = np.array([callers.setdefault(site.caller, len(callers)) for site in memory.sites] or [0], np.int64)
    grows = np.isin(table.maker, _GROWS)
    cells = group(table.pid.astype(np.int64), line[table.site], grows.astype(np.int64))
    for rows in cells.rows():
        yield _line(memory, table.take(rows), grows=bool(grows[rows[0]]))


def _line(memory: LargeMemory, table: HostMemoryTable, *, grows: bool) -> LineBlocks:
    made, given = table.event == HostEvent.MADE, table.event == HostEvent.GIVEN
    places, which = np.unique(table.given_at[given], return_inverse=True)
    often = np.bincount(which.reshape(-1), weights=table.count[given], minlength=len(places)).astype(np.int64)
    order = np.argsort(-often, kind="stable")
    single = given & (table.count == 1)
    chosen = single if single.any() else given
    each = table.took_ns[chosen] / np.maximum(table.count[chosen], 1)
    return LineBlocks(
        site=memory.sites[int(table.site[made][0] if made.any() else table.site[0])],
        pid=int(table.pid[0]),
        zeroed=bool(made.any() and (table.maker[made] == Maker.CALLOC).all()),
        grows=grows,
        made=int(table.count[made].sum()),
        made_bytes=int(table.size_bytes[made].sum()),
        given=int(table.count[given].sum()),
        given_bytes=int(table.size_bytes[given].sum()),
        given_at=tuple((memory.sites[place], count) for place, count in zip(
            places[order].tolist(), often[order].tolist(), strict=True) if place >= 0),
        elsewhere=int(table.count[given & table.elsewhere].sum()),
        most=_most(np.where(made, table.count, -table.count)),
        most_bytes=_most(np.where(made, table.size_bytes, -table.size_bytes)),
        lifetime_ns=int(table.lifetime_ns.sum()),
        giving_ns=int(table.took_ns[given].sum()),
        making_ns=int(table.took_ns[made].sum()),
        typical_giving_ns=float(np.median(each)) if len(each) else 0.0,
    )  # fmt: skip


def _most(change: Int64) -> int:
    """The most that lives at once."""
    return max(int(np.cumsum(change).max(initial=0)), 0)
