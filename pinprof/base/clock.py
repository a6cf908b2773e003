"""The clock of recordings."""

from __future__ import annotations

import time


def clock_ns() -> int:
    """CLOCK_MONOTONIC, also where a test has stopped `time.monotonic`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
