"""Grouping against plain Python, in its dense and its sparse form."""

from __future__ import annotations

import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.groups import group

ROWS = st.lists(
    st.tuples(
        st.integers(-2, 3) | st.just(-(1 << 63)),
        st.sampled_from([0, 1, 5, -1, 1 << 40, -(1 << 62), (1 << 63) - 1]),
        st.integers(-50, 1 << 50),
    ),
    max_size=30,
)
"""Numbers of processes and threads are anybody's: -1 is unknown, and files may hold any."""


@given(ROWS)
def test_groups_and_their_figures_are_those_of_plain_python(rows: list[tuple[int, int, int]]) -> None:
    first, second, values = (np.array([row[column] for row in rows], np.int64) for column in range(3))
    found = group(first, second)
    expected: dict[tuple[int, int], list[int]] = {}
    for one, two, value in rows:
        expected.setdefault((one, two), []).append(value)
    keys = list(zip(*(key.tolist() for key in found.keys), strict=True))
    assert keys == sorted(expected)
    members = [expected[key] for key in keys]
    assert found.count.tolist() == [len(kept) for kept in members]
    assert found.sum(values).tolist() == [sum(kept) for kept in members]
    assert found.sum_of(lambda part: values[part]).tolist() == [sum(kept) for kept in members]
    assert found.min(values).tolist() == [min(kept) for kept in members]
    assert found.max(values).tolist() == [max(kept) for kept in members]
    assert found.median(values).tolist() == [statistics.median_low(kept) for kept in members]
    assert found.first(values).tolist() == [kept[0] for kept in members]
    assert [keys[at] for at in found.of.tolist()] == [(one, two) for one, two, _ in rows]
