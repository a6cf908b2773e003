"""Rows of kinds in steps of time, a part at a time, against a plain count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base import columns
from pinprof.report import moments
from pinprof.report.moments import Moments, added_up

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 1 << 40)), min_size=1, max_size=40)
Rows = list[tuple[int, int, int]]


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_AT_ONCE", 3)
    monkeypatch.setattr(moments, "_HELD", 2)


def of(rows: Rows) -> Iterator[np.ndarray]:
    """Kind, time and weight of rows whose gaps are given."""
    kinds, gaps, weights = zip(*rows, strict=True)
    return iter((np.array(kinds, np.int8), np.cumsum(np.array(gaps, np.int64)), np.array(weights, np.int64)))


def summed(rows: Rows, step: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Step and kind → first row and sum, ascending."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for row, (kind, time, weight) in enumerate(zip(*(column.tolist() for column in of(rows)), strict=True)):
        first, sum_ = found.get((time // step, kind), (row, 0))
        found[time // step, kind] = first, sum_ + weight
    return dict(sorted(found.items()))


@given(ROWS, st.integers(1, 12))
def test_sums_are_of_rows_of_one_kind_and_step(rows: Rows, step: int) -> None:
    kind, time, weight = of(rows)
    sums = added_up(kind, time, step, weight)
    pairs = zip(sums.moment.tolist(), sums.kind.tolist(), strict=True)
    assert dict(zip(pairs, zip(sums.row.tolist(), sums.weight.tolist(), strict=True), strict=True)) == summed(
        rows, step
    )


@given(ROWS, st.integers(1, 12))
def test_what_begins_a_step_is_known_without_adding_up(rows: Rows, step: int) -> None:
    kind, time, _ = of(rows)
    found = Moments.of(kind, time, 5)
    assert found is not None
    expected = summed(rows, step)
    assert sorted(first for first, _ in expected.values()) == np.concatenate([*found.begins(step)]).tolist()
    assert found.are_at_most(len(expected), step)
    assert not found.are_at_most(len(expected) - 1, step)


def test_more_kinds_than_rows_are_allowed_are_no_moments() -> None:
    kind, time, _ = of([(kind, 1, 1) for kind in range(5)])
    assert Moments.of(kind, time, 5) is not None
    assert Moments.of(kind, time, 4) is None
