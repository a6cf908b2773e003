"""The tree of ranges: which ranges are one, and that nothing grows with the square of the nesting."""

from __future__ import annotations

import gc
from functools import cache
from pathlib import Path

import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.analyze.ranges.paths import RangePath, range_paths
from pinprof.data.model import RangeTable
from pinprof.read import ReadOptions
from pinprof.report.gather import build
from tests.support.nested_ranges import write_nested
from tests.support.stacks import Range, capture

DEEP, REPORTED = 20_000, 5_000


def table(*ranges: Range) -> RangeTable:
    return capture([], ranges).ranges


def test_paths_stand_in_the_order_of_their_first_start_and_parents_come_first() -> None:
    of, paths = range_paths(
        table(
            Range("later", 50, 60),
            Range("step", 0, 20),
            Range("copy", 0, 10, depth=1),
            Range("step", 20, 40),
            Range("free", 20, 25, depth=1),
            Range("copy", 30, 40, depth=1),
        )
    )
    assert [str(path) for path in paths] == ["step", "step > copy", "step > free", "later"]
    assert of.tolist() == [0, 1, 0, 2, 1, 3]
    assert paths[1].parent is paths[2].parent is paths[0]
    assert (paths[1].names, paths[1].depth, paths[3].parent) == (("step", "copy"), 1, None)


def test_a_range_that_its_parent_does_not_reach_stands_alone() -> None:
    _, paths = range_paths(table(Range("over", 0, 5), Range("orphan", 10, 20, depth=1), Range("deep", 30, 40, depth=7)))
    assert [(str(path), path.depth) for path in paths] == [("over", 0), ("orphan", 0), ("deep", 0)]


def test_without_ranges_there_are_no_paths() -> None:
    of, paths = range_paths(table())
    assert (of.tolist(), paths) == ([], ())


@cache
def nested(count: int) -> tuple[RangePath, ...]:
    return range_paths(table(*(Range(f"level {n}", n, 2 * count - n, depth=n) for n in range(count))))[1]


def test_a_deep_path_reads_as_its_innermost_names_and_any_can_be_asked_for() -> None:
    paths = nested(20)
    assert (str(paths[15])[:17], str(paths[16])[:21]) == ("level 0 > level 1", "… > level 1 > level 2")
    asked = " > ".join(paths[19].names)
    assert [path.depth for path in paths if path.is_called(asked)] == [19]
    assert [path.depth for path in paths if path.is_called("level 3")] == [3]
    assert not any(path.is_called("level 2 > level 3") for path in paths)


@pytest.mark.slow
def test_a_path_keeps_its_own_name_and_its_parent_only() -> None:
    paths = nested(DEEP)
    assert paths[-1].depth == DEEP - 1
    assert paths[-1].names[:2] == ("level 0", "level 1")
    for path in paths:
        held = [entry for entry in gc.get_referents(path) if entry is not RangePath]
        assert all(entry in (path.name, path.domain, path.parent, path.depth) for entry in held)


@pytest.mark.slow
def test_a_report_of_deeply_nested_ranges_spells_few_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spelled = 0
    upward = RangePath._upward

    def counted(path: RangePath) -> list[RangePath]:
        nonlocal spelled
        chain = list(upward(path))
        spelled += len(chain)
        return chain

    monkeypatch.setattr(RangePath, "_upward", counted)
    recording, ranges = write_nested(tmp_path, REPORTED, 200)
    data = build(analyze(read.read(recording, ReadOptions(ranges=ranges))))
    document = data.to_json()
    assert len(data.ranges) == REPORTED
    assert spelled < 20 * REPORTED
    assert [entry["parent"] for entry in document["ranges"]] == [None, *range(REPORTED - 1)]
