"""Wall-clock truth: a range's own time as causes on the processor, waits off it, and what neither explains.

Only the thread that opened a range counts: its time cannot pass twice. What other threads did meanwhile is next to it,
in the range's events.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.intervals import batches, numbers
from pinprof.analyze.ranges.membership import Membership
from pinprof.analyze.ranges.own_samples import own_samples
from pinprof.analyze.results import RangeWall
from pinprof.data.model import Capture, Int16, Int64, clock_event


def range_walls(capture: Capture, attribution: Attribution, members: Membership) -> tuple[RangeWall | None, ...]:
    """Per path its wall time, explained; None where its thread is not known.

    Empty for a recording without waits: its gaps then show as such (`RangeResult.own_thread_ns`). Intervals must
    have been cut at the ranges' edges (spans.py).
    """
    ranges, samples = capture.ranges, capture.samples
    clock = clock_event(capture.events)
    spans = [number for number, event in enumerate(capture.events) if event.spans]
    if clock is None or not spans or not len(ranges):
        return ()
    path, paths = members.path, members.paths
    timed = np.isin(samples.event, [clock, *spans])
    amount = np.zeros((len(paths), 2, len(CATEGORIES)), np.int64)
    waiting = np.isin(samples.event, spans).astype(np.int64)
    known = np.ones(len(paths), np.bool_)
    own = own_samples(capture, timed)
    known[path[~own.known]] = False
    part = (waiting[own.row], attribution.leaf[own.row], samples.weight[own.row])
    _add(amount, path, own.first, own.last, *part)
    wall = np.zeros(len(paths), np.int64)
    np.add.at(wall, path, ranges.end_ns - ranges.start_ns)
    count = np.bincount(path, minlength=len(paths))
    error = _error_ns(capture, clock, count)
    gap = wall - amount.sum(axis=(1, 2))
    totals = zip(known.tolist(), wall.tolist(), _by_leaf(amount), gap.tolist(), error.tolist(), strict=True)
    return tuple(
        RangeWall(wall_ns, on_cpu, off_cpu, gap_ns, error_ns) if is_known else None
        for is_known, wall_ns, (on_cpu, off_cpu), gap_ns, error_ns in totals
    )


def _add(amount: Int64, path: Int64, low: Int64, high: Int64, waiting: Int64, leaf: Int16, weight: Int64) -> None:
    """Add the rows [low, high) of every instance to its path, some instances at a time."""
    for start, end in batches(high - low):
        place, row = numbers(low[start:end], high[start:end])
        np.add.at(amount, (path[start:end][place], waiting[row], leaf[row]), weight[row])


def _error_ns(capture: Capture, clock: int, count: Int64) -> Int64:
    """One period is sampled whole or not at all at each edge of a range: two uniform errors for each instance."""
    weight = capture.samples.weight[capture.samples.event == clock]
    period = float(weight.mean()) if len(weight) else 0.0
    return np.asarray((period * np.sqrt(count / 6)).astype(np.int64))


def _by_leaf(amount: Int64) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Per path its amounts on the processor and off it by cause, the largest first."""
    found: list[tuple[dict[str, int], dict[str, int]]] = [({}, {}) for _ in amount]
    path, part, leaf = np.nonzero(amount)
    value = amount[path, part, leaf]
    order = np.argsort(-value, kind="stable")
    columns = (column[order].tolist() for column in (path, part, leaf, value))
    for where, which, number, much in zip(*columns, strict=True):
        found[where][which][CATEGORIES[number].name] = much
    return found
