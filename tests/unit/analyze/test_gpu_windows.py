"""What windows of GPU work say of the whole: against runs of which all is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.activity.sampled import SampledShare, gpu_samples, sample_words
from pinprof.data.activity import Activity, GpuOpTable, GpuWindowTable
from pinprof.data.activity_kinds import OpKind
from pinprof.data.time_window import TimeWindow

MS = 1_000_000
SLOT, SLOTS = 20 * MS, 1_000


def program(step_ms: float, busy: float, rng: np.random.Generator) -> GpuOpTable:
    """Twenty seconds of kernels of 100 µs, launched at a step's beginning, which run for a part of each step."""
    steps = np.arange(0, SLOT * SLOTS, step_ms * MS)
    count = np.minimum(rng.poisson(busy * step_ms * 10, len(steps)), int(step_ms * 10))
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    start = (np.repeat(steps, count) + place * 0.1 * MS).astype(np.int64)
    name = np.arange(len(start)) % 4 == 0
    return GpuOpTable.of(
        len(start), start_ns=start, end_ns=start + MS // 10, kind=OpKind.KERNEL, name=name.astype(np.int32), pid=7,
        names=("gemm", "ncclDevKernel_AllReduce"),
    )  # fmt: skip


def windowed(operations: GpuOpTable, chance: float, rng: np.random.Generator, certain: int = 10) -> Activity:
    """What of it is recorded: the first slots, and of the others each with a chance."""
    drawn = np.flatnonzero(rng.random(SLOTS - certain) < chance) + certain
    windows = GpuWindowTable.of(
        len(drawn) + 1,
        start_ns=np.append(0, drawn * SLOT),
        end_ns=np.append(certain * SLOT, (drawn + 1) * SLOT),
        pid=7,
        chance=np.append(1.0, np.full(len(drawn), chance)),
        lived_ns=SLOTS * SLOT,
    )
    at = np.searchsorted(windows.start_ns, operations.start_ns, "right") - 1
    return Activity("", windows=windows, window_ops=operations.take(operations.start_ns < windows.end_ns[at]))


@pytest.mark.parametrize("step_ms", [3.0, 20.0, 170.0, 1500.0])
@pytest.mark.parametrize("busy", [0.15, 0.8])
def test_the_intervals_hold_the_truth(step_ms: float, busy: float) -> None:
    held = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        operations = program(step_ms, busy, rng)
        (sample,) = gpu_samples(windowed(operations, 0.1, rng))
        truth = len(operations) * 0.1 * MS / (SLOT * SLOTS)
        assert sample.busy
        held += sample.busy.low <= truth <= sample.busy.high
    assert held >= 16, held


def test_a_start_that_does_nothing_is_not_taken_for_the_rest() -> None:
    rng = np.random.default_rng(5)
    operations = program(10, 0.6, rng)
    operations = operations.take(operations.start_ns > 10_000 * MS)
    (sample,) = gpu_samples(windowed(operations, 0.3, rng, certain=500))
    assert sample.busy
    assert sample.kernels == sample.busy
    assert sample.busy.share == pytest.approx(0.3, abs=0.03)
    assert sample.collectives
    assert sample.collectives.share == pytest.approx(0.075, abs=0.02)
    assert dict(sample.by_name) == pytest.approx({"gemm": 0.75, "ncclDevKernel_AllReduce": 0.25}, abs=0.05)
    assert sample.copies
    assert sample.copies.share == 0


def test_the_first_window_alone_says_nothing_of_the_rest() -> None:
    activity = windowed(program(10, 0.6, np.random.default_rng(5)), 0.0, np.random.default_rng(5))
    (sample,) = gpu_samples(activity)
    assert sample.busy is None
    assert "not known" in sample_words(sample)


def test_a_cut_of_time_has_the_windows_and_the_life_of_the_cut() -> None:
    rng = np.random.default_rng(5)
    whole = windowed(program(10, 0.6, rng), 0.1, rng)
    cut = whole.each(TimeWindow(SLOT * SLOTS // 2, SLOT * SLOTS * 3 // 4)._of)
    (sample,) = gpu_samples(cut)
    assert sample.lived_ns == pytest.approx(SLOT * SLOTS / 4, rel=0.05)
    assert sample.busy
    assert sample.busy.share == pytest.approx(0.6, abs=0.1)


def test_without_windows_nothing_is_said() -> None:
    activity = windowed(program(10, 0.6, np.random.default_rng(5)), 0.1, np.random.default_rng(5))
    assert gpu_samples(replace(activity, windows=GpuWindowTable.empty())) == ()


def test_windows_without_work_say_that_the_gpu_was_idle() -> None:
    rng = np.random.default_rng(5)
    activity = windowed(program(10, 0.6, rng), 0.1, rng)
    (sample,) = gpu_samples(replace(activity, window_ops=activity.window_ops.take(slice(0))))
    assert sample.busy == SampledShare(0, 0, 0)
    assert sample_words(sample) == "the GPU worked 0.0 % of the time (0.0 % to 0.0 %)"
