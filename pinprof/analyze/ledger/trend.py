"""Whether a series rises or falls, and how fast, whatever its distribution.

Sources: Theil, Proceedings of the KNAW A 53 (1950), 386; Sen, Journal of the American Statistical Association 63
(1968), 1379; Mann, Econometrica 13 (1945), 245; Kendall, Biometrika 34 (1947), 139.
"""

from __future__ import annotations

import math

import numpy as np

from pinprof.base.columns import Float64, Int64


def trend_of(at: Int64, values: Float64) -> tuple[float, float]:
    """The median slope of all pairs, and the chance of a trend at least as clear, either way, where none exists.

    `at` rises; values may be the same, but not all of them.
    """
    first, second = np.triu_indices(len(values), 1)
    rises = values[second] - values[first]
    slope = float(np.median(rises / (at[second] - at[first])))
    balance = abs(float(np.sign(rises).sum()))
    ties = np.unique(values, return_counts=True)[1]
    variance = (_pairs(len(values)) - sum(map(_pairs, ties.tolist()))) / 18
    return slope, math.erfc(max(balance - 1, 0) / math.sqrt(2 * variance))


def _pairs(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)
