"""Allocations by kind, call, line and thread: what each asked for, got, holds and does not use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.results import FOREVER, HOST_KINDS, KINDS, UNKNOWN, Allocations, AllocationTable
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.pages import pages_of
from pinprof.analyze.ledger.results import BASES, Growth, Pages, SiteResult, Total, Use
from pinprof.base.columns import Int64, UInt8, ascending
from pinprof.base.statistics import trend_of
from pinprof.data.memory_log import PageTable

LEAST_STEPS = 8
"""Fewer steps show no trend."""
MOST_STEPS = 400
"""Slopes are of all pairs of steps; this is the most steps that are looked at."""
CHANCE = 0.01


def sites_of(
    allocations: Allocations,
    use: Use | None,
    threads: Mapping[tuple[int, int], str],
    steps_ns: Int64,
    basis: UInt8,
    found: PageTable,
    page: int,
) -> tuple[SiteResult, ...]:
    """What holds most at its peak first, page-locked memory before other kinds.

    `steps_ns`: when steps begin. `basis`: index into `BASES`, by row of the allocations. `found`: single pages, each of
    `page` bytes.
    """
    table = allocations.table
    if not len(table):
        return ()
    cells = group(*(column.astype(np.int64) for column in (table.kind, table.api, table.site, table.pid, table.tid)))
    order = np.argsort(cells.of, kind="stable")
    bounds = np.append(0, np.cumsum(cells.count))
    pages = pages_of(table, cells.of, len(cells), found, page)
    sites = [
        _site(allocations, order[bounds[cell] : bounds[cell + 1]], use, threads, steps_ns, basis, pages[cell])
        for cell in range(len(cells))
    ]
    return tuple(sorted(sites, key=lambda site: (site.kind not in HOST_KINDS, -site.peak_bytes, site.line)))


def _site(
    allocations: Allocations,
    rows: Int64,
    use: Use | None,
    threads: Mapping[tuple[int, int], str],
    steps_ns: Int64,
    basis: UInt8,
    pages: Pages | None,
) -> SiteResult:
    mine = allocations.table.take(rows)
    site, pid, tid = int(mine.site[0]), int(mine.pid[0]), int(mine.tid[0])
    total, live = _total(mine), mine.end_ns == FOREVER
    on_host = total.kind in (*HOST_KINDS, "managed")
    last = None if use is None else use.last_ns[rows]
    reached = None if use is None else int(use.reached_bytes[rows].sum())
    return SiteResult(
        **vars(total),
        api=allocations.names[int(mine.api[0])],
        line=allocations.sites[site] if site >= 0 else "",
        pid=pid,
        tid=tid,
        thread=threads.get((pid, tid), ""),
        live_count=int(live.sum()),
        unused_bytes=None if last is None or not on_host else int(mine.size_bytes[live & (last == UNKNOWN)].sum()),
        reached_bytes=reached if on_host else None,
        last_copy_ns=None if last is None or (last == UNKNOWN).all() else int(last.max()),
        requested_by=BASES[int(basis[rows].max())],
        growth=growth_of(StepFunction.of(mine, mine.size_bytes), steps_ns),
        pages=pages,
    )


def growth_of(level: StepFunction, steps_ns: Int64) -> Growth | None:
    """The trend of what lives when steps begin; None of fewer than LEAST_STEPS, or where it never changes."""
    if len(steps_ns) < LEAST_STEPS:
        return None
    chosen = ascending(np.linspace(0, len(steps_ns) - 1, min(len(steps_ns), MOST_STEPS)).astype(np.int64))
    live = level.at(steps_ns[chosen]).astype(np.float64)
    if (live == live[0]).all():
        return None
    slope, chance = trend_of(chosen, live)
    return Growth(slope, len(steps_ns), chance < CHANCE and slope != 0)


def totals_of(table: AllocationTable) -> tuple[Total, ...]:
    """For each kind that there is."""
    return tuple(_total(table.take(table.kind == number)) for number in ascending(table.kind))


def _total(mine: AllocationTable) -> Total:
    """Of allocations of one kind."""
    (peak, peak_ns), (granted_peak, _) = (
        StepFunction.of(mine, size).peak for size in (mine.size_bytes, mine.granted_bytes)
    )
    live = mine.end_ns == FOREVER
    return Total(
        kind=KINDS[int(mine.kind[0])],
        allocations=len(mine),
        frees=int(mine.freed.sum()),
        requested_bytes=int(mine.wanted_bytes.sum()),
        granted_bytes=int(mine.granted_bytes.sum()),
        live_bytes=int(mine.size_bytes[live].sum()),
        live_granted_bytes=int(mine.granted_bytes[live].sum()),
        peak_bytes=peak,
        peak_granted_bytes=granted_peak,
        peak_ns=peak_ns,
    )
