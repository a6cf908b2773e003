"""The range of a cost is the innermost one around most of its time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.opportunities.around import RangesAround
from pinprof.analyze.opportunities.results import Course, WallTable
from pinprof.model import Int64
from tests.support.stacks import Range, capture

TID, END = 7, 1000


def around(ranges: list[Range], wall: list[tuple[int, int]]) -> tuple[RangesAround, Int64]:
    """Of a critical thread with wall rows (time, ns)."""
    columns: dict[str, Any] = {"time_ns": np.array([row[0] for row in wall], np.int64)}
    columns["ns"] = np.array([row[1] for row in wall], np.int64)
    course = SimpleNamespace(tid=TID, end_ns=END, wall=WallTable.of(len(wall), **columns))
    return RangesAround.of(capture([], ranges).ranges, cast("Course", course)), np.arange(len(wall))


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], ""),
        ([Range("run", 0, 900, tid=TID)], "run"),
        ([Range("run", 0, 900, tid=TID), Range("step", 90, 310, depth=1, tid=TID)], "step"),
        ([Range("run", 0, 900, tid=TID), Range("step", 90, 110, depth=1, tid=TID)], "run"),
        ([Range("run", 0, 900, tid=TID), *(Range("step", at, at + 1, 1, 100, TID) for at in (100, 200))], "step"),
        ([Range("run", 0, 900, tid=TID), Range("step", 90, 200, tid=TID), Range("step", 91, 199, tid=TID)], "run"),
        ([Range("run", 0, 900, tid=-1)], "run"),
        ([Range("run", 0, 900, tid=8)], ""),
        ([Range("run", 0, END, tid=TID)], ""),
        ([Range("run", 0, 300, tid=TID)], "run"),
        ([Range("run", 101, 300, tid=TID)], ""),
    ],
    ids=[
        "none", "one", "inner", "inner around little", "repeated", "overlapping of one name", "of no thread",
        "of another thread", "never ends", "end excluded", "half",
    ],
)  # fmt: skip
def test_the_innermost_range_around_most_of_the_time_is_named(ranges: list[Range], expected: str) -> None:
    found, rows = around(ranges, [(300, 1), (100, 2), (200, 1)])
    assert found.innermost(rows) == expected
    assert found.innermost(rows[:0]) == ""


RANGES = st.builds(
    lambda name, start, length: Range(name, start, start + length, 0, 100, TID),
    st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 40),
)  # fmt: skip


@given(
    st.lists(RANGES, max_size=8), st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=12)
)
def test_any_ranges_are_weighed_as_one_by_one(ranges: list[Range], wall: list[tuple[int, int]]) -> None:
    inside: dict[str, int] = {}
    for name in {one.name for one in ranges}:
        mine = [one for one in ranges if one.name == name]
        inside[name] = sum(ns for time, ns in wall if any(one.start_ns <= time < one.end_ns for one in mine))
    most = {name for name, ns in inside.items() if 2 * ns > sum(ns for _, ns in wall)}
    lengths = {name: min(one.end_ns - one.start_ns for one in ranges if one.name == name) for name in most}
    found, rows = around(ranges, wall)
    name = found.innermost(rows)
    assert (name in most and lengths[name] == min(lengths.values())) if most else name == ""
