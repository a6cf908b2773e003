"""Very many ranges: people are shown the longest, all others are counted, and every sum stays as it is."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.data.model import Capture
from pinprof.report.gather import build
from pinprof.report.page import html
from pinprof.report.sections.ranges import Ranges
from pinprof.report.shown import MOST_RANGES, shown_ranges
from tests.support.stacks import Range, Sample, capture

MS = 1_000_000


def numbered(count: int) -> Capture:
    """A step with so many ranges inside, each of its own name and a little longer than the one before."""
    inside = [
        Range(f"op_id = {number}", number * MS, number * MS + 1000 + number, depth=1, pid=100, tid=100)
        for number in range(count)
    ]
    samples = [Sample(["main@/app"], MS, time_ns=number * MS + 1) for number in range(count)]
    return capture(samples, [Range("step", 0, count * MS, pid=100, tid=100), *inside])


def test_a_few_ranges_are_all_shown() -> None:
    ranges = analyze(numbered(MOST_RANGES - 1)).ranges
    shown = shown_ranges(ranges)
    assert shown.index.tolist() == shown.place.tolist() == list(range(MOST_RANGES))
    assert (shown.hidden, shown.hidden_calls, shown.longest_hidden_ns) == (0, 0, 0)


@pytest.mark.slow
def test_of_very_many_ranges_the_longest_are_shown_and_the_others_counted() -> None:
    found = analyze(numbered(2000))
    report = build(found)
    rows = Ranges.of(report)
    assert rows is not None
    names = [entry.name for entry, _, _ in rows.shown_rows]
    assert names == ["step", *(f"op_id = {number}" for number in range(2000 - MOST_RANGES + 1, 2000))]
    assert rows.others.startswith(
        "The list shows the longest 300 of 2,001 ranges. The others have 1,701 calls, and none of them"
    )
    page = html.render(report)
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert [row["name"] for row in data["ranges"]] == names
    assert page.count('data-range="') < 3 * MOST_RANGES
    assert "op_id = 17:" not in page
    assert rows.others in page
    assert len(report.to_json()["ranges"]) == 2001


@pytest.mark.slow
def test_what_the_page_sums_again_is_of_the_ranges_that_it_shows() -> None:
    found = analyze(numbered(2000))
    report = build(found)
    assert report.instances is not None
    assert report.flame is not None
    rows, runs = report.instances.ranges, report.flame.ranges
    assert len(rows) == MOST_RANGES
    shown = [found.ranges[index] for index in report.shown.index.tolist()]
    for place, entry in enumerate(shown):
        mine = rows.group == place
        assert rows.length_ns[mine].sum() == entry.wall_ns
        samples = sum((runs.last - runs.first)[runs.path == place])
        assert samples == entry.events[0].samples


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 40))
def test_a_shown_range_stands_below_those_around_it(lengths: list[int], most: int) -> None:
    """Ranges of random lengths, nested as far as the one before reaches."""
    ranges, at = [], 0
    for number, length in enumerate(lengths):
        ranges.append(Range(f"{number % 7}", at, at + 1 + length, depth=number % 3, pid=100, tid=100))
        at += length // 2
    found = analyze(capture([Sample(["main@/app"], MS)], ranges)).ranges
    shown = shown_ranges(found, most)
    paths = {id(found[index].path) for index in shown.index.tolist()}
    every = {id(entry.path) for entry in found}
    assert len(paths) == min(most, len(found)) or most < len(found)
    assert all(id(found[i].path.parent) in paths or id(found[i].path.parent) not in every for i in shown.index.tolist())
    assert np.flatnonzero(shown.place >= 0).tolist() == shown.index.tolist()
    hidden = [entry for index, entry in enumerate(found) if shown.place[index] < 0]
    assert shown.hidden_calls == sum(entry.count for entry in hidden)
    assert shown.hidden == len(hidden)
