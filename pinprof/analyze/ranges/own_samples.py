"""The samples of the thread that opened a range, inside it: for all ranges at once, however many threads there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinprof.columns import pack
from pinprof.model import Bool, Capture, Int64

_NO_PROCESS = -(2**31)
"""Stands for the process of a thread that is told by its number alone; no process has this number."""


@dataclass(frozen=True)
class OwnSamples:
    """Range n has the samples `row[first[n] : last[n]]`."""

    row: Int64
    """Sample numbers, thread by thread in order of time."""
    first: Int64
    last: Int64
    known: Bool
    """Per range, whether its thread has any sample at all."""


def sample_numbers(capture: Capture) -> tuple[Int64, Int64]:
    """The ranges' half-open intervals of time as half-open intervals of sample numbers."""
    low = np.searchsorted(capture.samples.time_ns, capture.ranges.start_ns, "left").astype(np.int64)
    return low, np.maximum(low, np.searchsorted(capture.samples.time_ns, capture.ranges.end_ns, "left"))


def own_samples(capture: Capture, chosen: Bool) -> OwnSamples:
    """Those of the chosen samples (a mask). A range whose process has none of them (it lives in another PID namespace,
    or is unknown) is told by its thread's number alone.
    """
    samples, ranges = capture.samples, capture.ranges
    local = np.isin(ranges.pid, samples.pid[chosen])
    row = np.flatnonzero(chosen & np.isin(samples.tid, np.unique(ranges.tid)))
    within, alone = pack(samples.pid[row], samples.tid[row]), pack(np.full(len(row), _NO_PROCESS), samples.tid[row])
    wanted = pack(np.where(local, ranges.pid, _NO_PROCESS), ranges.tid)
    bounds = sample_numbers(capture)
    if local.all():
        found = _looked_up(row, within, wanted, *bounds)
    elif local.any():
        found = _looked_up(np.tile(row, 2), np.concatenate([alone, within]), wanted, *bounds)
    else:
        found = _looked_up(row, alone, wanted, *bounds)
    return OwnSamples(found.row, found.first, found.last, found.known & (ranges.tid >= 0))


def _looked_up(row: Int64, key: Int64, wanted: Int64, low: Int64, high: Int64) -> OwnSamples:
    """Of the samples `row` with the keys `key`, per range those of its key from number `low` to `high`."""
    threads, thread = np.unique(key, return_inverse=True)
    order = np.argsort(thread.reshape(-1), kind="stable")
    span = int(max(high.max(initial=0), row.max(initial=0))) + 1
    place = thread.reshape(-1)[order] * span + row[order]
    mine = np.minimum(np.searchsorted(threads, wanted), max(len(threads) - 1, 0))
    known = np.append(threads, 0)[mine] == wanted if len(threads) else np.zeros(len(wanted), np.bool_)
    first, last = (np.searchsorted(place, mine * span + number, "left") for number in (low, high))
    return OwnSamples(row[order], np.where(known, first, 0), np.where(known, last, 0), known)
