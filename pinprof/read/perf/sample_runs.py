"""Where in a buffer samples follow one another, found without a step of Python for each."""

from __future__ import annotations

import numpy as np

from pinprof.data import perf_format as perf
from pinprof.data.model import Int64

_SHORTEST = 4
"""Samples in a row that are worth it."""


def sample_runs(buffer: bytes | bytearray, end: int) -> dict[int, tuple[Int64, int]]:
    """Where each run in buffer[:end] begins → where its samples begin, and where the last one ends; all in bytes.

    Every word that looks like a sample's header may be one. Where a record does begin at the first of a run, its end
    is where the next of the run begins, which is a record therefore, and so on: who finds a run by walking to it knows
    all of its samples. What only looks like a header, inside a record, ends a run or makes one that nobody walks to.
    """
    words = np.frombuffer(buffer, "<u8", end >> 3)
    at = np.flatnonzero(words.view("<u4")[::2] == perf.RECORD_SAMPLE)
    size = (words[at] >> np.uint64(48)).astype(np.int64)
    ends = 8 * at + size
    sound = (size >= perf.RECORD_HEADER.size) & (ends <= end)
    begins, ends = 8 * at[sound], ends[sound]
    joint = ends[:-1] == begins[1:]
    first, last = np.flatnonzero(~np.append(False, joint)), np.flatnonzero(~np.append(joint, False))
    worth = last - first >= _SHORTEST - 1
    first, last = first[worth], last[worth]
    rows = zip(begins[first].tolist(), first.tolist(), (last + 1).tolist(), ends[last].tolist(), strict=True)
    return {begin: (begins[low:high], after) for begin, low, high, after in rows}
