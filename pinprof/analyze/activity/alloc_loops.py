"""What a program allocates and frees repeatedly."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import UNKNOWN_SIZE, Calls, size_class
from pinprof.analyze.activity.results import AllocLoop
from pinprof.analyze.allocations.results import KINDS, Allocations
from pinprof.analyze.groups import Groups, group
from pinprof.data.model import Bool, Int64

NO_ITERATIONS: tuple[Int64, Int64] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def alloc_loops(
    calls: Calls,
    history: Allocations | None,
    began_ns: int | None,
    iterations: tuple[Int64, Int64] = NO_ITERATIONS,
) -> tuple[AllocLoop, ...]:
    """What was freed and allocated again after the program's work began, by kind and size class, most expensive first.

    Memory that is allocated piece by piece and freed piece by piece at the end does not loop: an allocation is repeated
    where its process had freed one of the class before. With the (starts, ends) of a scenario's measured iterations
    only calls inside them count, and pairs are those of one iteration on average: repeating a measurement repeats no
    allocation of the program.
    """
    if began_ns is None or history is None:
        return ()
    made = history.table.take(history.table.call >= 0)
    freed = np.flatnonzero(made.free >= 0)
    rows, of = np.concatenate([made.call, made.free[freed]]), np.concatenate([np.arange(len(made)), freed])
    opening = np.arange(len(rows)) < len(made)
    began = calls.table.start_ns[rows]
    counted = (began >= began_ns) & ~calls.initial[rows]
    starts, ends = iterations
    place = np.zeros(len(rows), np.int64)
    if len(starts):
        place = np.searchsorted(starts, began, "right") - 1
        counted &= (place >= 0) & (began < ends[place])
    order = np.flatnonzero(counted)[np.argsort(began[counted], kind="stable")]
    rows, of, opening, place = rows[order], of[order], opening[order], place[order]
    kind = np.where(made.kind == KINDS.index("pool"), KINDS.index("device"), made.kind)[of]
    # Where a size is unknown, or what was freed is not certain, all sizes count together.
    sizes = size_class(calls.size_bytes[made.call])[of]
    sizes = np.where(np.isin(kind, kind[(sizes < 0) | (~opening & (made.freed[of] == 0))]), UNKNOWN_SIZE, sizes)
    cells = group(kind, sizes + 1)
    opened = cells.sum(opening.astype(np.int64))
    again = _again(group(cells.of, calls.table.pid[rows].astype(np.int64), place), opening, len(cells))
    # Each repetition joins two pairs, the one before and its own.
    pairs = np.minimum(np.minimum(opened, cells.count - opened), 2 * again)
    cost = cells.sum(calls.duration_ns[rows]) * (2 * pairs / np.maximum(cells.count, 1))
    loops = [
        AllocLoop(
            what=KINDS[cells.keys[0][cell]],
            up_to_bytes=1 << int(cells.keys[1][cell] - 1) if cells.keys[1][cell] else None,
            pairs=int(pairs[cell]) // max(len(starts), 1),
            cost_ns=round(float(cost[cell])),
        )
        for cell in range(len(cells))
    ]
    return tuple(sorted((loop for loop in loops if loop.pairs), key=lambda loop: -loop.cost_ns))


def _again(within: Groups, opening: Bool, cells: int) -> Int64:
    """Per cell, the first key of `within`, how many allocations take the place of one that was freed in their group."""
    order = np.argsort(within.of, kind="stable")
    live = np.cumsum(np.where(opening, 1, -1)[order])
    before = np.append(0, live)[np.cumsum(within.count) - within.count]
    held = np.zeros(len(order), np.int64)
    held[order] = live - np.repeat(before, within.count)
    # As many as were live at once at most were fresh; all others took the place of a freed one.
    fresh = np.maximum(within.max(held), 0)
    repeated = within.sum(opening.astype(np.int64)) - fresh
    again = np.zeros(cells, np.int64)
    np.add.at(again, within.keys[0], repeated)
    return again
