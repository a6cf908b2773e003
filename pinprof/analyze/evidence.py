"""How much evidence a statement needs, and how much time a piece of advice must be about: one place for all of them.

Shares are estimates. Of n samples, a share p is known to ± 1.96 √(p (1 − p) / n) with 95 % confidence (the normal
approximation of the binomial distribution; Cochran, Sampling Techniques, section 4.4), and p = ½ is the worst case.
"""

from __future__ import annotations

import math

Z_95 = 1.96
"""Standard errors on both sides of the mean that hold 95 % of a normal distribution."""

SHARE_ERROR = 0.10
"""So far, and no farther, may a share be from the truth: the smallest threshold of the rules is 10 %."""

MIN_SAMPLES = math.ceil(0.25 * (Z_95 / SHARE_ERROR) ** 2)
"""What has fewer samples is not judged: its shares may be off by more than `SHARE_ERROR`, by chance."""

LEAST_SHARE, LEAST_NS = 0.01, 10_000_000
"""Shares of what it is a part of (a phase, a recording), and at all: what costs less is not worth a reader's time."""


def worth_telling(cost: float, whole: float, unit: str = "ns") -> bool:
    """Whether advice about this cost is worth giving; events without a time are judged by their share alone."""
    return cost >= max(LEAST_SHARE * whole, LEAST_NS if unit == "ns" else 0) and cost > 0
