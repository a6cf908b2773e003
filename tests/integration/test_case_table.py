"""What reports promise for recorded programs with a known problem, against what the cure saved there."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.opportunities.search import RUNS
from pinprof.data.activity import NO_STREAM, UNRECORDED
from pinprof.data.rates import Rate, family
from tests.cases.programs import programs
from tests.cases.recorded import (
    CASES,
    CONTROLS,
    DATA,
    SUFFIX,
    Case,
    Control,
    analysed,
    at_fault,
    found,
    place,
    promised_s,
    work_s,
)
from tests.cases.table import PAGE
from tests.truth.spread import NINE_OF_TEN, factor, ratios

ELSEWHERE = ("alloc_pairs", "managed_readback", "tiny_copies", "pool_start", "not_async")
"""Programs whose source is not in tests/cases."""
MOST_ON_HEALTHY = 0.05
"""Of the work, as much may be promised to a program without a problem."""


def each(cases: Iterable[Case | Control]) -> list[Any]:
    """The cases by their names."""
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("case", each(CASES))
def test_first_opportunity_has_line_and_cure_and_a_saving_as_measured(case: Case) -> None:
    first = found(case.name)[0]
    assert place(first) in case.lines
    assert first.cure.id in case.cures
    predicted = sum(one.saving.likely_ns for one in at_fault(case)) / 1e9
    assert predicted == pytest.approx(case.saved_s, rel=case.limit)
    # No more is promised than the work took.
    assert promised_s(case.name) <= work_s(case.name)


def test_nine_of_ten_intervals_hold_what_was_measured() -> None:
    ends = {
        case.name: [sum(getattr(one.saving, end) for one in at_fault(case)) / 1e9 for end in ("low_ns", "high_ns")]
        for case in CASES
    }
    outside = [case.name for case in CASES if not ends[case.name][0] <= case.saved_s <= ends[case.name][1]]
    assert len(outside) <= (1 - NINE_OF_TEN) * len(CASES), outside


def test_intervals_are_as_wide_as_two_measurements_of_a_saving_differ() -> None:
    assert pytest.approx(factor(), abs=0.03) == RUNS
    assert len(ratios()) >= 40


@pytest.mark.parametrize("control", each(CONTROLS))
def test_programs_without_a_problem_are_promised_next_to_nothing(control: Control) -> None:
    assert promised_s(control.name) <= MOST_ON_HEALTHY * work_s(control.name)
    if not control.cured_s:
        assert [one.title for one in found(control.name) if one.phase == "work"] == []


@pytest.mark.parametrize(("name", "call"), [("alloc_pairs", "cudaMalloc"), ("managed_readback", "cudaMallocManaged")])
def test_first_call_that_creates_the_context_is_known_whatever_it_is(name: str, call: str) -> None:
    activity = analysed(name).activity
    assert activity is not None
    assert [entry.name for entry in activity.context_init] == [call]
    assert call not in {entry.name for entry in activity.whole.calls}


@pytest.mark.parametrize(("name", "streams"), [("pinned_ring", 4), ("over_pinned", 1)])
def test_stream_of_a_copy_is_that_of_the_driver_s_call_inside_it(name: str, streams: int) -> None:
    activity = analysed(name).capture.activity
    assert activity is not None
    assert activity.calls.stream is not None
    assert activity.calls.copy_kind is not None
    copies = activity.calls.copy_kind != UNRECORDED
    assert len(np.unique(activity.calls.stream[copies])) == streams
    assert set(activity.calls.stream[~copies].tolist()) == {NO_STREAM}


def test_lines_at_fault_are_those_that_the_programs_mark() -> None:
    marked = {program.path.stem: program for program in programs([]) if not program.healthy}
    for case in CASES:
        if case.name in ELSEWHERE:
            continue
        program = marked[case.name]
        assert set(case.lines) == {f"{program.path.name}:{line}" for line in program.guilty()}


def test_every_recording_is_in_the_table_and_on_the_page() -> None:
    names = {case.name for case in (*CASES, *CONTROLS)}
    assert {path.name.removesuffix(SUFFIX) for path in DATA.glob(f"*{SUFFIX}")} == names
    shown = PAGE.read_text("utf-8")
    assert [name for name in sorted(names) if f"| `{name}` |" not in shown] == []
    assert "predicted" in shown


def test_recordings_hold_no_environment_and_no_home() -> None:
    for path in sorted(DATA.glob(f"*{SUFFIX}")):
        with tarfile.open(path) as packed:
            for member in filter(tarfile.TarInfo.isfile, packed):
                stream = packed.extractfile(member)
                assert stream is not None
                data = stream.read()
                text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
                assert not any(word in text for word in (b"PATH=", b"HOME=", b"USER=", b"/home/", b"/root/"))


@pytest.mark.parametrize("case", each([*CASES, *CONTROLS]))
def test_an_answer_is_that_of_all_rates_once_it_has_those_that_it_asked_for(case: Case | Control) -> None:
    whole = analysed(case.name)
    every = whole.capture.rates
    assert every is not None
    early, known = whole.about(replace(whole.capture, rates=None)), tuple[Rate, ...]()
    while asked := tuple(rate for rate in every.rates if family(rate.measure) in early.guessed and rate not in known):
        known += asked
        early = early.about(replace(early.capture, rates=replace(every, rates=known)))
    assert early.opportunities == whole.opportunities
    assert early.answer == whole.answer
    assert len(known) < len(every.rates)
