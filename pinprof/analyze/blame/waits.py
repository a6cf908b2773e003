"""Waits of one thread, and their time charged to what other threads did."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from pinprof.analyze.blame.timelines import ThreadPieces
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals, numbers
from pinprof.base.columns import Float64, Int32, Int64, Table, UInt8
from pinprof.base.lazy_dataclass import dataclass


class HolderCertainty(IntEnum):
    """How it is known for whom a thread waited, the most certain first."""

    WAKER = 0
    """The thread that ended the wait was recorded."""
    CHAIN = 1
    """It waited itself; what ended that was recorded."""
    JOIN = 2
    """The waiter joins a thread; it ended last before the wait did."""
    LOCK = 3
    """It ran in the kernel in what holds the lock of the same address space."""
    BUSY = 4
    """It was busy for most of the wait."""
    SHARED = 5
    """It was busy for a part of the wait, as others were."""
    KIND = 6
    """The kind of wait says it."""


@dataclass(frozen=True, eq=False, repr=False)
class Waits(Table):
    """Waits of one thread, in order of time, without overlap."""

    start_ns: Int64
    end_ns: Int64
    sample: Int32
    """Row of `Capture.samples`."""


@dataclass(frozen=True, eq=False, repr=False)
class Charged(Table):
    """Time of waits, charged to samples of other threads."""

    start_ns: Int64
    """When it began, inside the wait."""
    ns: Int64
    sample: Int32
    how: UInt8
    """`HolderCertainty`."""


def inside(waits: Waits, time: Intervals) -> tuple[Int64, Int64]:
    """(wait, interval) of all that overlap."""
    first = np.searchsorted(time.end, waits.start_ns, "right")
    last = np.searchsorted(time.start, waits.end_ns, "left")
    return numbers(first.astype(np.int64), last.astype(np.int64))


def overlaps(waits: Waits, rows: Int64, shared: Float64, pieces: ThreadPieces, how: HolderCertainty) -> Charged:
    """The time of some waits in which a thread did something, by its sample; `shared`: the part of each that counts."""
    place, piece = inside(waits.take(rows), pieces.time)
    if not len(place):
        return Charged.empty()
    start = np.maximum(pieces.time.start[piece], waits.start_ns[rows][place])
    overlap = np.minimum(pieces.time.end[piece], waits.end_ns[rows][place]) - start
    cells = group(place, pieces.sample[piece])
    ns = (cells.sum(overlap) * shared[cells.keys[0]]).astype(np.int64)
    kept = ns > 0
    return Charged(
        cells.min(start)[kept],
        ns[kept],
        cells.keys[1][kept].astype(np.int32),
        np.full(int(kept.sum()), how, np.uint8),
    )
