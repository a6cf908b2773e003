"""The clock of the day beside CLOCK_MONOTONIC, read together."""

from __future__ import annotations

import time

_READINGS = 5


def both_ns() -> tuple[int, int]:
    """One moment on CLOCK_REALTIME and on CLOCK_MONOTONIC, in nanoseconds.

    Of some readings the one that took least time: between two looks a busy machine may do other things for long.
    """
    readings = []
    for _ in range(_READINGS):
        before, day, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, day, (before + after) // 2))
    return min(readings)[1:]


def utc_offset_ns() -> int:
    """What CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, in nanoseconds."""
    day, moment = both_ns()
    return day - moment
