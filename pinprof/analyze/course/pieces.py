"""A thread's life as pieces: what each of its samples owns, with what its stack says of the thread's phase."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.labels import UNKNOWN, WORK, phase_labels
from pinprof.base.columns import Bool, Int8, Int32, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import READY, Capture, clock_event


@dataclass(frozen=True)
class LifePieces:
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
    samples = capture.samples
    spans = capture.spans
    timed = spans.copy()
    clock = clock_event(capture.events)
    if clock is not None:
        timed[clock] = True
    rows = capture.rows_of(critical.pid, critical.tid)
    rows = rows[timed[samples.event[rows]]]
    waits = spans[samples.event[rows]]
    weight = samples.weight[rows]
    start = samples.time_ns[rows] - np.where(waits, 0, weight)
    end = samples.time_ns[rows] + np.where(waits, weight, 0)
    order = np.argsort(end, kind="stable")
    start, end, rows, waits = start[order], end[order], rows[order], waits[order]
    start[1:] = np.maximum(start[1:], end[:-1])
    kept = end > start
    label = phase_labels(capture.stacks)[samples.stack[rows]]
    if samples.wait is not None:
        # Where a busy machine interrupts a thread says little of the thread.
        label[(label == WORK) & (samples.wait[rows] & READY > 0)] = UNKNOWN
    return LifePieces(start[kept], end[kept], label[kept], samples.stack[rows[kept]], waits[kept])
