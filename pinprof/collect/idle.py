"""What the recorder prepares while the program runs: a step at a time, and only as far as that takes nothing from it.

A step is taken while a whole processor has had nothing to do, or else within a hundredth of one processor's time.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

Step = Callable[[], object]

SHARE = 0.01
"""Of one processor, where none is idle."""
_EVERY_S = 0.1
"""Between two looks; idle time is counted in hundredths of a second."""
_IDLE = 0.9
_STAT = Path("/proc/stat")


class Preparation:
    """Steps that are taken in their order."""

    def __init__(self, needed: Iterable[Step] = (), wanted: Iterable[Step] = ()) -> None:
        """`needed`: all of them are taken by the time the recording has ended. `wanted`: in time to wait."""
        self._needed, self._wanted = deque(needed), deque(wanted)
        self._begun = self._looked = time.monotonic()
        self._idle_s, self._spent_s = _idle_s(), 0.0

    def due_s(self) -> float:
        """When to look again."""
        if not self._needed and not self._wanted:
            return float("inf")
        return max(self._looked + _EVERY_S - time.monotonic(), 0.0)

    def look(self) -> None:
        """Take a step if it is time, and nobody else needs the processor."""
        if self.due_s() > 0:
            return
        now = time.monotonic()
        free = _idle_s() - self._idle_s >= _IDLE * (now - self._looked)
        if free or self._spent_s <= SHARE * (now - self._begun):
            began = time.thread_time()
            (self._needed or self._wanted).popleft()()
            self._spent_s += time.thread_time() - began
        self._looked, self._idle_s = time.monotonic(), _idle_s()

    def finish(self, waiting: Callable[[], bool] = lambda: False) -> None:
        """Take all needed steps that are left, and wanted ones for as long as others are waited for anyway."""
        while self._needed:
            self._needed.popleft()()
        while self._wanted and waiting():
            self._wanted.popleft()()


def _idle_s() -> float:
    """Seconds that this machine's processors had nothing to do, all together; 0 where that is unknown."""
    try:
        first = _STAT.read_text().partition("\n")[0].split()
        return (int(first[4]) + int(first[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
