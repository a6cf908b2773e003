"""Steps: what repeats regularly through most of the work, or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.course import course_of
from pinprof.analyze.course.results import Steps
from pinprof.data.activity import Caller
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory, Maker
from tests.support.activities import MS, Call, activity
from tests.support.stacks import Range, Sample, capture


def steps(
    calls: Sequence[Call] = (), ranges: Sequence[Range] = (), length: int = 500, sites: Sequence[int] = ()
) -> Steps | None:
    made = capture([Sample(["main@/app"], MS, time * MS) for time in range(1, length + 1)], ranges)
    if calls:
        recorded = activity(calls)
        if sites:
            table = replace(
                recorded.calls,
                site=np.array(sites, np.int32),
                sites=(Caller("step", "train.py", 20), Caller("init", "a.py", 2)),
            )
            recorded = replace(recorded, calls=table)
        made = replace(made, activity=recorded)
    found = course_of(made, attribute(made), prepare_calls(made.activity) if made.activity else None)
    assert found is not None
    return found.steps


def repeated(name: str, every: int, count: int, start: int = 10, length: float = 1) -> list[Call]:
    return [Call(name, (start + every * i) * MS, int((start + every * i + length) * MS)) for i in range(count)]


def test_rarest_call_that_repeats_regularly_begins_a_step() -> None:
    calls = repeated("cudaMemcpyAsync", 10, 48) + repeated("cudaDeviceSynchronize", 60, 8, start=12)
    assert steps(calls) == Steps("call", "cudaDeviceSynchronize", 8, 60 * MS, 60 * MS, 12 * MS)


def test_of_equally_rare_calls_a_synchronisation_tells_most() -> None:
    calls = repeated("cudaMemsetAsync", 50, 9) + repeated("cudaStreamSynchronize", 50, 9, start=14)
    found = steps(calls)
    assert found is not None
    assert found.what == "cudaStreamSynchronize"


def test_calls_of_one_name_at_two_places_are_told_apart() -> None:
    calls = sorted(repeated("cudaMemcpy", 80, 6) + repeated("cudaMemcpy", 10, 50, start=12), key=lambda c: c.start_ns)
    sites = [0 if call.start_ns % (80 * MS) == 10 * MS else 1 for call in calls]
    found = steps(calls, sites=sites)
    assert found is not None
    assert (found.what, found.count) == ("cudaMemcpy in step (train.py:20)", 6)


def test_slowest_step_is_told_with_its_start() -> None:
    calls = repeated("cudaMemcpy", 40, 6) + repeated("cudaMemcpy", 40, 5, start=290)
    assert steps(calls) == Steps("call", "cudaMemcpy", 11, 40 * MS, 80 * MS, 210 * MS)


def test_nothing_regular_has_no_steps() -> None:
    assert steps(repeated("cudaMemcpy", 50, 4)) is None
    assert steps(repeated("cudaMemcpy", 10, 12)) is None, "covers too little of the work"
    bursts = [call for start in (10, 170, 330, 490) for call in repeated("cudaMemcpy", 2, 5, start)]
    assert steps(bursts) is None


def test_tight_loop_is_no_step() -> None:
    assert steps([Call("cudaMemcpyAsync", i * MS // 5, i * MS // 5 + 1000) for i in range(2400)]) is None


def test_ranges_of_one_name_are_steps_where_no_call_was_made() -> None:
    ranges = [Range("step", (10 + 45 * i) * MS, (50 + 45 * i) * MS, pid=100, tid=100) for i in range(10)]
    inner = [Range("load", (12 + 15 * i) * MS, (25 + 15 * i) * MS, 1, pid=100, tid=100) for i in range(30)]
    assert steps(ranges=[*ranges, *inner]) == Steps("range", "step", 10, 40 * MS, 40 * MS, 10 * MS)
    assert steps(ranges=ranges[:4]) is None


def within(name: str, length: int, count: int = 9, domain: str = "app", number: int | None = None) -> list[Range]:
    """Ranges of `length` ms, one each 50 ms; their names count from `number` on."""
    return [
        Range(f"{name}{'' if number is None else number + i}", start, start + length * MS, 0, 100, 100, domain)
        for i, start in enumerate(range(10 * MS, (10 + 50 * count) * MS, 50 * MS))
    ]


def test_ranges_around_nearly_all_work_are_its_steps_whatever_calls_repeat() -> None:
    calls = repeated("cudaDeviceSynchronize", 50, 9, start=14)
    assert steps(calls, within("step", 50)) == Steps("range", "step", 9, 50 * MS, 50 * MS, 10 * MS)
    found = steps(calls, within("load", 30))
    assert found is not None
    assert found.what == "cudaDeviceSynchronize", "a part of a step"


def test_the_longest_of_several_ranges_in_each_step_is_the_step() -> None:
    assert steps(ranges=within("load", 10) + within("train", 48)) == Steps(
        "range", "train", 9, 48 * MS, 48 * MS, 10 * MS
    )


def test_ranges_that_differ_much_are_steps_all_the_same() -> None:
    edges = [10, 30, 50, 60, 200, 220, 400, 410, 480]
    ranges = [Range("batch", a * MS, b * MS, pid=100, tid=100) for a, b in itertools.pairwise(edges)]
    assert steps(ranges=ranges) == Steps("range", "batch", 8, 20 * MS, 180 * MS, 220 * MS)


def test_numbers_at_the_end_of_names_count_steps() -> None:
    found = steps(ranges=within("ProfilerStep#", 50, number=7))
    assert found == Steps("range", "ProfilerStep", 9, 50 * MS, 50 * MS, 10 * MS)
    assert found.starts_ns[:2] == (10 * MS, 60 * MS)
    assert found.ends_ns[:2] == (60 * MS, 110 * MS)
    assert steps(ranges=within("", 50, number=7)) is None, "a number alone names nothing"


def test_the_last_call_begins_a_step_as_long_as_most() -> None:
    found = steps(repeated("cudaMemcpy", 40, 6) + repeated("cudaMemcpy", 40, 5, start=290))
    assert found is not None
    assert found.ends_ns[-1] == found.starts_ns[-1] + 40 * MS


def made_by_lines(*every: int, count: int = 1) -> Steps | None:
    """Steps of a program of 500 ms whose lines each make large memory once in so many ms."""
    made = capture([Sample(["main@/app"], MS, time * MS) for time in range(1, 501)])
    rows = [(time * MS, line) for line, gap in enumerate(every) for time in range(10, 490, gap)]
    table = HostMemoryTable.of(
        len(rows),
        time_ns=[time for time, _ in rows],
        event=HostEvent.MADE,
        maker=Maker.MALLOC,
        pid=100,
        tid=100,
        count=count,
        size_bytes=1 << 20,
        site=[line for _, line in rows],
        given_at=-1,
    ).take(np.argsort([time for time, _ in rows], kind="stable"))
    sites = tuple(HostSite(Caller("step", "train.py", 20 + line), ()) for line in range(len(every)))
    made = replace(made, host_memory=LargeMemory(table, sites, 0))
    found = course_of(made, attribute(made), None)
    assert found is not None
    return found.steps


def test_a_line_that_makes_large_memory_begins_steps_where_no_call_was_recorded() -> None:
    assert made_by_lines(5, 40) == Steps(
        "memory", "memory that step (train.py:21) makes", 12, 40 * MS, 40 * MS, 10 * MS
    )
    assert made_by_lines(5, 150) == Steps("memory", "memory that step (train.py:20) makes", 96, 5 * MS, 5 * MS, 10 * MS)
    assert made_by_lines(150) is None


def test_sums_of_making_memory_have_no_steps() -> None:
    assert made_by_lines(40, count=2) is None
