"""Which captures stand out: what is planted is found, and where nothing is planted nothing is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pinprof.fleet.outliers import outliers_of
from pinprof.fleet.panel import Panel
from pinprof.fleet.trends import series_of


def panel(values: np.ndarray, program: np.ndarray) -> Panel:
    """From ns of (work, one cause) per capture, and the number of its program."""
    expected = np.zeros_like(values)
    for number in np.unique(program):
        expected[program == number] = np.median(values[program == number], axis=0)
    work = expected[:, 0]
    residual = (values - expected) / work[:, None]
    residual[:, 0] = np.log(values[:, 0] / work)
    names = tuple(f"c{number:04}" for number in range(len(values)))
    programs = tuple(f"p{number}" for number in np.unique(program))
    days = [1 + number * 28 // len(values) for number in range(len(values))]
    started = tuple(f"2026-11-{number:02}T00:00:00" for number in days)
    units, ones = ("run",) * len(programs), np.ones(len(values))
    return Panel(
        names, names, started, programs, program, units, ones, ("work", "fault.anon"),
        values, expected, work, residual,
    )  # fmt: skip


def healthy(count: int, seed: int, heavy: bool = False) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    random = np.random.default_rng(seed)
    program = random.integers(4, size=count)
    noise = random.standard_t(4, count) if heavy else random.normal(size=count)
    work = 1e9 * (1 + program) * np.exp(0.03 * noise)
    cause = 0.3 * work * np.exp(random.normal(0, 0.05, count))
    return np.column_stack([work, cause]), program, random


def facts(count: int, random: np.random.Generator) -> dict[str, dict[str, str]]:
    return {
        f"c{number:04}": {
            "host": f"h{random.integers(20)}", "driver": f"d{random.integers(4)}", "rank": str(number % 8),
        }
        for number in range(count)
    }  # fmt: skip


@pytest.mark.slow
def test_fleets_without_trouble_have_next_to_no_outliers() -> None:
    found = 0
    for seed in range(12):
        values, program, random = healthy(400, seed)
        found += len(outliers_of(panel(values, program), facts(400, random)).outliers)
    # Each fleet may say something false with 5 %, in groups and in captures.
    assert found <= 3


def test_rare_captures_of_a_heavy_tail_are_few() -> None:
    values, program, random = healthy(1000, 1, heavy=True)
    assert len(outliers_of(panel(values, program), facts(1000, random)).outliers) <= 5


def shifted(values: np.ndarray, mine: np.ndarray, share: float) -> None:
    """The cause takes so much more of the work in these captures."""
    more = share * values[mine, 0]
    values[mine, 0] += more
    values[mine, 1] += more


def test_a_driver_is_named_and_not_the_hosts_that_have_it() -> None:
    values, program, random = healthy(600, 7)
    told = facts(600, random)
    for name, mine in told.items():
        mine["driver"] = "slow" if mine["host"] in ("h1", "h2", "h3") or int(name[1:]) % 10 == 0 else "good"
    slow = np.array([told[f"c{number:04}"]["driver"] == "slow" for number in range(600)])
    shifted(values, slow, 0.25)
    (one,) = outliers_of(panel(values, program), told).outliers
    assert (one.dimension, one.group, one.measure, one.captures) == ("driver", "slow", "work", int(slow.sum()))
    assert one.ratio == pytest.approx(1.25, abs=0.03)
    assert one.because[0].what == "fault.anon"


def test_what_parts_captures_alike_is_said_to_be_the_same() -> None:
    values, program, random = healthy(400, 3)
    told: dict[str, Mapping[str, str]] = {}
    for name, mine in facts(400, random).items():
        bad = mine["host"] == "h4"
        told[name] = {"host": mine["host"], "kernel": "6.1" if bad else "6.8"}
    bad = np.array([told[f"c{number:04}"]["host"] == "h4" for number in range(400)])
    shifted(values, bad, 0.3)
    (one,) = outliers_of(panel(values, program), told).outliers
    assert {(one.dimension, one.group), *one.alike} == {("host", "h4"), ("kernel", "6.1")}


def test_a_group_of_few_and_a_small_effect_are_not_named() -> None:
    values, program, random = healthy(400, 5)
    told = facts(400, random)
    for number in range(4):
        told[f"c{number:04}"] = {"host": "rare"}
    rare = np.array([told[f"c{number:04}"]["host"] == "rare" for number in range(400)])
    shifted(values, rare, 0.04)
    first = np.array([mine["host"] == "h1" for mine in told.values()])
    shifted(values, first, 0.01)
    assert outliers_of(panel(values, program), told).outliers == ()


def test_single_captures_stand_out_against_their_program() -> None:
    values, program, random = healthy(400, 9)
    shifted(values, np.arange(400) == 17, 0.6)
    (one,) = outliers_of(panel(values, program), facts(400, random)).outliers
    assert (one.dimension, one.capture, one.measure, one.unit) == ("capture", "c0017", "work", "ns")
    assert one.ratio == pytest.approx(1.6, abs=0.15)
    assert one.because[0].what == "fault.anon"


def test_a_change_is_found_where_it_is_and_not_where_none_is() -> None:
    values, program, _ = healthy(300, 11)
    assert all(not one.changes for one in series_of(panel(values, program)))
    values[200:] *= 1.2
    everything = next(one for one in series_of(panel(values, program)) if not one.program)
    (change,) = everything.changes
    assert abs(change.before - 200) <= 3
    assert change.ratio == pytest.approx(1.2, abs=0.03)
