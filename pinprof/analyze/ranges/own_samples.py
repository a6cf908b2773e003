"""The samples of the thread that opened a range, inside it: for all ranges at once, however many threads there are."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.ranges.membership import EVERYBODY, owners
from pinprof.base.columns import ascending, pack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Capture, Int64

_NO_PROCESS = -(2**31)
"""Stands for the process of a thread that is known by its number alone; no process has this number."""


@dataclass(frozen=True)
class OwnSamples:
    """Range n has the samples `row[first[n] : last[n]]`."""

    row: Int64
    """Sample numbers, thread by thread in order of time."""
    first: Int64
    last: Int64
    known: Bool
    """Per range, whether its thread has any sample at all."""


def own_samples(capture: Capture, chosen: Bool) -> OwnSamples:
    """The own samples among the chosen ones (a mask). Where a range counts all processes, its thread's number alone
    says which are its own.
    """
    samples, ranges = capture.samples, capture.ranges
    local = owners(ranges, samples.pid) != EVERYBODY
    row = np.flatnonzero(chosen & np.isin(samples.tid, ascending(ranges.tid)))
    within, alone = pack(samples.pid[row], samples.tid[row]), pack(np.full(len(row), _NO_PROCESS), samples.tid[row])
    wanted = pack(np.where(local, ranges.pid, _NO_PROCESS), ranges.tid)
    if local.all():
        key = within
    elif local.any():
        # Each sample once under its number alone and once under its number within its process.
        row, key = np.tile(row, 2), np.concatenate([alone, within])
    else:
        key = alone
    low, high = (np.searchsorted(samples.time_ns, edge, "left") for edge in (ranges.start_ns, ranges.end_ns))
    own = _by_key(row, key, wanted, low, np.maximum(low, high))
    return OwnSamples(own.row, own.first, own.last, own.known & (ranges.tid >= 0))


def _by_key(row: Int64, key: Int64, wanted: Int64, low: Int64, high: Int64) -> OwnSamples:
    """Per range the samples that have the key it wants, from number `low` to `high`; `row` has the keys `key`."""
    threads, thread = np.unique(key, return_inverse=True)
    order = np.argsort(thread.reshape(-1), kind="stable")
    span = int(max(high.max(initial=0), row.max(initial=0))) + 1
    place = thread.reshape(-1)[order] * span + row[order]
    mine = np.minimum(np.searchsorted(threads, wanted), max(len(threads) - 1, 0))
    known = np.append(threads, 0)[mine] == wanted if len(threads) else np.zeros(len(wanted), np.bool_)
    first, last = (np.searchsorted(place, mine * span + number, "left") for number in (low, high))
    return OwnSamples(row[order], np.where(known, first, 0), np.where(known, last, 0), known)
