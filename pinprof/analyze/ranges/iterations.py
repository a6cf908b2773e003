"""The measured iterations of a scenario: a program that is run several times to measure it does its work once.

Programs of their own may call a range `iteration` too; for them each one is work, so only captures of scenarios
(`manifest.scenario`) have measured iterations.
"""

from __future__ import annotations

import numpy as np

from pinprof.data.model import Capture, Int64

ITERATION = "iteration"
"""The range that pinprof's session puts around each iteration of a scenario."""


def iteration_spans(capture: Capture) -> tuple[Int64, Int64]:
    """(starts, ends) of a scenario's measured iterations on the capture's clock; empty for any other program."""
    ranges = capture.ranges
    if not capture.manifest.scenario.get("name") or not len(ranges):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    named = np.array([name == ITERATION for name in ranges.name], np.bool_)
    rows = np.flatnonzero(named & (ranges.depth == 0))
    return ranges.start_ns[rows], ranges.end_ns[rows]


def measured_iterations(capture: Capture) -> int:
    """How many iterations of a scenario a capture holds; 0 for any other program."""
    return len(iteration_spans(capture)[0])
