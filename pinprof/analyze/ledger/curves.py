"""Live bytes over time, by kind and line: in bins that keep each peak."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.results import FOREVER, KINDS, Allocations
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.results import OTHERS, Curves
from pinprof.base.columns import Int64, ascending

BINS = 400
MOST_CURVES = 8


def curves_of(allocations: Allocations, end_ns: int) -> Curves:
    """From the first allocation to the end of the recording; what holds most at its peak has a curve of its own."""
    table = allocations.table
    if not len(table):
        return Curves(np.zeros(0, np.int64), (), ())
    begin = int(table.start_ns.min())
    last = int(max(table.start_ns.max(), table.end_ns[table.end_ns < FOREVER].max(initial=begin), end_ns))
    # In whole numbers: as floating point ones, the last times that there can be are out of range.
    step, more = divmod(max(last - begin, 1), BINS)
    bins = np.arange(BINS, dtype=np.int64)
    edges: Int64 = ascending(begin + bins * step + bins * more // BINS)
    cells = group(table.kind.astype(np.int64), table.site.astype(np.int64))
    order = np.argsort(cells.of, kind="stable")
    bounds = np.append(0, np.cumsum(cells.count))
    levels = []
    for cell in range(len(cells)):
        mine = table.take(order[bounds[cell] : bounds[cell + 1]])
        levels.append((StepFunction.of(mine, mine.size_bytes).peak[0], cell))
    levels.sort(key=lambda entry: (-entry[0], entry[1]))
    labels, most = [], []
    for _, cell in levels[:MOST_CURVES]:
        mine = table.take(order[bounds[cell] : bounds[cell + 1]])
        site = int(cells.keys[1][cell])
        labels.append((KINDS[int(cells.keys[0][cell])], allocations.sites[site] if site >= 0 else ""))
        most.append(StepFunction.of(mine, mine.size_bytes).most_in(edges))
    rest = [cell for _, cell in levels[MOST_CURVES:]]
    for number, kind in enumerate(KINDS):
        chosen = [cell for cell in rest if cells.keys[0][cell] == number]
        if chosen:
            mine = table.take(np.isin(cells.of, chosen))
            labels.append((kind, OTHERS))
            most.append(StepFunction.of(mine, mine.size_bytes).most_in(edges))
    return Curves(edges, tuple(labels), tuple(most))
