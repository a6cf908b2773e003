"""Where the pages of allocations lie: by NUMA node, and in huge pages or small ones.

The recording asked for single pages of large mappings at a few moments (collect/placement.py). Those inside an
allocation that lived at such a moment stand for all of its pages, where they are enough and in each quarter of it; else
its pages are unknown.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.allocations.results import HOST_KINDS, KINDS, AllocationTable
from pinprof.analyze.ledger.results import Pages
from pinprof.base.columns import Int64, ascending
from pinprof.data.memory_log import PageTable

LEAST_BYTES = 1 << 20
"""Pages of smaller allocations are hardly ever among those that were asked for."""
LEAST_PAGES = 8
"""Fewer do not stand for an allocation."""
MOST_LOOKS = 400
"""The most looks that are taken; from more, evenly."""
_NO_PAGE = -1
_MOST_NODES = 64


def pages_of(table: AllocationTable, cell: Int64, cells: int, found: PageTable, page: int) -> list[Pages | None]:
    """By cell its pages at the look that knows most of them, the last of those; None where none knows any.

    `cell`: of each allocation; `page`: bytes of one.
    """
    best: list[Pages | None] = [None] * cells
    held = (table.address > 0) & (table.granted_bytes >= LEAST_BYTES)
    held &= np.isin(table.kind, [KINDS.index(kind) for kind in (*HOST_KINDS, "managed")])
    rows = np.flatnonzero(held)
    if not len(rows) or not len(found):
        return best
    found = found.take(np.lexsort((found.address, found.pid, found.time_ns)))
    changes = (np.diff(found.time_ns) != 0) | (np.diff(found.pid) != 0)
    bounds = np.append(np.flatnonzero(np.append(True, changes)), len(found))
    looks = np.arange(len(bounds) - 1)
    if len(looks) > MOST_LOOKS:
        looks = ascending(np.linspace(0, len(looks) - 1, MOST_LOOKS).astype(np.int64))
    for look in looks.tolist():
        points = found.take(slice(bounds[look], bounds[look + 1]))
        time, pid = int(points.time_ns[0]), points.pid[0]
        alive = rows[(table.pid[rows] == pid) & (table.start_ns[rows] <= time) & (table.end_ns[rows] > time)]
        for number, pages in _seen(table.take(alive), cell[alive], points, page):
            known = best[number]
            if known is None or pages.known_bytes >= known.known_bytes:
                best[number] = pages
    return best


def _seen(table: AllocationTable, cell: Int64, points: PageTable, page: int) -> list[tuple[int, Pages]]:
    """What one look says of the allocations that lived then, by cell."""
    size = table.granted_bytes
    begin = table.address // np.uint64(page) * np.uint64(page)
    first = np.searchsorted(points.address, begin)
    # No sum of 64 bits: what begins at one of the last addresses would end at one of the first.
    span = np.minimum(size.astype(np.uint64), np.uint64(2**64 - 1) - table.address)
    last = np.searchsorted(points.address, table.address + span)
    count = last - first
    # What lies in several mappings may have been looked at in part.
    quarters = (span // np.uint64(4))[:, None] * np.arange(1, 4, dtype=np.uint64)
    cuts = np.searchsorted(points.address, table.address[:, None] + quarters)
    whole = (np.diff(np.column_stack([first, cuts, last]), axis=1) > 0).all(axis=1)
    enough = np.flatnonzero((count >= LEAST_PAGES) & whole)
    if not len(enough):
        return []
    first, last, count, size_known = first[enough], last[enough], count[enough], size[enough].astype(np.float64)

    def share(hit: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Bytes of each allocation, by the part of its pages that are such ones."""
        sums = np.append(0, np.cumsum(hit))
        return np.asarray((sums[last] - sums[first]) / count * size_known)

    of, numbers = np.unique(cell[enough], return_inverse=True)
    numbers = numbers.reshape(-1)

    def total(amount: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[int]:
        return [round(value) for value in np.bincount(numbers, amount, len(of)).tolist()]

    names = ascending(points.node[points.node >= 0]).tolist()[:_MOST_NODES]
    nodes = {node: total(share(points.node == node)) for node in names}
    absent = total(share(points.node == _NO_PAGE))
    huge, sized = total(share(points.huge == 1)), total(share(points.huge >= 0))
    looked = total(count.astype(np.float64))
    everything = np.bincount(cell, size.astype(np.float64), int(of[-1]) + 1)[of].tolist()
    result = []
    for place, number in enumerate(of.tolist()):
        by_node = {node: amounts[place] for node, amounts in nodes.items() if amounts[place]}
        known = sum(by_node.values()) + absent[place]
        result.append(
            (
                number,
                Pages(
                    time_ns=int(points.time_ns[0]),
                    nodes=by_node,
                    absent_bytes=absent[place],
                    unknown_bytes=max(round(everything[place]) - known, 0),
                    huge_share=huge[place] / sized[place] if sized[place] else None,
                    looked_at=looked[place],
                ),
            )
        )
    return [entry for entry in result if entry[1].known_bytes]
