"""Predictions against the clock: a run on an H200 priced in another mode, beside the capture of that mode.

The rates are those of tests/data/h200/rates.json, measured by `pinprof bench` on that machine. Until it is there, they
are figures that plain C++ programs measured on the same kind of machine (256 MiB): nothing of the captures is in them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pinprof import rates
from pinprof.analyze import Analysis, analyze
from pinprof.analyze.cost_results import Counterfactual
from pinprof.analyze.counterfactual import counterfactual
from pinprof.read import ReadOptions, read
from tests.h200 import DATA, unpack_captures

MEASURED = DATA / "rates.json"
GIB = 1 << 30
SLACK = 0.10
"""Beyond the stated error: another boot, another day, and perf sampling the captures but not the rates."""


def per_gib(measure: str, least_ms: float, most_ms: float) -> list[rates.Rate]:
    """A cost in proportion to the size."""
    likely = (least_ms + most_ms) / 2
    return [
        rates.Rate(measure, size, *(ms * 1e6 * size / GIB for ms in (likely, least_ms, most_ms)))
        for size in (1 << 20, 1 << 28)
    ]


def at_gb_per_s(measure: str, least: float, most: float) -> list[rates.Rate]:
    """A cost by bandwidth."""
    return per_gib(measure, GIB / most / 1e6, GIB / least / 1e6)


def from_plain_programs() -> rates.Rates:
    """What C++ programs of the same machine measured in two runs, ms/GiB and GB/s; least and most."""
    return rates.Rates(
        {},
        "cuda",
        "2026-01-01T00:00:00+00:00",
        (
            *per_gib("pin.alloc", 335, 393),
            *per_gib("free.pinned", 87, 103),
            *per_gib("pin.register-touched", 31, 47),
            # One thread's touch and registration, less the registration.
            *per_gib("touch.first", 413 - 31, 458 - 35),
            *per_gib("prefault.t16", 71, 85),
            *at_gb_per_s("h2d.pinned", 55.4, 55.5),
            *at_gb_per_s("d2h.pinned", 55.3, 55.3),
            *at_gb_per_s("h2d.pageable", 7.9, 9.4),
            *at_gb_per_s("d2h.pageable", 13.0, 18.0),
            *per_gib("uvm.ondemand", 33 * 4, 33 * 4),
            *per_gib("uvm.prefetch", 5.4 * 4, 5.4 * 4),
            *per_gib("uvm.prefetched-kernel", 0.24 * 4, 0.24 * 4),
            # Not measured there: small beside the others, and given an error as large as themselves.
            *per_gib("alloc.malloc", 0, 1),
            *per_gib("free.pageable", 0, 48),
            *per_gib("free.unregister", 0, 20),
            # Both ways at once over a link of 55 GB/s each way; kernels reach less than copies.
            *at_gb_per_s("zerocopy.pass", 35, 55),
        ),
    )


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    unpack_captures(folder)
    return folder


@cache
def analysis_of(path: Path) -> Analysis:
    return analyze(read(path, ReadOptions()))


def priced(captures: Path, name: str) -> Counterfactual:
    found = analysis_of(captures / f"{name}.pinprof")
    used = replace(rates.read(MEASURED), backend="cuda") if MEASURED.exists() else from_plain_programs()
    told = counterfactual(found.capture, found.events, found.ranges, used)
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
    ],
)
def test_what_another_mode_would_cost_is_what_it_cost(captures: Path, ran: str, other: str) -> None:
    (estimate,) = [one for one in priced(captures, ran).estimates if one.mode == other]
    measured = priced(captures, other).measured_ns
    assert estimate.low_ns * (1 - SLACK) <= measured <= estimate.high_ns * (1 + SLACK)
    assert estimate.ns == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("name", ["pageable", "pinned", "zerocopy"])
def test_the_arithmetic_gives_the_measured_run_back(captures: Path, name: str) -> None:
    told = priced(captures, name)
    assert told.modelled is not None
    assert told.modelled.ns == pytest.approx(told.measured_ns, rel=0.2)


def test_a_pinned_run_is_told_what_prefault_and_a_pool_would_save(captures: Path) -> None:
    told = priced(captures, "pinned")
    estimates = {one.mode: one for one in told.estimates}
    assert told.best is not None
    assert told.best.mode == "pooled"
    assert estimates["prefault"].high_ns < 0.75 * told.measured_ns
    assert 0.6 * 84 * 1e6 < estimates["pooled"].once_ns < 1.4 * 98 * 1e6
