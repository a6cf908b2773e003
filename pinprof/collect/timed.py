"""A program that pinprof starts and records for a part of its run: after a delay, for a time, or both.

A program that is recorded from its start waits behind its gate until the recorders are ready. After a delay it is
recorded like one that runs already. When the time is up, the recording ends; the program goes on to its own end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from pinprof.collect.program import HeldSignals, Program


class TimedProgram(Program):
    """A program whose recording may end before it does."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], signals: HeldSignals, duration_s: float
    ) -> None:
        super().__init__(command, environment, signals)
        self._duration_s = duration_s
        self._recorded = self._over = False

    @property
    def over(self) -> bool:
        """Whether its recording is."""
        return self._over or self.wait_status is not None

    def start_unrecorded(self) -> None:
        """Let it run; the recording begins with `start`."""
        super().start()

    def start(self) -> None:
        """From now on it counts."""
        if not self.begun:
            super().start()
        self.started_ns, self._recorded = time.monotonic_ns(), True

    def abandon(self) -> None:
        """End it where it still waits; one that runs goes on without a recording."""
        if self.begun:
            self._over = True
        else:
            super().abandon()

    def reap(self, options: int = os.WNOHANG) -> bool:
        """Whether the recording is over."""
        ended_ns = self.ended_ns
        if super().reap(options) and self._over:
            self.ended_ns = ended_ns
        now = time.monotonic_ns()
        if self._recorded and not self.over and self._duration_s and now >= self.started_ns + self._duration_s * 1e9:
            self._over, self.ended_ns = True, now
        return self.over

    def left_s(self) -> float:
        """Seconds until the time is up."""
        if not self._duration_s or not self._recorded or self.over:
            return float("inf")
        return max(self._duration_s - (time.monotonic_ns() - self.started_ns) / 1e9, 0.0)
