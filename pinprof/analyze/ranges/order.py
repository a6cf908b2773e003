"""The nth smallest of the values in parts of a sequence: for all parts at once, without looking into any of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.data.model import Int64


def smallest(values: Int64, pieces: tuple[Int64, Int64, Int64], nth: Sequence[Int64]) -> list[Int64]:
    """Per cell its nth smallest value, for each of several columns `nth`, which count from 0.

    `pieces` are (first, behind the last, cell): what of the sequence belongs to which cell, in any number of pieces.

    The ranks of the values are sorted by one bit after the other, highest first, as in a wavelet matrix: how many of a
    piece have a 0 there says whether the wanted one does, and where the piece goes on.
    """
    ranked, rank = np.unique(values, return_inverse=True)
    rank = rank.reshape(-1)
    first, behind, cell = pieces
    states = [(first, behind, left, np.zeros(len(left), np.int64)) for left in nth]
    for bit in reversed(range(int(len(ranked) - 1).bit_length())):
        one = (rank >> bit & 1).astype(np.bool_)
        zeros = np.append(0, np.cumsum(~one))
        states = [_narrowed(zeros, bit, cell, *state) for state in states]
        rank = np.concatenate([rank[~one], rank[one]])
    return [ranked[found] for *_, found in states]


def _narrowed(
    zeros: Int64, bit: int, cell: Int64, first: Int64, behind: Int64, left: Int64, found: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """The pieces with the wanted value's bit alone, how many are below it there, and what is known of its rank."""
    low, high = zeros[first], zeros[behind]
    below = np.zeros(len(left), np.int64)
    np.add.at(below, cell, high - low)
    one = left >= below
    up = one[cell]
    first, behind = np.where(up, zeros[-1] + first - low, low), np.where(up, zeros[-1] + behind - high, high)
    return first, behind, np.where(one, left - below, left), found | one.astype(np.int64) << bit
