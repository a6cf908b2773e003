"""How much may be written, and in which steps a recording is thinned so that it is never more: decisions, no I/O.

Each step halves what is kept. Two things set it:

- A size: the first half of it is filled with everything there is. What is left is dealt out in equal parts, one for
  each further step, so that a part lasts twice as long as the one before.
- A size a minute: a step is taken when what is written now would be too much ten seconds on, and undone when twice
  as much would do for half a minute.

What is written is never more than either: beyond the last step nothing is kept until there is room again.
"""

from __future__ import annotations

from pinprof.base.lazy_dataclass import dataclass

STEPS = 14
"""The most steps: one in 16,384 is kept then."""
STOPPED = STEPS + 1
"""In place of a step: nothing is kept."""
MINUTE_NS = 60 * 10**9
_AHEAD_NS, _BACK_NS = 10 * 10**9, 30 * 10**9
_SETTLE_NS = 2 * 10**9
"""After a change of the step: by then it shows in what is written."""
_MEMORY_NS = 2 * 10**9
_AT_ONCE = 4
"""One part in this many of the room that is left is filled at once."""
_RESERVE = 64
"""One part in this many is kept for what must be written at the end."""


@dataclass(frozen=True)
class SizeLimits:
    """What may be written; 0 where there is no such limit."""

    total: int = 0
    """Bytes in all."""
    per_minute: int = 0
    """Bytes for each minute; the first one has its own from the start."""

    def share(self, part: float) -> SizeLimits:
        """A part of it."""
        return SizeLimits(round(self.total * part), round(self.per_minute * part))

    def allowed(self, passed_ns: int) -> int | None:
        """Bytes that may be there after so much time; None for any number."""
        most = [self.total] if self.total else []
        if self.per_minute:
            most.append(self.per_minute * max(passed_ns, MINUTE_NS) // MINUTE_NS)
        return min(most, default=None)


NO_LIMITS, USUAL_LIMITS = SizeLimits(), SizeLimits(total=2 << 30)


class Pace:
    """The step of a recording, by what it has written."""

    def __init__(self, limits: SizeLimits, now_ns: int) -> None:
        """`now_ns`: when recording begins."""
        self._limits = limits
        self._began_ns = self._looked_ns = self._changed_ns = now_ns
        self._written = 0
        self._rate = 0.0
        """Bytes a nanosecond, over the last seconds."""
        self._calm = self._least = 0

    @property
    def step(self) -> int:
        """0: everything is kept; n: one in 2^n; STOPPED: nothing."""
        return max(self._calm, self._by_size(), self._least)

    def room(self, now_ns: int) -> int | None:
        """Bytes that may be written now, with a reserve for the end; None for any number."""
        allowed = self._limits.allowed(now_ns - self._began_ns)
        return None if allowed is None else max(allowed - allowed // _RESERVE - self._written, 0)

    @property
    def full(self) -> bool:
        """Whether nothing more may be written at all."""
        return bool(self._limits.total) and self._written >= self._limits.total - self._limits.total // _RESERVE

    def looked(self, now_ns: int, written: int, arriving: int = 0) -> int:
        """Take in how many bytes are written by now, and how many more there are; the step from now on."""
        passed = now_ns - self._looked_ns
        if passed > 0:
            weight = min(passed / _MEMORY_NS, 1.0)
            self._rate += weight * ((written - self._written) / passed - self._rate)
            self._looked_ns = now_ns
        self._written = written
        if self._limits.per_minute and now_ns - self._changed_ns >= _SETTLE_NS:
            calm = self._by_rate(now_ns)
            if calm != self._calm:
                self._calm, self._changed_ns = calm, now_ns
        room = self.room(now_ns)
        self._least = 0 if room is None else _halvings(arriving, room // _AT_ONCE)
        return self.step

    def _by_size(self) -> int:
        total = self._limits.total
        if not total or 2 * self._written < total:
            return 0
        return min(1 + (2 * self._written - total) * STEPS // total, STEPS)

    def _by_rate(self, now_ns: int) -> int:
        """The step that keeps to the size a minute: one more or one less than now, or the same."""
        passed = now_ns - self._began_ns
        if self._written + self._rate * _AHEAD_NS > self._wanted(passed + _AHEAD_NS):
            return min(self._calm + 1, STEPS)
        if self._calm and self._written + 2 * self._rate * _BACK_NS <= self._wanted(passed + _BACK_NS):
            return self._calm - 1
        return self._calm

    def _wanted(self, passed_ns: int) -> float:
        """Bytes that are well there after so much time: of the first minute, half for its beginning."""
        even = min(MINUTE_NS / 2 + passed_ns / 2, MINUTE_NS) if passed_ns < MINUTE_NS else passed_ns
        return 0.95 * self._limits.per_minute * even / MINUTE_NS


def _halvings(size: int, room: int) -> int:
    """How often a size is to be halved to find room; STOPPED where that is too often."""
    return min(max(size - 1, 0) // room, 1 << STEPS).bit_length() if room else STOPPED
