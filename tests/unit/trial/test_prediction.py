"""What opportunities promise of a cure, as a ratio of what is measured."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.course.results import PHASE_NAMES, WallTable
from pinprof.analyze.opportunities.results import Opportunity, Saving
from pinprof.analyze.sites import Site
from pinprof.data.activity import Activity, ApiCallTable, CallOverhead
from pinprof.trial.cures import CURES
from pinprof.trial.measure import Measure, parse
from pinprof.trial.prediction import answered, predicted
from pinprof.trial.result import Ratio
from tests.support.opportunities import MS, course, opportunity

KEEP, BOTH = CURES["glibc-keep-memory"], CURES["glibc-keep-huge-pages"]


def found(cure: str, saving_ms: float, **changed: Any) -> Opportunity:
    saving = Saving(round(saving_ms * 0.9 * MS), round(saving_ms * MS), round(saving_ms * 1.2 * MS))
    base = opportunity()
    return replace(base, cure=replace(base.cure, id=cure), saving=saving, **changed)


def ratio(
    *opportunities: Opportunity,
    cure: Any = KEEP,
    measure: str = "wall",
    as_is: float = 2000 * MS,
    traced: int = 0,
    runnable_ms: int = 0,
) -> Ratio | None:
    """What is promised of a run of 2.4 s that waited so long for a processor, in phase work."""
    row = {"time_ns": 500 * MS, "ns": runnable_ms * MS, "phase": PHASE_NAMES.index("work")}
    analysis: Any = SimpleNamespace(
        opportunities=SimpleNamespace(found=opportunities, to_measure=()),
        course=replace(course(0), wall=WallTable.of(1, **row)),
        capture=SimpleNamespace(activity=None if not traced else traced_calls(traced)),
        attribution=SimpleNamespace(leaf=np.array([LEAF["wait.runnable"]])),
    )
    return predicted(analysis, cure, parse(measure), as_is, 2000 * MS)


def traced_calls(count: int) -> Activity:
    """Calls of the critical thread in phase work, of which each took 0.1 ms longer."""
    calls = ApiCallTable.of(count, start_ns=500 * MS, end_ns=501 * MS, pid=100, tid=100)
    return Activity("test", calls=calls, call_overhead=CallOverhead(50_000, 100_000))


def test_a_saving_is_set_against_the_run_as_it_is() -> None:
    promised = ratio(found("reuse-memory", 500))
    assert promised is not None
    assert (promised.low, promised.median, promised.high) == pytest.approx((0.7, 0.75, 0.775))


def test_what_tracing_took_is_no_part_of_the_run() -> None:
    promised = ratio(found("reuse-memory", 500), traced=10_000)
    assert promised is not None
    assert promised.median == pytest.approx(0.5)
    assert ratio(found("reuse-memory", 500), traced=20_000) is None


@pytest.mark.parametrize(("measure", "as_is", "whole_ms"), [("wall", 2400, 2400), ("work", 1800, 1800)])
def test_a_busy_machine_makes_the_cured_run_wait_less_as_well(measure: str, as_is: int, whole_ms: int) -> None:
    promised = ratio(found("reuse-memory", 300), measure=measure, as_is=as_is * MS, runnable_ms=1200)
    assert promised is not None
    assert promised.median == pytest.approx(1 - 300 / (whole_ms - 1200))


def test_savings_of_all_opportunities_that_a_cure_carries_out_add_up() -> None:
    promised = ratio(found("reuse-memory", 500), found("huge-pages", 300), cure=BOTH)
    assert promised is not None
    assert promised.median == pytest.approx(0.6)
    alone = ratio(found("reuse-memory", 500), found("huge-pages", 300))
    assert alone is not None
    assert alone.median == pytest.approx(0.75)


def test_no_saving_is_more_than_all() -> None:
    promised = ratio(found("reuse-memory", 5000))
    assert promised is not None
    assert (promised.low, promised.median, promised.high) == (0, 0, 0)


def test_another_way_round_the_same_trouble_is_tried_without_a_prediction() -> None:
    one = found("huge-pages", 500)
    assert answered([one], KEEP) == (one,)
    assert ratio(one) is None
    assert answered([found("spawn", 1)], KEEP) == ()


@pytest.mark.parametrize(("phase", "wall", "work"), [("work", True, True), ("start-up", True, False)])
def test_savings_count_in_their_phase(phase: Any, wall: bool, work: bool) -> None:
    one = found("reuse-memory", 100, phase=phase)
    assert (ratio(one, measure="wall") is not None) is wall
    assert (ratio(one, measure="work") is not None) is work


def test_savings_count_in_the_range_that_they_lie_in() -> None:
    site = Site("step", "a.py", 3, "python", "epoch > load")
    assert ratio(found("reuse-memory", 100, site=site), measure="range:load") is not None
    assert ratio(found("reuse-memory", 100, site=site), measure="range:step") is None


@pytest.mark.parametrize(("value", "seconds"), [(1.8, True), (2.3, True), (0.2, False), (1800.0, False)])
def test_a_printed_number_near_the_time_of_the_work_is_seconds(value: float, *, seconds: bool) -> None:
    promised = ratio(found("reuse-memory", 180), measure="regex:took ([0-9.]+)", as_is=value)
    assert (promised is not None) is seconds
    if promised is not None:
        assert promised.median == pytest.approx(1 - 0.18 / value)


def test_memory_is_no_time() -> None:
    assert ratio(found("reuse-memory", 100), measure=Measure("memory").text) is None


def test_every_cure_answers_what_the_catalogue_has() -> None:
    from pinprof.analyze.opportunities.catalogue import CURES as CATALOGUE

    for cure in CURES.values():
        assert cure.answers <= set(CATALOGUE), cure.id
        assert not cure.predicted_by & cure.tried_for, cure.id
