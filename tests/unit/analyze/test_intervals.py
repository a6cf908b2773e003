"""Sets of time against a brute-force model: the set of the integers they hold."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pinprof.base.columns
from pinprof.analyze.intervals import Intervals, difference, intersection, numbers, union, union_by_key, union_where

PAIRS = st.lists(st.tuples(st.integers(-20, 60), st.integers(-5, 25)), max_size=12)
Pairs = list[tuple[int, int]]


def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([low for low, _ in pairs], np.int64)
    return start, start + np.array([length for _, length in pairs], np.int64)


def instants(pairs: Pairs) -> set[int]:
    return {instant for low, length in pairs for instant in range(low, low + length)}


def of(pairs: Pairs) -> Intervals:
    return union(*columns(pairs))


def held(found: Intervals) -> set[int]:
    assert (found.end > found.start).all()
    assert (found.start[1:] > found.end[:-1]).all()
    return {at for low, high in zip(found.start.tolist(), found.end.tolist(), strict=True) for at in range(low, high)}


@given(PAIRS)
def test_a_union_holds_what_any_interval_holds(pairs: Pairs) -> None:
    found = of(pairs)
    assert held(found) == instants(pairs)
    assert found.total == len(instants(pairs))
    assert found.span == (max(instants(pairs)) - min(instants(pairs)) + 1 if instants(pairs) else 0)


def test_a_set_as_it_stands_is_no_copy() -> None:
    start = np.arange(5) * 10
    assert union_where(np.ones(5, np.bool_), start, start + 9).start is start
    for end in (start, start + 10, np.roll(start, 1)):
        found = union_where(np.ones(5, np.bool_), start, end)
        assert found.start is not start
        assert held(found) == instants(list(zip(start.tolist(), (end - start).tolist(), strict=True)))


@given(PAIRS, st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from([1, 3, 1 << 17]))
def test_a_union_in_pieces_is_that_of_the_chosen_intervals(pairs: Pairs, chosen: list[bool], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinprof.base.columns, "_AT_ONCE", piece)
        found = union_where(np.array(chosen[: len(pairs)], np.bool_), *columns(pairs))
    kept = [pair for pair, wanted in zip(pairs, chosen, strict=False) if wanted]
    assert held(found) == instants(kept)


@given(PAIRS, PAIRS, st.sampled_from([1, 3, 1 << 16]))
def test_intersection_and_difference_are_those_of_sets(left: Pairs, right: Pairs, part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinprof.base.columns, "_AT_ONCE", part)
        assert held(intersection(of(left), of(right))) == instants(left) & instants(right)
        assert held(difference(of(left), of(right))) == instants(left) - instants(right)


@pytest.mark.slow
def test_sets_of_many_intervals_meet_in_little_more_memory_than_what_they_share() -> None:
    start = np.arange(400_000) * 10
    many, one = Intervals(start, start + 6), union(np.array([5]), np.array([10**9]))
    for left, right in ((many, Intervals(start + 3, start + 9)), (many, one), (one, many)):
        tracemalloc.start()
        shared = intersection(left, right)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(shared) == len(start)
        assert peak < 3 * 16 * len(shared)


@given(PAIRS, PAIRS)
def test_coverage_counts_instants_inside_each_query(pairs: Pairs, queries: Pairs) -> None:
    covered = of(pairs).covered(*columns(queries)).tolist()
    assert covered == [len(instants(pairs) & instants([query])) for query in queries]


@given(PAIRS, st.lists(st.integers(-30, 90), max_size=12))
def test_membership_is_that_of_the_set(pairs: Pairs, queries: list[int]) -> None:
    assert of(pairs).contains(np.array(queries, np.int64)).tolist() == [at in instants(pairs) for at in queries]


@given(PAIRS)
def test_gaps_are_what_is_missing_between_first_and_last(pairs: Pairs) -> None:
    everything = instants(pairs)
    missing = set(range(min(everything), max(everything))) - everything if everything else set()
    assert held(of(pairs).gaps()) == missing


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 60), st.integers(1, 25)), max_size=12), st.booleans())
def test_unions_by_key_keep_the_keys_apart(rows: list[tuple[int, int, int]], far: bool) -> None:
    # Keys and times too large for one combined number take another way; the result is the same.
    scale = 1 << 40 if far else 1
    key = np.array([key for key, _, _ in rows], np.int64) * scale
    start, end = columns([(low, length) for _, low, length in rows])
    found = zip(*(column.tolist() for column in union_by_key(key, start * scale, end * scale)), strict=True)
    expected = [
        (number * scale, low * scale, high * scale)
        for number in sorted({key for key, _, _ in rows})
        for kept in [of([(low, length) for key, low, length in rows if key == number])]
        for low, high in zip(kept.start.tolist(), kept.end.tolist(), strict=True)
    ]
    assert list(found) == expected


def test_numbers_lists_every_integer_with_its_range() -> None:
    place, number = numbers(np.array([3, 7, 5]), np.array([5, 7, 8]))
    assert list(zip(place.tolist(), number.tolist(), strict=True)) == [(0, 3), (0, 4), (2, 5), (2, 6), (2, 7)]
