from __future__ import annotations

import pytest

from pinprof.base.errors import UsageError
from pinprof.trial.measure import Measure, parse
from pinprof.trial.processes import EndedRun


def ended(output: bytes = b"", **changed: int) -> EndedRun:
    facts = {"status": 0, "signal": 0, "wall_ns": 5, "peak_bytes": 7} | changed
    return EndedRun(**facts, output=output, complaint="")


@pytest.mark.parametrize("text", ["wall", "work", "memory", "range:load: a", "regex:took ([0-9.]+) s"])
def test_a_measure_reads_as_it_is_written(text: str) -> None:
    assert parse(text).text == text


@pytest.mark.parametrize(
    "text", ["", "walls", "wall:x", "range:", "regex:", "regex:(", "regex:seconds", "regex:(a)(b)", "memory:1"]
)
def test_what_cannot_be_measured_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.slug == "measure"


def test_wall_time_and_memory_are_the_runs_own() -> None:
    assert Measure("wall").of_run(ended()) == 5
    assert Measure("memory").of_run(ended()) == 7


@pytest.mark.parametrize(
    ("output", "value"),
    [
        (b"seconds 1.5\nseconds 2.5\n", 2.5),
        (b"\xff\xfe\nseconds 3\n", 3.0),
        (b"seconds x\n", None),
        (b"seconds 0\n", None),
        (b"seconds 1.2.3\n", None),
        (b"", None),
    ],
)
def test_the_last_number_that_matches_counts(output: bytes, value: float | None) -> None:
    assert parse("regex:^seconds ([0-9.]+)").of_run(ended(output)) == value


def test_a_group_that_takes_no_part_is_no_number() -> None:
    assert parse("regex:a([0-9])?").of_run(ended(b"a")) is None


def test_outputs_are_compared_without_what_is_measured() -> None:
    measure = parse("regex:seconds ([0-9.]+)")
    assert measure.masked(b"seconds 1.5 sum 3\n") == measure.masked(b"seconds 22.75 sum 3\n")
    assert measure.masked(b"seconds 1.5 sum 3\n") != measure.masked(b"seconds 1.5 sum 4\n")
    assert Measure("wall").masked(b"seconds 1") == b"seconds 1"
