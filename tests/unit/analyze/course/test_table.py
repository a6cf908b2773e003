"""What a run was doing, as columns that others group."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.course.results import PHASE_NAMES
from tests.support.scenes import MAIN, MS, Traced, ran, recorded, scene, waited
from tests.support.stacks import Range

OUTER, INNER = Range("outer", 0, 40 * MS, pid=100, tid=100), Range("inner", 10 * MS, 20 * MS, pid=100, tid=100, depth=1)


def test_each_row_lies_in_the_innermost_range_around_it_or_in_none() -> None:
    doing = scene(recorded(ran(0, 60), ranges=[OUTER, INNER]))
    names = [str(path) for path in doing.members.paths]
    rows = zip(doing.course.wall.time_ns.tolist(), doing.range.tolist(), strict=True)
    found = {time // MS: names[path] if path >= 0 else "" for time, path in rows}
    assert found[5] == found[25] == "outer"
    assert found[15] == "outer > inner"
    assert found[50] == ""


def test_each_row_lies_in_the_critical_threads_call_around_it_or_in_none() -> None:
    calls = [Traced("cuMemAlloc", 10, 20, 1 << 20), Traced("cuMemFree", 30, 40), Traced("cuInit", 44, 58, tid=101)]
    doing = scene(recorded(ran(0, 60) + ran(0, 60, tid=101), calls))
    assert doing.capture.activity is not None
    names = (*doing.capture.activity.calls.names, "")
    rows = zip(doing.course.wall.time_ns.tolist(), doing.call.tolist(), strict=True)
    found = {time // MS: names[call] for time, call in rows}
    assert (found[5], found[15], found[25], found[35], found[50]) == ("", "cuMemAlloc", "", "cuMemFree", "")


def test_without_calls_no_row_lies_in_one() -> None:
    doing = scene(recorded(ran(0, 10)))
    assert set(doing.call.tolist()) == {-1}


def test_columns_have_a_value_for_each_row_and_keep_its_time() -> None:
    doing = scene(recorded(ran(0, 30) + waited(30, 40, (*MAIN, "futex_wait"))))
    wall = doing.course.wall
    columns = (doing.leaf, doing.place, doing.phase, doing.range, doing.call, doing.thread, doing.node)
    assert {len(column) for column in columns} == {len(wall)}
    assert set(doing.phase.tolist()) <= set(range(len(PHASE_NAMES)))
    assert doing.ns(np.arange(len(wall))) == 40 * MS
    assert int(doing.waits().sum()) == 1
    assert sum(doing.causes(np.arange(len(wall))).values()) == 40 * MS
