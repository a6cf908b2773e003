"""The agent's ticks as times on CLOCK_MONOTONIC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.data.model import Bool, Int64, UInt64
from pinprof.read.inside.layout import LATEST_NS, Kind


class TickClock:
    """What ticks are on CLOCK_MONOTONIC, by moments at which both were read."""

    def __init__(self, header: np.void, records: NDArray[np.void]) -> None:
        anchors = records[records["kind"] == Kind.ANCHOR]
        ticks = np.concatenate([[header["begun_ticks"], header["opened_ticks"]], anchors["begin"]]).astype(np.uint64)
        ns = np.concatenate([[header["begun_ns"], header["opened_ns"]], anchors["end"]]).astype(np.uint64)
        order = np.lexsort((ns, ticks))
        ticks, ns = ticks[order], ns[order]
        # Each later than those before it; damage may say anything.
        rising = (ns < LATEST_NS) & (ticks < 2**63)
        rising[1:] &= (ticks[1:] > ticks[:-1]) & (ns[1:] > ns[:-1])
        ticks, ns = ticks[rising], ns[rising]
        if len(ticks) < 2:
            ticks, ns = np.array([0, 1], np.uint64), np.array([0, 1], np.uint64)
        self._first, self._first_ns = ticks[0], int(ns[0])
        self._ticks = (ticks - ticks[0]).astype(np.float64)
        self._ns = (ns - ns[0]).astype(np.float64)
        last = max(len(ticks) - 4, 0)
        self._rate = float((self._ns[-1] - self._ns[last]) / (self._ticks[-1] - self._ticks[last]))

    def sound(self, ticks: UInt64) -> Bool:
        """Which of them are moments of the recording."""
        return np.asarray((ticks >= self._first) & (ticks < 2**63))

    def ns(self, ticks: UInt64) -> Int64:
        """CLOCK_MONOTONIC."""
        since = (np.maximum(ticks, self._first) - self._first).astype(np.float64)
        inside = np.interp(since, self._ticks, self._ns)
        beyond = np.maximum(since - self._ticks[-1], 0) * self._rate
        return np.asarray(np.minimum(np.rint(inside + beyond), 2.0**61).astype(np.int64) + self._first_ns)

    def length_ns(self, ticks: UInt64) -> Int64:
        """The length of some ticks."""
        return np.asarray(np.minimum(np.rint(ticks.astype(np.float64) * self._rate), 2.0**61).astype(np.int64))
