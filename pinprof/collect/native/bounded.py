"""What of the records is written, so that the file keeps to its limits (pace.py decides, thinning.py does it)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.perf_file import FINISHED_ROUND
from pinprof.collect.native.thinning import JOINED_NS, Thinner
from pinprof.collect.pace import STEPS, Pace, SizeLimits


class Bounded:
    """The records of one recording on their way to the file."""

    def __init__(self, limits: SizeLimits, events: Sequence[tuple[EventSpec, Sequence[int]]]) -> None:
        """`events` as they are written, with the ids of their instances."""
        now = time.monotonic_ns()
        self._pace, self._thinner = Pace(limits, now), Thinner(events, seed=now)
        self._most = self._since_ns = self._full_ns = 0

    def chosen(self, pieces: Sequence[bytes | memoryview], written: int, horizon_ns: int) -> list[bytes | memoryview]:
        """What is to be written of whole records, read behind `horizon_ns`, where so much is written already."""
        thinner, size = self._thinner, sum(map(len, pieces))
        step = self._pace.looked(horizon_ns, written + thinner.held_bytes, size)
        if not step and thinner.idle:
            return [*pieces, FINISHED_ROUND]
        self._since_ns = self._since_ns or horizon_ns
        if self._pace.full:
            # What is mapped from now on explains no sample.
            self._full_ns = self._full_ns or horizon_ns
        self._most, thinner.step = max(self._most, step), step
        # What is held back is older than the round that it comes with: no round is said to be finished.
        chosen = thinner.thin(bytearray(b"".join(pieces)), horizon_ns)
        return [] if self._pace.full else chosen

    def rest(self) -> list[bytes]:
        """What is to be written at the end."""
        return self._thinner.flush()

    def facts(self) -> dict[str, Any]:
        """For the manifest; empty where everything was kept."""
        if not self._since_ns:
            return {}
        step = min(self._most, STEPS)
        counts = self._thinner.counts
        return {
            "thinned": {
                "since_ns": self._since_ns,
                "full_ns": self._full_ns,
                "one_in": 1 << step,
                "joined_ns": JOINED_NS << step if step else 0,
                "kept": counts.kept,
                "left_out": counts.left_out,
            }
        }
