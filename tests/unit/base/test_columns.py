"""Pairs of columns as keys: nothing collides, order is kept, every pair is found again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base import columns as made
from pinprof.base.columns import (
    ascending,
    changes,
    distinct,
    extent,
    looked_up,
    narrowed,
    numbered,
    numbered_pairs,
    pack,
    packed,
    pairs_of,
    repeated,
    stable_order,
    uniform,
)
from pinprof.base.pair_index import PairIndex
from pinprof.read.perf.samples import RawSamples

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


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(-3, 3)), st.lists(st.integers(-3, 3)))
def test_an_index_of_one_process_is_one_of_any(process: int, numbers: list[int], others: list[int]) -> None:
    index = PairIndex.of(*columns([(process, number) for number in numbers]), np.arange(len(numbers)))
    rows = [numbers.index(number) if number in numbers else -1 for number in others]
    assert index.find(*columns([(process, number) for number in others])).tolist() == rows
    assert index.find(*columns([(process ^ 1, number) for number in others])).tolist() == [-1] * len(others)


@given(st.lists(st.integers(-3, 3)))
def test_ascending_numbers_are_each_there_once(numbers: list[int]) -> None:
    assert ascending(np.array(numbers, np.int16)).tolist() == sorted(set(numbers))


@given(st.lists(st.lists(st.integers(-2, 2))))
def test_distinct_numbers_are_those_of_all_columns(given_columns: list[list[int]]) -> None:
    given_columns.append([5, 5, 5])
    found = distinct(*(np.array(column, np.int32) for column in given_columns))
    assert found.tolist() == sorted({number for column in given_columns for number in column})


def test_numbered_rows_are_those_of_numpy_near_and_far_apart() -> None:
    random = np.random.default_rng(3)
    for width in (1, 30, 400, 1 << 40):
        column = random.integers(-width, width, 100)
        known, place = numbered(column)
        assert known.tolist() == sorted(set(column.tolist()))
        assert known[place].tolist() == column.tolist()
    assert [part.tolist() for part in numbered(np.zeros(0, np.int32))] == [[], []]


@given(st.lists(st.tuples(INT32, INT32)))
def test_numbered_pairs_ascend_and_come_back(pairs: list[tuple[int, int]]) -> None:
    known, place = numbered_pairs(*columns(pairs))
    assert pairs_of(known) == sorted(set(pairs))
    assert pairs_of(known[place]) == pairs


@given(st.lists(INT64, min_size=1))
def test_a_narrowed_column_holds_the_same_numbers(numbers: list[int]) -> None:
    column = narrowed(np.array(numbers, np.int64))
    assert column.tolist() == numbers
    low, high = min(numbers), max(numbers)
    assert low == high or next(b for b in (8, 16, 32, 64) if -(2 ** (b - 1)) <= low and high < 2 ** (b - 1)) == (
        8 * column.itemsize
    )


def test_a_uniform_column_takes_the_memory_of_one_number_and_is_read_as_any_other() -> None:
    column = packed(np.full(5, 7, np.int32))
    assert (column.strides, column.tolist(), column.dtype) == ((0,), [7] * 5, np.int32)
    assert column[np.array([True, False, True, False, False])].tolist() == [7, 7]
    assert packed(np.array([1, 2, 1])).strides == (8,)
    assert uniform(3, 0, np.int64).tolist() == []


def test_a_table_joined_with_empty_ones_is_no_copy() -> None:
    table = RawSamples.of(3, tid=[1, 2, 3], pid=uniform(7, 3, np.int32))
    joined = table.joined(RawSamples.empty(), RawSamples.empty())
    assert joined.tid is table.tid
    assert joined.pid.strides == (0,)
    assert table.joined(table).pid.tolist() == [7] * 6


def test_numbers_that_agree_in_their_lower_half_are_different_numbers() -> None:
    index = PairIndex.of(*columns([(7, 1), (7, 1 + (1 << 32)), (8, -1)]), np.arange(3))
    assert index.find(*columns([(7, 1 + (1 << 32)), (7, 1), (8, 0xFFFF_FFFF), (8, -1)])).tolist() == [1, 0, -1, 2]


def test_rows_left_out_of_the_index_are_not_found() -> None:
    index = PairIndex.of(*columns([(7, -1), (7, 5)]), np.array([1]))
    assert index.find(*columns([(7, -1), (7, 5)])).tolist() == [-1, 1]


@given(st.lists(st.integers(-3, 3)), st.sampled_from([1, 2, 1 << 16]))
def test_parts_of_a_column_say_what_the_whole_does(numbers: list[int], part: int) -> None:
    column = np.array(numbers, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "_AT_ONCE", part)
        assert extent(column) == ((min(numbers), max(numbers)) if numbers else (0, 0))
        rows = changes(column)
        edge = np.append(rows, len(column))
        assert repeated(column[rows], edge).tolist() == numbers
    assert rows.tolist() == [row for row, number in enumerate(numbers) if not row or numbers[row - 1] != number]


@given(st.lists(st.integers(-4, 4) | INT64))
def test_a_stable_order_is_numpys(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()


def test_of_uniform_values_and_of_a_uniform_index_a_uniform_column_is_looked_up() -> None:
    for values, index in ((uniform(7, 5, np.int16), np.array([4, 0, 2])), (np.arange(5), uniform(3, 3, np.int32))):
        found = looked_up(values, index)
        assert found.strides == (0,)
        assert found.tolist() == values[index].tolist()
