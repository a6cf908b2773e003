"""Predictions against the clock: a run on an H200 priced in another mode, beside the capture of that mode.

The rates (tests/data/h200/rates.json) were measured by `pinprof bench` on the same kind of machine on another day:
making pages was a quarter to a third dearer then than in the captures.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pinprof.analyze import Run, analyze
from pinprof.analyze.costs.counterfactual import counterfactual
from pinprof.analyze.costs.results import Counterfactual
from pinprof.data import rates
from pinprof.read import ReadOptions, read
from tests.support.h200 import DATA, unpack_captures

CLOSE = 0.15
"""Of the measured time. Iterations of a capture differ by up to 8 % from their mean, rates of another boot by more."""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    unpack_captures(folder)
    return folder


@cache
def analysis_of(path: Path) -> Run:
    return analyze(read(path, ReadOptions()))


def priced(captures: Path, name: str) -> Counterfactual:
    found = analysis_of(captures / f"{name}.pinprof")
    told = counterfactual(found.capture, found.events, found.ranges, rates.read(DATA / "rates.json"))
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("ran", "other"),
    [
        ("pageable", "pinned"),
        ("pageable", "zerocopy"),
        ("pinned", "pageable"),
        ("pinned", "zerocopy"),
        ("zerocopy", "pinned"),
        ("zerocopy", "pageable"),
        ("uvm", "pinned"),
        ("uvm", "zerocopy"),
        ("uvm", "pageable"),
        ("pageable", "uvm"),
        ("pinned", "uvm"),
    ],
)
def test_what_another_mode_would_cost_is_what_it_cost(captures: Path, ran: str, other: str) -> None:
    meant = priced(captures, other)
    (estimate,) = [one for one in priced(captures, ran).estimates if one.mode == meant.mode]
    assert estimate.low_ns <= meant.measured_ns <= estimate.high_ns
    assert estimate.ns == pytest.approx(meant.measured_ns, rel=CLOSE)


@pytest.mark.parametrize("name", ["pageable", "pinned", "zerocopy", "uvm"])
def test_the_rates_alone_are_off_by_what_making_memory_costs_on_another_day(captures: Path, name: str) -> None:
    told = priced(captures, name)
    assert told.modelled is not None
    assert 0.5 < told.scale < 1.5
    assert told.modelled.ns == pytest.approx(told.measured_ns, rel=0.35)


def test_a_pinned_run_is_told_what_prefault_and_a_pool_would_save(captures: Path) -> None:
    told = priced(captures, "pinned")
    estimates = {one.mode: one for one in told.estimates}
    assert told.best is not None
    assert told.best.mode == "pooled"
    assert estimates["prefault"].high_ns < 0.75 * told.measured_ns
    # What the capture's own allocation took: 73.7 ms.
    assert estimates["pooled"].once_ns == pytest.approx(73.7e6, rel=CLOSE)
