"""Sizes of batched calls, as a probe reads them: an array of a fixed length, of which the call's pieces count."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.data.gpu_functions import READ_PIECES
from pinprof.read.perf.cuda_calls import _batched

GARBAGE = 0xDEAD_BEEF_DEAD_BEEF
ROWS = np.array([9, 4, 30], np.int64)
"""Rows of the samples that have sizes, in the order in which they were met."""


def sizes(*first: int) -> list[int]:
    """An array that goes on with whatever lies behind it."""
    return [*first, *[GARBAGE] * (READ_PIECES - len(first))]


@pytest.mark.parametrize(
    ("row", "pieces", "total"),
    [
        pytest.param(4, 3, 10 + 200 + 3000, id="what lies behind the pieces counts nowhere"),
        pytest.param(9, READ_PIECES, 7 * READ_PIECES, id="as many as are read"),
        pytest.param(9, 5000, 7 * READ_PIECES, id="more than are read"),
        pytest.param(4, 4, -1, id="damage"),
        pytest.param(30, 0, -1, id="no pieces"),
        pytest.param(5, 3, -1, id="no batch"),
        pytest.param(31, 3, -1, id="behind the last"),
    ],
)
def test_a_batch_is_as_large_as_its_pieces(row: int, pieces: int, total: int) -> None:
    read = np.array([[7] * READ_PIECES, sizes(10, 200, 3000), sizes()], np.uint64)
    calls, counts = np.array([row], np.int64), np.array([pieces], np.uint64)
    assert _batched(calls, counts, ROWS, read).tolist() == [total]


def test_without_batches_no_call_is_one() -> None:
    none = np.zeros(0, np.int64), np.zeros((0, READ_PIECES), np.uint64)
    assert _batched(np.array([1, 2], np.int64), np.array([3, 0], np.uint64), *none).tolist() == [-1, -1]
