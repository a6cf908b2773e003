"""Samples in steps of time: few rows, the same sums over stacks, threads, causes, ranges and whole steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.base import columns
from pinprof.report import moments
from pinprof.report.flame import NO_RANGES, FlameData, RangeRows
from pinprof.report.steps import in_steps
from tests.support.sample_report import flame
from tests.support.work import peak_bytes

SAMPLES, PATHS = 3_000, 5
KEYS = ("event", "thread", "node", "cause", "likely")


def recording(seed: int) -> FlameData:
    """A second of samples of few stacks; paths of ranges that begin and end anywhere, and overlap."""
    chance = np.random.default_rng(seed)
    runs: list[tuple[int, int, int]] = []
    for path in range(PATHS):
        edges = np.sort(chance.choice(SAMPLES + 1, 2 * int(chance.integers(1, 40)), replace=False))
        runs += [(path, int(first), int(last)) for first, last in edges.reshape(-1, 2)]
    columns = {
        "node": chance.integers(0, len(flame().depth), SAMPLES).astype(np.int32),
        "event": chance.integers(0, 2, SAMPLES).astype(np.uint8),
        "cause": chance.integers(0, 3, SAMPLES).astype(np.int16),
        "likely": chance.integers(0, 2, SAMPLES).astype(np.uint8),
        "thread": chance.integers(0, 2, SAMPLES).astype(np.int32),
        "weight": chance.integers(1, 1 << 40, SAMPLES),
        "time_ns": np.sort(chance.integers(0, 1_000_000, SAMPLES)) * 1_000,
    }
    columns["time_ns"] -= columns["time_ns"][0]
    ranges = RangeRows(*(np.array(column, np.int32) for column in zip(*runs, strict=True)))
    return replace(flame(), **columns, ranges=ranges, timed=True)


def sums(data: FlameData, step: int, rows: slice = slice(None)) -> dict[tuple[int, ...], int]:
    """Weights by everything that a reader can ask for, of some rows."""
    found: dict[tuple[int, ...], int] = {}
    columns = (*(getattr(data, name)[rows].tolist() for name in KEYS), (data.time_ns[rows] // step).tolist())
    for *key, weight in zip(*columns, data.weight[rows].tolist(), strict=True):
        found[tuple(key)] = found.get(tuple(key), 0) + weight
    return found


def by_range(data: FlameData, step: int) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for path, first, last in zip(*(column.tolist() for column in vars(data.ranges).values()), strict=True):
        for key, weight in sums(data, step, slice(first, last)).items():
            found[path, *key] = found.get((path, *key), 0) + weight
    return found


@pytest.mark.parametrize("rows", [2_000, 600, 450])
@pytest.mark.parametrize("seed", range(5))
def test_steps_keep_every_sum(seed: int, rows: int) -> None:
    data = replace(recording(seed), node=np.zeros(SAMPLES, np.int32), likely=np.zeros(SAMPLES, np.uint8))
    made = in_steps(data, rows)
    assert made.timed
    assert made.step_ns > 0
    assert len(made.node) <= rows
    assert (made.time_ns % made.step_ns == 0).all()
    assert (np.diff(made.time_ns) >= 0).all()
    assert sums(made, made.step_ns) == sums(data, made.step_ns)
    assert by_range(made, made.step_ns) == by_range(data, made.step_ns)


def test_few_runs_of_ranges_ask_for_longer_steps() -> None:
    data = recording(1)
    alone = in_steps(replace(data, ranges=NO_RANGES), 2_900)
    made = in_steps(data, 2_900, 200)
    assert made.step_ns > alone.step_ns
    assert len(made.ranges.path) <= 200
    assert by_range(made, made.step_ns) == by_range(data, made.step_ns)


def test_the_packed_columns_keep_to_a_size() -> None:
    data = replace(recording(2), node=np.zeros(SAMPLES, np.int32))
    made = in_steps(data, size=6_000)
    assert len(made.packed[1]) <= 6_000 < len(data.packed[1])
    assert sums(made, made.step_ns) == sums(data, made.step_ns)


@pytest.mark.parametrize("limits", [(2_900, 200), (450, 300_000), (10, 300_000)])
def test_parts_and_columns_in_files_change_nothing(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    data = recording(6)
    whole = in_steps(data, *limits)
    monkeypatch.setattr(columns, "LONG_ROWS", 1)
    monkeypatch.setattr(columns, "_AT_ONCE", 100)
    monkeypatch.setattr(moments, "_HELD", 300)
    assert in_steps(data, *limits).packed == whole.packed


@pytest.mark.slow
def test_steps_of_more_samples_hold_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LONG_ROWS", 1)
    monkeypatch.setattr(columns, "_AT_ONCE", 1 << 10)
    monkeypatch.setattr(moments, "_HELD", 1 << 10)
    once = replace(recording(7), ranges=NO_RANGES)
    held = []
    for times in (20, 80):
        again = np.tile(np.arange(SAMPLES), times)
        long = replace(
            once,
            **{name: getattr(once, name)[again] for name in (*KEYS, "weight")},
            time_ns=np.arange(len(again)) * 1000,
        )
        held.append(peak_bytes(lambda: in_steps(long, 2_000)))  # noqa: B023 — it is called at once
    assert held[1] < 1.2 * held[0]


def test_what_no_step_makes_few_enough_loses_its_times() -> None:
    data = recording(3)
    made = in_steps(data, 10)
    assert not made.timed
    assert made.step_ns == 0
    assert int(made.weight.sum()) == int(data.weight.sum())


def test_small_recordings_stay_as_they_are() -> None:
    data = recording(4)
    assert in_steps(data) is data
