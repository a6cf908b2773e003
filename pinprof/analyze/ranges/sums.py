"""Sums of events inside ranges, by what they are: ranges that lie inside each other don't count their events again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.groups import group
from pinprof.analyze.intervals import batches
from pinprof.analyze.ranges.membership import Events, Scopes
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64


@dataclass(frozen=True)
class Sums:
    """Cells of (scope, code) with the sums of two amounts; no cell twice."""

    scope: Int64
    code: Int64
    first: Int64
    second: Int64


def summed(scopes: Scopes, events: Events, code: Int64, first: Int64, second: Int64) -> Iterator[Sums]:
    """The cells of the whole recording and of all ranges; `code` has few values.

    A range with more events than codes is the difference of two running sums for each code, and others look at their
    events one by one. So the work grows with the events and the ranges, not with their product.
    """
    crowded = np.zeros(len(scopes.paths), np.bool_)
    for owner, paths in _crowded(scopes, events, code):
        yield from _differences(scopes.only(paths), events, owner, code, (first, second))
        crowded |= paths
    for scope, row in scopes.only(~crowded).members(events):
        cells = group(scope, code[row])
        of, what = cells.keys
        yield Sums(of, what, cells.sum(first[row]), cells.sum(second[row]))


def _crowded(scopes: Scopes, events: Events, code: Int64) -> Iterator[tuple[int, Bool]]:
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
    for owner in np.unique(of[fits]).tolist():
        paths = fits & (of == owner)
        if size[paths].sum() > 2 * len(events):
            yield owner, paths


def _differences(
    scopes: Scopes, events: Events, owner: int, code: Int64, amounts: tuple[Int64, Int64]
) -> Iterator[Sums]:
    """The cells of paths of one process."""
    order, low, high = scopes.bounds(events)
    mine = events.counted(owner) if order is None else events.counted(owner)[order]
    before = np.append(0, np.cumsum(mine))
    row = np.flatnonzero(mine) if order is None else order[mine]
    by_code = np.argsort(code[row], kind="stable")
    present, place = np.unique(code[row], return_inverse=True)
    width = len(row) + 1
    key = place.reshape(-1)[by_code] * width + by_code
    running = [np.append(0, np.cumsum(amount[row[by_code]])) for amount in amounts]
    number = np.arange(len(present))
    for paths in batches(np.bincount(scopes.path, minlength=len(scopes.paths)) * len(present)):
        part = slice(*np.searchsorted(scopes.path, paths))
        start, end = (np.searchsorted(key, number * width + before[edge[part]][:, np.newaxis]) for edge in (low, high))
        interval, which = np.nonzero(end > start)
        last, begin = end[interval, which], start[interval, which]
        cells = group(scopes.path[part][interval] + 1, present[which])
        of, what = cells.keys
        first, second = (cells.sum(total[last] - total[begin]) for total in running)
        yield Sums(of, what, first, second)
