"""What a cure saves in a step: only where steps are seen, and in how many only where samples can tell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.course.results import Steps
from pinprof.analyze.opportunities.per_step import per_step
from pinprof.analyze.opportunities.results import PerStep
from tests.support.scenes import MS, SMALL, ran, recorded, scene

STEP = 20
MAIN = ("main@/app",)


def found(costly: Collection[int], length: int, steps: Steps | None, before: int = 0) -> PerStep | None:
    """Of ten steps of 20 ms those that begin with `length` ms of faults, which save half of them; `before` the first
    step there are more of these.
    """
    samples = ran(0, before, SMALL)
    for number in range(10):
        start = before + number * STEP
        faults = length if number in costly else 0
        samples += [*ran(start, start + faults, SMALL), *ran(start + faults, start + STEP, MAIN)]
    shown = scene(recorded(samples), steps=steps)
    rows = np.flatnonzero(np.isin(shown.node, shown.node[shown.caused_by("fault.anon")]))
    return per_step(shown, rows, shown.ns(rows) // 2)


def ten(first: int = 0) -> Steps:
    starts = tuple((first + number * STEP) * MS for number in range(10))
    return Steps(
        "range", "step", 10, STEP * MS, STEP * MS, starts[0], starts, tuple(start + STEP * MS for start in starts)
    )


def test_a_cost_of_every_step_is_told_of_a_step() -> None:
    assert found(range(10), 6, ten()) == PerStep(3 * MS, STEP * MS, 10, 10)
    assert found(range(10), 1, ten()) == PerStep(MS // 2, STEP * MS, 10, 10), "one sample in each is enough to see all"


def test_a_cost_of_some_steps_is_told_of_these() -> None:
    assert found((2, 7), 10, ten()) == PerStep(5 * MS, STEP * MS, 2, 10)


def test_too_few_samples_do_not_tell_which_steps_have_a_cost() -> None:
    assert found((1, 2, 4, 5, 8), 2, ten()) == PerStep(MS // 2, STEP * MS, None, 10)


def test_what_lies_outside_of_steps_is_no_saving_of_theirs() -> None:
    assert found(range(10), 4, ten(20), before=20) == PerStep(2 * MS, STEP * MS, 10, 10)
    assert found(range(10), 2, ten(20), before=20) is None, "half of it lies before the first"


def test_a_step_within_which_the_work_ends_is_in_no_average() -> None:
    whole = ten()
    cut = replace(whole, ends_ns=(*whole.ends_ns[:-1], whole.starts_ns[-1] + 3 * MS))
    assert found(range(10), 6, cut) == PerStep(3 * MS, STEP * MS, 10, 10)


def test_times_of_hours_are_no_overflow() -> None:
    shown = scene(recorded(ran(0, 10 * STEP, SMALL)), steps=ten())
    rows = np.flatnonzero(shown.caused_by("fault.anon"))
    told = per_step(shown, rows, 10**15)
    assert told is not None
    assert told.saving_ns == 10**14


@pytest.mark.parametrize("costly", [range(10), (3,)])
def test_without_steps_nothing_is_told_of_them(costly: Collection[int]) -> None:
    assert found(costly, 10, None) is None
