"""Sums of events inside ranges, by what they are: ranges that lie inside each other don't count their events again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.groups import Groups, group
from pinprof.analyze.intervals import batches, union_by_key
from pinprof.analyze.ranges.membership import WHOLE, Events, Scopes
from pinprof.analyze.ranges.order import smallest
from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64


@dataclass(frozen=True)
class Spreads:
    """How a value is distributed, by cell."""

    least: Int64
    median: Int64
    """The lower one of two."""
    most: Int64
    first: Int64
    """The value of the first event, where these are in the order of time."""


@dataclass(frozen=True)
class Sums:
    """Cells of (scope, code) with the sums of some amounts; no cell twice, and those of a scope by ascending code."""

    scope: Int64
    code: Int64
    amounts: tuple[Int64, ...]
    spreads: Spreads | None
    """Spreads of a value, where one was given."""


def summed(
    scopes: Scopes,
    events: Events,
    code: NDArray[np.integer],
    amounts: Sequence[NDArray[np.integer] | Bool],
    value: Int64 | None = None,
) -> Iterator[Sums]:
    """The cells of the whole recording and of all ranges; `code` has few values.

    A range with more events than codes is the difference of two running sums for each code, and others look at their
    events one by one. So the work grows with the events and the ranges, not with their product.
    """
    crowded = np.zeros(len(scopes.paths), np.bool_)
    for owner, paths in _crowded(scopes, events, code):
        yield _differences(scopes.only(paths), events, owner, code, amounts, value)
        crowded |= paths
    for scope, row in scopes.only(~crowded).members(events):
        cells = group(scope, code[row])
        of, what = cells.keys
        spreads = None if value is None else _spreads(cells, value[row])
        yield Sums(of, what, tuple(cells.sum(amount[row]) for amount in amounts), spreads)


def overlapping(
    scopes: Scopes, events: Events, rows: Int64, length: Int64, code: NDArray[np.integer]
) -> Iterator[Sums]:
    """The cells of the intervals `rows`, which begin when the events do: the ns of them in each scope, and 0 samples.

    How much of several lies before an instant is a sum over those that have begun, less one over those that have ended.
    """
    asleep = np.zeros(len(events), np.bool_) if events.kernel_thread is None else events.kernel_thread
    alike = group(asleep[rows].astype(np.int8), events.pid[rows])
    for number in range(len(alike)):
        mine = rows[alike.of == number]
        here = events.counted(scopes.owner, np.full(len(scopes.owner), mine[0]))
        path, start, end = union_by_key(scopes.path[here], scopes.start_ns[here], scopes.end_ns[here])
        of_code = group(code[mine])
        for place, what in enumerate(of_code.keys[0].tolist()):
            chosen = mine[of_code.of == place]
            begin, ends = np.sort(events.time_ns[chosen]), np.sort(events.time_ns[chosen] + length[chosen])
            before = [_before(begin, at) - _before(ends, at) for at in (start, end)]
            total = np.zeros(len(scopes), np.int64)
            total[WHOLE] = length[chosen].sum()
            np.add.at(total, path + 1, before[1] - before[0])
            scope = np.flatnonzero(total)
            yield Sums(scope, np.full(len(scope), what), (total[scope], np.zeros(len(scope), np.int64)), None)


def _before(instants: Int64, at: Int64) -> Int64:
    """Per instant of `at` how long before it the others are, those before it taken together.

    This may be more than 64 bits hold; a difference of two of them is right all the same.
    """
    past = np.searchsorted(instants, at, "left")
    return np.asarray(past * at - np.append(0, np.cumsum(instants))[past])


def _spreads(cells: Groups, value: Int64) -> Spreads:
    return Spreads(cells.min(value), cells.median(value), cells.max(value), cells.first(value))


def _crowded(scopes: Scopes, events: Events, code: NDArray[np.integer]) -> Iterator[tuple[int, Bool]]:
    """(process, mask of paths): those of one process that together hold every event more than once, and many a code."""
    if not len(scopes.path):
        return
    _, low, high = scopes.bounds(events)
    count = len(scopes.paths)
    size, intervals = (np.bincount(scopes.path, amount, count) for amount in (high - low, np.ones(len(low))))
    fits = size > 2 * intervals * (int(code.max(initial=0)) + 1)
    several = scopes.path[1:][(scopes.path[1:] == scopes.path[:-1]) & (scopes.owner[1:] != scopes.owner[:-1])]
    fits[several] = False
    of = np.zeros(count, np.int64)
    of[scopes.path] = scopes.owner
    for owner in ascending(of[fits]).tolist():
        paths = fits & (of == owner)
        if size[paths].sum() > 2 * len(events):
            yield owner, paths


def _differences(
    scopes: Scopes,
    events: Events,
    owner: int,
    code: NDArray[np.integer],
    amounts: Sequence[NDArray[np.integer] | Bool],
    value: Int64 | None,
) -> Sums:
    """The cells of paths of one process."""
    order, low, high = scopes.bounds(events)
    mine = events.counted(owner) if order is None else events.counted(owner)[order]
    before = np.append(0, np.cumsum(mine))
    row = np.flatnonzero(mine) if order is None else order[mine]
    by_code = np.argsort(code[row], kind="stable")
    present, place = np.unique(code[row], return_inverse=True)
    width = len(row) + 1
    key = place.reshape(-1)[by_code] * width + by_code
    ordered = row[by_code]
    number = np.arange(len(present))
    pieces = []
    for paths in batches(np.bincount(scopes.path, minlength=len(scopes.paths)) * len(present)):
        part = slice(*np.searchsorted(scopes.path, paths))
        start, end = (np.searchsorted(key, number * width + before[edge[part]][:, np.newaxis]) for edge in (low, high))
        interval, which = np.nonzero(end > start)
        pieces.append((scopes.path[part][interval] + 1, which, start[interval, which], end[interval, which]))
    scope, which, begin, last = (np.concatenate(column) for column in zip(*pieces, strict=True))
    cells = group(scope, present[which])
    of, what = cells.keys
    sums = []
    for amount in amounts:
        running = np.append(0, np.cumsum(amount[ordered]))
        sums.append(cells.sum(running[last] - running[begin]))
    spreads = None
    if value is not None:
        count = cells.sum(last - begin)
        nth = (np.zeros(len(count), np.int64), (count - 1) // 2, count - 1)
        least, median, most = smallest(value[ordered], (begin, last, cells.of), nth)
        spreads = Spreads(least, median, most, value[ordered[cells.min(begin)]])
    return Sums(of, what, tuple(sums), spreads)
