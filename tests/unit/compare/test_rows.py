"""Which differences are called significant: none where nothing differs, a small one where runs vary little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.base.statistics import LEVEL, MeanDifference
from pinprof.compare import rows as engine
from pinprof.compare.lines import Moves
from pinprof.compare.results import Family, MoreRuns, Row
from pinprof.compare.rows import FEW_SAMPLES, ONE_RUN, rows_of
from pinprof.compare.runs import ComparedRun, Figure
from pinprof.data.manifest import Manifest

MS = 1_000_000
# Of a run of a second of work: start-up and exit, three nested ranges, calls, causes and lines that samples estimate.
CLOCKS: list[tuple[Family, str, float]] = [
    ("phase", "whole run", 1500), ("phase", "start-up", 400), ("phase", "exit", 100), ("phase", "work", 1000),
    ("phase", "work without preemption", 950),
    ("range", "step", 980), ("range", "step > fill", 300), ("range", "step > compute", 680),
    ("call", "cudaMemcpyAsync", 200), ("call", "cudaDeviceSynchronize", 90),
]  # fmt: skip
SAMPLED: list[tuple[Family, str, float]] = [
    ("cause", "fault.anon", 200), ("cause", "user.app", 600), ("cause", "copy.staging", 150), ("cause", "sys.irq", 20),
    ("line", "a.py:1", 300), ("line", "a.py:2", 500), ("line", "a.py:3", 100), ("event", "cpu-clock", 1450),
]  # fmt: skip
ONCE = ("whole run", "start-up", "exit")


def run_with(figures: dict[tuple[Family, str], Figure], number: int = 0, **more: Any) -> ComparedRun:
    facts: dict[str, Any] = {
        "path": f"run-{number}", "manifest": Manifest(1, "0", (), {}, {}, (), {}), "figures": figures,
        "work": {"run": 1.0}, "measured": frozenset(family for family, _ in figures) | {"call"},
        "around": {}, "named": {}, "found": (), "stacks": {}, "period_ns": float(MS), "rates": None, "tracing_ns": 0.0,
        "identity": str(number),
    }  # fmt: skip
    return ComparedRun(**(facts | more))


def simulated(random: np.random.Generator, spread: float, work: float = 1.0) -> ComparedRun:
    """A run whose times vary together by `spread`, and each by half of that on its own; samples come a millisecond."""
    figures = {}
    together = random.normal(0, spread)
    for family, name, ms in CLOCKS:
        factor = (1 if name in ONCE else work) * np.exp(together + random.normal(0, spread / 2))
        figures[family, name] = Figure(ms * MS * factor, name, once=name in ONCE)
    for family, name, ms in SAMPLED:
        count = int(random.poisson(ms * work * np.exp(together + random.normal(0, spread / 2))))
        noise = MS * np.sqrt(count)
        figures[family, name] = Figure(count * MS, name, exact=False, samples=count, noise=noise)
    return run_with(figures)


def compared(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> tuple[Row, ...]:
    return rows_of(before, after, ([1.0] * len(before), [1.0] * len(after)), "run", Moves({}))


def sides(random: np.random.Generator, spread: float, work: float) -> tuple[Row, ...]:
    return compared([simulated(random, spread) for _ in range(5)], [simulated(random, spread, work) for _ in range(5)])


@pytest.fixture
def significance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a row says beside that and takes most of its time: which change would be found."""
    monkeypatch.setattr(MeanDifference, "detectable_ratio", lambda *_: 1.5)
    monkeypatch.setattr(engine, "_more_runs", lambda *_: None)


@pytest.fixture
def more_runs_of_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out how many more runs the other rows ask for, which takes most of the time."""
    asked = engine._more_runs
    monkeypatch.setattr(engine, "_more_runs", lambda row, *found: asked(row, *found) if row.name == "work" else None)


@pytest.mark.slow
@pytest.mark.usefixtures("significance_alone")
@pytest.mark.parametrize("spread", [0.01, 0.1])
def test_sides_without_a_difference_show_none(spread: float) -> None:
    random = np.random.default_rng(11)
    wrong = sum(any(row.significant for row in sides(random, spread, 1.0)) for _ in range(100))
    assert wrong / 100 <= LEVEL


@pytest.mark.slow
@pytest.mark.usefixtures("significance_alone")
def test_a_change_of_five_percent_is_found_where_runs_vary_by_one() -> None:
    random = np.random.default_rng(12)
    found = wrong = 0
    for _ in range(100):
        rows = sides(random, 0.01, 1.05)
        found += any(row.significant and row.family == "phase" and row.name == "work" for row in rows)
        wrong += any(row.significant for row in rows if row.name in ("start-up", "exit"))
    assert found >= 90
    assert wrong <= 5


@pytest.mark.slow
def test_what_is_called_detectable_is_mostly_found(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promised are 90 % if runs vary as much as these did, which five runs know to a quarter only."""
    monkeypatch.setattr(engine, "_more_runs", lambda *_: None)
    random = np.random.default_rng(13)
    limits = [row.detectable for _ in range(20) for row in sides(random, 0.03, 1.0) if row.name == "work"]
    middle = float(np.median([limit for limit in limits if limit is not None]))
    request.getfixturevalue("significance_alone")
    found = [row.significant for _ in range(100) for row in sides(random, 0.03, 1 + middle) if row.name == "work"]
    assert np.mean(found) >= 0.7


@pytest.mark.slow
@pytest.mark.usefixtures("more_runs_of_work_alone")
def test_the_runs_that_are_asked_for_detect_what_is_said(request: pytest.FixtureRequest) -> None:
    """The same 90 %, of what five runs know of the variation; the other rows share the error, as they do here."""
    random = np.random.default_rng(14)
    asked = [row.more_runs for _ in range(20) for row in sides(random, 0.05, 1.0) if row.name == "work"]
    told = [one for one in asked if one is not None]
    assert len(told) > 15
    assert {one.change for one in told} == {0.05}
    runs = int(np.median([one.runs for one in told]))
    request.getfixturevalue("significance_alone")
    found = 0
    for _ in range(60):
        before, after = ([simulated(random, 0.05, work) for _ in range(runs)] for work in (1.0, 1.05))
        found += any(row.significant for row in compared(before, after) if row.name == "work")
    assert found >= 45


@pytest.mark.slow
def test_more_runs_are_asked_for_only_where_they_help() -> None:
    def more(*runs: list[ComparedRun]) -> MoreRuns | None:
        return next(row for row in compared(*runs) if row.name == "work").more_runs

    assert more(work(1000, 1001, 999, 1000), work(1000, 1000, 1001, 999)) is None
    some = more(work(1000, 1100, 900, 1000), work(1000, 1050, 900, 1000))
    wild = more(work(1000, 1500, 700, 1200), work(1000, 1600, 800, 1100))
    assert some is not None
    assert wild is not None
    assert some.change < wild.change
    assert more(work(1000, 10_000, 100, 3000), work(1000, 20, 3000, 30_000)) is None
    assert more(work(1000), work(1100)) is None
    one_sided = more(work(1000), work(1000, 1100, 900, 1000))
    assert one_sided is not None
    assert one_sided.change == 0.05


def work(*ms: float) -> list[ComparedRun]:
    return [run_with({("phase", "work"): Figure(value * MS, "work")}, number) for number, value in enumerate(ms)]


def test_one_run_of_a_side_is_not_tested_whatever_it_took() -> None:
    (row,) = compared(work(1000), work(200))
    assert (row.significant, row.chance, row.untested, row.detectable) == (False, None, ONE_RUN, None)
    (row,) = compared(work(1000, 1010, 990), work(200))
    assert (row.significant, row.untested) == (False, ONE_RUN)
    assert row.detectable is not None
    assert 0.02 < row.detectable < 0.2


def test_few_samples_are_never_significant() -> None:
    def sampled(amount: float, samples: int) -> ComparedRun:
        figure = Figure(amount * MS, "fault.anon", exact=False, samples=samples, noise=1.0)
        return run_with({("phase", "work"): Figure(100 * MS, "work"), ("cause", "fault.anon"): figure})

    few = compared([sampled(value, 2) for value in (20, 20.1, 20)], [sampled(value, 2) for value in (40, 40.1, 40)])
    many = compared([sampled(value, 20) for value in (20, 20.1, 20)], [sampled(value, 20) for value in (40, 40.1, 40)])
    assert [row.untested for row in few if row.family == "cause"] == [FEW_SAMPLES]
    assert [row.significant for row in many if row.family == "cause"] == [True]


def test_samples_bound_how_certain_a_difference_is() -> None:
    """Runs that happen to agree say less than the number of their samples allows."""

    def sampled(amount: float) -> ComparedRun:
        figure = Figure(amount * MS, "user.app", exact=False, samples=50, noise=np.sqrt(50) * MS)
        return run_with({("phase", "work"): Figure(100 * MS, "work"), ("cause", "user.app"): figure})

    rows = compared([sampled(50), sampled(50.1)], [sampled(55), sampled(55.1)])
    assert not any(row.significant for row in rows if row.family == "cause")


def test_sides_that_were_sampled_at_other_rates_differ_by_more_than_that_costs() -> None:
    before = [replace(run, around={"samples per second": "999"}) for run in work(1000, 1001, 1000)]
    after = [replace(run, around={"samples per second": "100"}) for run in work(980, 981, 980)]
    assert [row.significant for row in compared(before, after)] == [False]
    same = [replace(run, around={"samples per second": "999"}) for run in after]
    assert [row.significant for row in compared(before, same)] == [True]


def test_start_up_is_known_to_a_sample_s_period() -> None:
    def started(ms: float) -> ComparedRun:
        figures: dict[tuple[Family, str], Figure] = {("phase", "start-up"): Figure(ms * MS, "start-up", once=True)}
        return run_with(figures, period_ns=10.0 * MS)

    rows = compared([started(value) for value in (50, 50.1, 50)], [started(value) for value in (58, 58.1, 58)])
    assert [row.significant for row in rows] == [False]
    rows = compared([started(value) for value in (50, 50.1, 50)], [started(value) for value in (68, 68.1, 68)])
    assert [row.significant for row in rows] == [True]


def test_what_one_side_lacks_is_gone_or_new_and_tested() -> None:
    def with_call(ms: float | None) -> ComparedRun:
        figures: dict[tuple[Family, str], Figure] = {("phase", "work"): Figure(1000 * MS, "work")}
        if ms is not None:
            figures["call", "cudaFreeHost"] = Figure(ms * MS, "cudaFreeHost")
        return run_with(figures)

    rows = compared([with_call(value) for value in (100, 103, 99)], [with_call(None) for _ in range(3)])
    row = next(row for row in rows if row.family == "call")
    assert (row.state, row.mean_after, row.significant) == ("gone", 0, True)
    rows = compared([with_call(None) for _ in range(3)], [with_call(value) for value in (100, 103, 99)])
    assert next(row for row in rows if row.family == "call").state == "new"


def test_what_is_not_worth_telling_is_no_row() -> None:
    figures: dict[tuple[Family, str], Figure] = {
        ("phase", "work"): Figure(1000 * MS, "work"), ("call", "cudaMalloc"): Figure(9 * MS, "cudaMalloc"),
    }  # fmt: skip
    assert [row.name for row in compared([run_with(figures)], [run_with(figures)])] == ["work"]


def test_figures_are_divided_by_the_work_but_for_what_happens_once() -> None:
    def done(units: float) -> ComparedRun:
        return run_with(
            {
                ("phase", "work"): Figure(100 * units * MS, "work"),
                ("phase", "start-up"): Figure(500 * MS, "start-up", once=True),
            }
        )

    rows = rows_of([done(10)], [done(20)], ([10.0], [20.0]), "step", Moves({}))
    assert {row.name: (row.mean_before, row.mean_after, row.per) for row in rows} == {
        "work": (100 * MS, 100 * MS, "step"),
        "start-up": (500 * MS, 500 * MS, "run"),
    }


def test_what_one_side_did_not_record_is_not_compared() -> None:
    with_cause = run_with({("range", "step"): Figure(900 * MS, "step"), ("cause", "user.app"): Figure(500 * MS, "app")})
    without = run_with({("range", "step"): Figure(800 * MS, "step")})
    assert [row.family for row in compared([with_cause], [without])] == ["range"]
