"""Intervals off the CPU, cut where ranges begin and end.

Afterwards every interval lies inside a range or outside it, so that sums over a range, a filter of the page or an
export count exactly the part that overlaps, by its begin, like any other sample. Threads without work wait for nearly
the whole run: their waits stay whole (`resting`) for all that does not count single pieces (`Run.in_pieces`),
since there would be as many of these as threads times edges of ranges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pinprof.analyze.intervals import numbers
from pinprof.analyze.ranges.membership import EVERYBODY, kernel_threads, owners
from pinprof.base.columns import looked_up
from pinprof.data.model import CONTINUED, Bool, Capture, Int64

if TYPE_CHECKING:
    from pinprof.analyze.attribution.attribute import Attribution

IDLE_EVENT = "idle-threads"
"""The event of the waits of threads without work."""
MOST_PIECES = 4_000_000
"""With more pieces than this only the edges of outermost ranges cut, and with still more none."""
_EVERY_RANGE = -2
"""Stands for the process of a kernel thread, whose intervals every range cuts."""


def resting(capture: Capture) -> Bool:
    """Per sample, whether it is a wait of a thread without work, and of none whose own time a range takes."""
    idle = np.array([event.name == IDLE_EVENT for event in capture.events], np.bool_)
    idle = looked_up(idle, capture.samples.event)
    return idle & ~np.isin(capture.samples.tid, np.unique(capture.ranges.tid)) if idle.any() else idle


def cut(capture: Capture, attribution: Attribution, whole: Bool | None = None) -> tuple[Capture, Attribution]:
    """The same capture with its intervals in pieces; itself where there is nothing to cut.

    A range cuts the intervals that may belong to it (`ranges.membership`), but none that stays `whole` (a mask).
    """
    pieces, row = _in_pieces(capture, whole)
    if row is None:
        return pieces, attribution
    columns = {name: getattr(attribution, name)[row] for name in ("leaf", "work", "groups", "heuristic")}
    return pieces, replace(attribution, **columns)


def cut_capture(capture: Capture) -> Capture:
    """The same of a capture that nobody has explained."""
    return _in_pieces(capture, None)[0]


def _in_pieces(capture: Capture, whole: Bool | None) -> tuple[Capture, Int64 | None]:
    """The capture, and per sample which one it was before; None where it is the same capture."""
    samples, ranges = capture.samples, capture.ranges
    spans = capture.spans
    chosen = looked_up(spans, samples.event) & (samples.weight > 0) if spans.any() else np.zeros(len(samples), np.bool_)
    rows = np.flatnonzero(chosen if whole is None else chosen & ~whole)
    if not len(rows) or not len(ranges):
        return capture, None
    for cutting in (np.ones(len(ranges), np.bool_), ranges.depth == 0):
        edges, low, high = _edges(capture, rows, cutting)
        pieces = int((high - low).sum())
        if not pieces:
            return capture, None
        if pieces <= MOST_PIECES:
            return _cut(capture, rows, edges, low, high)
    note = "Waits are counted where they began: too many of them reach across the edges of ranges."
    return capture.with_notes(note), None


def cut_at(capture: Capture, edges: Int64) -> Capture:
    """The same capture with every interval that reaches across an instant in two."""
    samples = capture.samples
    spans, rows = capture.spans, np.zeros(0, np.int64)
    if spans.any():
        rows = np.flatnonzero(looked_up(spans, samples.event) & (samples.weight > 0))
    if not len(rows) or not len(edges):
        return capture
    low = np.searchsorted(edges, samples.time_ns[rows], "right")
    high = np.searchsorted(edges, samples.time_ns[rows] + samples.weight[rows], "left")
    return _cut(capture, rows, edges, low, np.maximum(low, high))[0]


def _edges(capture: Capture, rows: Int64, chosen: Bool) -> tuple[Int64, Int64, Int64]:
    """All edges, and per row which of them lie strictly inside its interval: (edges, low, high)."""
    samples, ranges = capture.samples, capture.ranges
    owner = owners(ranges, samples.pid)
    process = np.where(kernel_threads(capture)[rows], _EVERY_RANGE, samples.pid[rows])
    begin, end = samples.time_ns[rows], samples.time_ns[rows] + samples.weight[rows]
    low, high = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    by_process, count = [], 0
    for pid in np.unique(process).tolist():
        mine = chosen & ((owner == pid) | (owner == EVERYBODY) | (pid == _EVERY_RANGE))
        edges = np.unique(np.concatenate([ranges.start_ns[mine], ranges.end_ns[mine]]))
        here = process == pid
        low[here] = count + np.searchsorted(edges, begin[here], "right")
        high[here] = count + np.searchsorted(edges, end[here], "left")
        by_process.append(edges)
        count += len(edges)
    return np.concatenate(by_process), low, np.maximum(low, high)


def _cut(capture: Capture, rows: Int64, edges: Int64, low: Int64, high: Int64) -> tuple[Capture, Int64]:
    samples = capture.samples
    row, edge = numbers(low, high)
    inside = edges[edge]
    source = np.concatenate([np.arange(len(samples)), rows[row]])
    begin = np.concatenate([samples.time_ns, inside])
    # Up to the next edge inside the same interval, or to its end.
    end = (samples.time_ns + samples.weight)[source]
    last = np.append(row[1:] != row[:-1], True) if len(row) else np.zeros(0, np.bool_)
    end[len(samples) :] = np.where(last, end[len(samples) :], np.append(inside[1:], 0))
    split = high > low
    end[rows[split]] = edges[low[split]]
    weight = samples.weight[source]
    pieces = np.append(rows[split], np.arange(len(samples), len(source)))
    weight[pieces] = end[pieces] - begin[pieces]
    wait = np.zeros(len(source), np.uint8) if samples.wait is None else samples.wait[source]
    wait[len(samples) :] |= CONTINUED
    order = np.argsort(begin, kind="stable")
    row = source[order]
    table = replace(samples.take(row), time_ns=begin[order], weight=weight[order], wait=wait[order])
    return replace(capture, samples=table), row
