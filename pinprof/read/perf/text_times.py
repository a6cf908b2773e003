"""The times of samples in the text of `perf script` and of what prints alike, which does not always mean what it says.

perf pads the fraction of a second with zeros. simpleperf's scripts print microseconds without them, so that `1.5` is
five microseconds after `1.0`: such texts have fractions of all lengths up to six, and only so their times ascend. A
clock may be set back during a recording (a virtual machine that moves, texts that were joined): the samples behind
that lie before all others.
"""

from __future__ import annotations

from array import array

import numpy as np

from pinprof.base.units import format_ns
from pinprof.data.model import Int64

_MAX = 2**63 - 1
_MICROSECONDS = 6
"""Digits of a fraction in microseconds."""
_STEP_NS = 1_000_000
"""After a clock was set back, the samples begin so much after those before."""
_LEAST_SAMPLES = 5
"""Before and behind a jump; fewer may be odd ones."""
_MOST_JUMPS = 8
"""A text that goes back more often is in another order than that of time."""


class TextTimes:
    """Collects the times of samples as they are printed, in the order of the text."""

    def __init__(self) -> None:
        self._padded, self._plain = array("q"), array("q")
        self._lengths: set[int] = set()

    def add(self, seconds: str, fraction: str) -> None:
        """One sample's; both empty where it has no time."""
        whole = int(seconds or 0) * 10**9
        decimal = min(whole + int(fraction.ljust(9, "0")), _MAX)
        if fraction:
            self._lengths.add(len(fraction))
        self._padded.append(decimal)
        few = 0 < len(fraction) <= _MICROSECONDS
        self._plain.append(min(whole + int(fraction) * 1000, _MAX) if few else decimal)

    def times(self) -> tuple[Int64, tuple[str, ...], tuple[str, ...]]:
        """Nanoseconds per sample, in the order of the text; what must be said of them; and jumps of their clock."""
        times, notes, jumps = np.array(self._padded, np.int64), [], []
        if len(self._lengths) > 1 and max(self._lengths) == _MICROSECONDS:
            plain = np.array(self._plain, np.int64)
            if _falls(plain) < _falls(times):
                times = plain
                notes.append(
                    "The fractions of seconds are microseconds without leading zeros, as simpleperf prints them."
                )
        back = np.flatnonzero(np.diff(times) < 0) + 1
        if not 0 < len(back) <= _MOST_JUMPS:
            return times, tuple(notes), ()
        times = times.copy()
        for at in back.tolist():
            before, behind = times[:at], times[at:]
            if min(len(before), len(behind)) >= _LEAST_SAMPLES and behind.max() < before.min():
                jump = int(before[-1] - behind[0])
                behind += int(before.max() - behind[0]) + _STEP_NS
                jumps.append(
                    f"The clock of the samples goes back by {format_ns(jump)}. The samples after that are shown behind"
                    " those before it."
                )
        return times, tuple(notes), tuple(jumps)


def _falls(times: Int64) -> int:
    return int((np.diff(times) < 0).sum())
