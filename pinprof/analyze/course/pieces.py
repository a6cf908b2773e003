"""A thread's life as pieces: what each of its samples owns, with what its stack says of the thread's phase."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.labels import UNKNOWN, WORK, phase_labels
from pinprof.base.columns import (
    Bool,
    Int8,
    Int32,
    Int64,
    Table,
    in_order,
    in_parts,
    looked_up,
    put_together,
    slices,
    taken,
)  # fmt: skip
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import READY, Capture, clock_event


@dataclass(frozen=True, eq=False, repr=False)
class LifePieces(Table):
    """The critical thread's life, cut at its samples: [start, end) in ascending order, without overlap."""

    start: Int64
    end: Int64
    label: Int8
    stack: Int32
    """The innermost node of its stack."""
    waits: Bool
    """Whether the thread was off the CPU."""


def pieces_of(capture: Capture, critical: Critical) -> LifePieces:
    """What each sample of time of the thread owns, with its stack's label."""
    samples, spans = capture.samples, capture.spans
    timed = spans.copy()
    clock = clock_event(capture.events)
    if clock is not None:
        timed[clock] = True
    rows = capture.rows_of(critical.pid, critical.tid)
    parts = slices(len(rows), rows, samples.event)
    rows = put_together((rows[part][timed[samples.event[rows[part]]]] for part in parts), len(rows), np.int32)
    count, waits = len(rows), looked_up(spans, looked_up(samples.event, rows))
    time, weight = taken(samples.time_ns, rows), taken(samples.weight, rows)
    columns = (waits, time, weight)
    start = in_parts(lambda part: time[part] - np.where(waits[part], 0, weight[part]), count, np.int64, *columns)
    end = in_parts(lambda part: time[part] + np.where(waits[part], weight[part], 0), count, np.int64, *columns)
    order = in_order(end)
    start, end, rows, waits = (taken(column, order) for column in (start, end, rows, waits))
    begin = in_parts(lambda part: np.maximum(start[part], _before(start, end, part)), count, np.int64, start, end)
    label, stack = phase_labels(capture.stacks), looked_up(samples.stack, rows)

    def labelled(part: slice) -> Int8:
        found: Int8 = label[stack[part]]
        if samples.wait is not None:
            # Where a busy machine interrupts a thread says little of the thread.
            found[(found == WORK) & (samples.wait[rows[part]] & READY > 0)] = UNKNOWN
        return found

    pieces = LifePieces(begin, end, in_parts(labelled, count, np.int8, stack, rows), stack, waits)
    kept = in_parts(lambda part: end[part] > begin[part], count, np.bool_, begin, end)
    return pieces if kept.all() else pieces.take(kept)


def _before(start: Int64, end: Int64, part: slice) -> Int64:
    """Per row the end of the row before, of the first row its own start."""
    first = end[part.start - 1 : part.start] if part.start else start[:1]
    return np.concatenate([first, end[part.start : part.stop - 1]])
