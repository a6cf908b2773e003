"""Intervals off the CPU, and the edges of ranges.

A wait is in a range for as long as they overlap (`across`). It is cut only where ranges of its own thread begin and
end, which is rare: a range that another thread ends. So the pieces of a thread are no more than its waits and its
edges, however many threads wait meanwhile. What knows one range for each sample asks for all edges (`Run.in_pieces`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pinprof.analyze.intervals import numbers
from pinprof.analyze.ranges.membership import EVERYBODY, kernel_threads, owners
from pinprof.base.columns import ascending, looked_up, numbered, numbered_pairs, unpack
from pinprof.data.model import CONTINUED, Bool, Capture, Int64

if TYPE_CHECKING:
    from pinprof.analyze.attribution.attribute import Attribution

IDLE_EVENT = "idle-threads"
"""The event of the waits of threads without work."""
MOST_PIECES = 4_000_000
"""With more pieces than this intervals stay whole."""
_EVERY_RANGE = -2
"""Stands for the process of a kernel thread, whose intervals every range cuts."""


def across(capture: Capture) -> Bool:
    """Per sample, whether it is an interval that reaches across an edge of a range that may count it."""
    found, rows = np.zeros(len(capture.samples), np.bool_), _intervals(capture)
    if len(rows) and len(capture.ranges):
        _, low, high = _edges(capture, rows, every(capture))
        found[rows[high > low]] = True
    return found


def every(capture: Capture) -> Bool:
    """All ranges of a capture, as a mask."""
    return np.ones(len(capture.ranges), np.bool_)


def cut(capture: Capture, attribution: Attribution, by: Bool | None = None) -> tuple[Capture, Attribution]:
    """The same capture with its intervals in pieces; itself where there is nothing to cut.

    Chosen ranges (a mask) cut all intervals that may belong to them (`ranges.membership`); without a choice each range
    those of its own thread.
    """
    pieces, row = _in_pieces(capture, by)
    return pieces, attribution if row is None else attribution.of_samples(row)


def cut_capture(capture: Capture, by: Bool | None) -> Capture:
    """The same of a capture that nobody has explained."""
    return _in_pieces(capture, by)[0]


def cut_at(capture: Capture, edges: Int64) -> tuple[Capture, Int64 | None]:
    """The same capture with every interval that reaches across an instant in two, and per sample which one it was
    before; None where it is the same capture.
    """
    samples, rows = capture.samples, _intervals(capture)
    low = np.searchsorted(edges, samples.time_ns[rows], "right")
    high = np.searchsorted(edges, samples.time_ns[rows] + samples.weight[rows], "left")
    return _cut(capture, rows, edges, low, high) if (high > low).any() else (capture, None)


def _intervals(capture: Capture) -> Int64:
    spans, samples = capture.spans, capture.samples
    if not spans.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(looked_up(spans, samples.event) & (samples.weight > 0))


def _in_pieces(capture: Capture, by: Bool | None) -> tuple[Capture, Int64 | None]:
    """The capture, and per sample which one it was before; None where it is the same capture."""
    rows = _intervals(capture)
    if not len(rows) or not len(capture.ranges):
        return capture, None
    edges, low, high = _edges(capture, rows, by)
    pieces = int((high - low).sum())
    if 0 < pieces <= MOST_PIECES:
        return _cut(capture, rows, edges, low, high)
    note = "Waits are counted where they began: too many of them reach across the edges of ranges."
    return capture.with_notes(note) if pieces else capture, None


def _edges(capture: Capture, rows: Int64, by: Bool | None) -> tuple[Int64, Int64, Int64]:
    """Edges of the ranges that cut, and per row which of them lie strictly inside its interval: (edges, low, high)."""
    samples, ranges = capture.samples, capture.ranges
    of, cutting, cut_by = _threads(capture, rows) if by is None else _processes(capture, rows, by)
    # A thread, or a process, and the rank of a time are one number, in the order of which its edges are neighbours.
    times, rank = numbered(np.concatenate([ranges.start_ns[cutting], ranges.end_ns[cutting]]))
    width = len(times) + 1
    known = ascending(np.tile(cut_by, 2) * width + rank)
    begin, end = samples.time_ns[rows], samples.time_ns[rows] + samples.weight[rows]
    low = np.searchsorted(known, of * width + np.searchsorted(times, begin, "right"))
    high = np.searchsorted(known, of * width + np.searchsorted(times, end, "left"))
    return times[known % width], low, np.maximum(low, high)


def _threads(capture: Capture, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Per row a number for its thread, and the pairs (range, thread) of ranges and who opened them.

    Where a range counts all processes, its thread's number alone says who that is.
    """
    samples, ranges = capture.samples, capture.ranges
    local = owners(ranges, samples.pid) != EVERYBODY
    keys, of = numbered_pairs(samples.tid[rows], samples.pid[rows])
    tid, pid = unpack(keys)
    opened = np.flatnonzero(ranges.tid >= 0)
    pair, thread = numbers(*(np.searchsorted(tid, ranges.tid[opened], side) for side in ("left", "right")))
    pair = opened[pair]
    own = ~local[pair] | (ranges.pid[pair] == pid[thread])
    return of, pair[own], thread[own]


def _processes(capture: Capture, rows: Int64, chosen: Bool) -> tuple[Int64, Int64, Int64]:
    """The same of processes, and of chosen ranges that may count them; those without ranges of their own are one."""
    samples, ranges = capture.samples, capture.ranges
    owner = owners(ranges, samples.pid)
    process = np.where(np.isin(samples.pid[rows], owner), samples.pid[rows], EVERYBODY)
    pids, of = numbered(np.where(kernel_threads(capture)[rows], _EVERY_RANGE, process))
    all_of = [
        np.flatnonzero(chosen & ((owner == pid) | (owner == EVERYBODY) | (pid == _EVERY_RANGE)))
        for pid in pids.tolist()
    ]
    return of, np.concatenate(all_of), np.repeat(np.arange(len(pids)), [len(one) for one in all_of])


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
