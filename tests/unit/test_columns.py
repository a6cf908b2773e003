"""Pairs of columns as keys: nothing collides, order is kept, every pair is found again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.columns import PairIndex, pack, pairs_of

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([first for first, _ in pairs], np.int32), np.array([second for _, second in pairs], np.int64)


@given(st.lists(st.tuples(INT32, INT32)))
def test_packed_pairs_come_back_and_sort_as_pairs_do(pairs: list[tuple[int, int]]) -> None:
    keys = pack(*columns(pairs))
    assert pairs_of(keys) == pairs
    assert pairs_of(np.sort(keys)) == sorted(pairs)


@given(st.lists(st.tuples(INT32, INT64)), st.lists(st.tuples(INT32, INT64)))
def test_the_index_finds_the_first_row_of_a_pair_and_of_no_other(
    pairs: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    index = PairIndex.of(*columns(pairs), np.arange(len(pairs)))
    rows = [pairs.index(pair) if pair in pairs else -1 for pair in (*pairs, *others)]
    assert index.find(*columns([*pairs, *others])).tolist() == rows


def test_numbers_that_agree_in_their_lower_half_are_different_numbers() -> None:
    index = PairIndex.of(*columns([(7, 1), (7, 1 + (1 << 32)), (8, -1)]), np.arange(3))
    assert index.find(*columns([(7, 1 + (1 << 32)), (7, 1), (8, 0xFFFF_FFFF), (8, -1)])).tolist() == [1, 0, -1, 2]


def test_rows_left_out_of_the_index_are_not_found() -> None:
    index = PairIndex.of(*columns([(7, -1), (7, 5)]), np.array([1]))
    assert index.find(*columns([(7, -1), (7, 5)])).tolist() == [-1, 1]
