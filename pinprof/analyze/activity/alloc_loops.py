"""What a program allocates and frees repeatedly."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import UNKNOWN_SIZE, Calls, size_class
from pinprof.analyze.activity.results import AllocLoop
from pinprof.analyze.groups import Groups, group
from pinprof.data.activity import MemoryKind
from pinprof.data.gpu_functions import PURPOSES, Purpose
from pinprof.data.model import Bool, Int64

_OPENING: dict[Purpose, str] = {
    "alloc pinned": "pinned", "alloc device": "device", "alloc managed": "managed", "register": "registered",
}  # fmt: skip
_CLOSING: dict[Purpose, str] = {"free pinned": "pinned", "free device": "device", "unregister": "registered"}
_LOOPS = ("pinned", "device", "managed", "registered")
NO_ITERATIONS: tuple[Int64, Int64] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def alloc_loops(
    calls: Calls, began_ns: int | None, iterations: tuple[Int64, Int64] = NO_ITERATIONS
) -> tuple[AllocLoop, ...]:
    """What was freed and allocated again after the program's work began, by kind and size class, most expensive first.

    Memory that is allocated piece by piece and freed piece by piece at the end does not loop: an allocation is repeated
    where its process had freed one of the class before. With the (starts, ends) of a scenario's measured iterations
    only calls inside them count, and pairs are those of one iteration on average: repeating a measurement repeats no
    allocation of the program.
    cudaFree serves device and managed memory: where the recording does not say which, it counts as device.
    """
    if began_ns is None:
        return ()
    kind_of = np.full(len(PURPOSES), -1, np.int8)
    opens = np.zeros(len(PURPOSES), np.bool_)
    for purpose, what in (*_OPENING.items(), *_CLOSING.items()):
        kind_of[PURPOSES.index(purpose)] = _LOOPS.index(what)
        opens[PURPOSES.index(purpose)] = purpose in _OPENING
    kind = kind_of[calls.purpose]
    kind[(calls.memory == MemoryKind.MANAGED) & (kind >= 0)] = _LOOPS.index("managed")
    counted = (kind >= 0) & (calls.table.start_ns >= began_ns) & ~calls.initial & ~calls.failed
    rows = np.flatnonzero(counted)
    starts, ends = iterations
    place = np.zeros(len(rows), np.int64)
    if len(starts):
        began = calls.table.start_ns[rows]
        place = np.searchsorted(starts, began, "right") - 1
        inside = (place >= 0) & (began < ends[place])
        rows, place = rows[inside], place[inside]
    # Pairs need both sides in one class, so where either side's size is unknown all sizes count together.
    sizes = size_class(calls.size_bytes[rows])
    opening = opens[calls.purpose[rows]]
    for number in range(len(_LOOPS)):
        mine = kind[rows] == number
        if (sizes[mine] < 0).any():
            sizes[mine] = UNKNOWN_SIZE
    cells = group(kind[rows], sizes + 1)
    opened = cells.sum(opening.astype(np.int64))
    again = _again(group(cells.of, calls.table.pid[rows].astype(np.int64), place), opening, len(cells))
    # Each repetition joins two pairs, the one before and its own.
    pairs = np.minimum(np.minimum(opened, cells.count - opened), 2 * again)
    cost = cells.sum(calls.duration_ns[rows]) * (2 * pairs / np.maximum(cells.count, 1))
    loops = [
        AllocLoop(
            what=_LOOPS[cells.keys[0][cell]],
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
