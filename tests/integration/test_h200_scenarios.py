"""The scenarios recorded by pinprof on an H200 say what is published about them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pinprof.analyze import RangeResult, Run, analyze
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.read import ReadOptions, read
from tests.support.h200 import unpack_captures

SCENARIOS = ("pageable", "pinned", "zerocopy", "uvm")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    unpack_captures(folder)
    return folder


@cache
def analysis_of(path: Path) -> Run:
    return analyze(read(path, ReadOptions()))


def range_of(analysis: Run, name: str) -> RangeResult:
    (found,) = (result for result in analysis.ranges if result.name == name)
    return found


@pytest.mark.parametrize("name", ["pinned", "zerocopy"])
def test_nine_tenths_of_a_pinned_allocation_is_pin_user_pages(captures: Path, name: str) -> None:
    analysis = analysis_of(captures / f"{name}.pinprof")
    clock = range_of(analysis, "alloc").events[0]
    assert clock.inclusive["pin_user_pages"] >= 0.9 * clock.total
    assert clock.by_leaf["pin.faultin"] >= 0.8 * clock.total
    assert "pin_user_pages" in analysis.headline


def test_half_of_a_pageable_iteration_is_page_faults(captures: Path) -> None:
    analysis = analysis_of(captures / "pageable.pinprof")
    clock = range_of(analysis, "iteration").events[0]
    assert 0.45 * clock.total <= clock.by_level["fault"] <= 0.65 * clock.total
    assert clock.by_leaf["copy.staging"] >= 0.2 * clock.total
    faults = range_of(analysis, "init").events[1]
    assert faults.total == pytest.approx(10 * (256 << 20) // 4096, rel=0.01), "one fault per 4 KiB page"


def test_reading_managed_memory_back_is_cpu_faults(captures: Path) -> None:
    clock = range_of(analysis_of(captures / "uvm.pinprof"), "cpu_read").events[0]
    assert clock.by_leaf["uvm.cpu_fault"] >= 0.9 * clock.total


def test_only_a_system_wide_recording_shows_the_faults_of_the_gpu(captures: Path) -> None:
    own = range_of(analysis_of(captures / "uvm.pinprof"), "kernel").events[0]
    assert "uvm.gpu_fault" not in own.by_leaf
    everything = range_of(analysis_of(captures / "uvm-system-wide.pinprof"), "kernel").events[0]
    assert everything.by_leaf["uvm.gpu_fault"] >= 0.4 * everything.total


@pytest.mark.parametrize("name", SCENARIOS)
def test_sampled_time_agrees_with_the_ranges_own_clock(captures: Path, name: str) -> None:
    analysis = analysis_of(captures / f"{name}.pinprof")
    long = [result for result in analysis.ranges if result.wall_ns >= 200_000_000]
    assert len(long) >= 3
    for result in long:
        assert result.events[0].total == pytest.approx(result.wall_ns, rel=0.03), result.name


@pytest.mark.parametrize("name", [*SCENARIOS, "uvm-system-wide", "program"])
def test_kernel_frames_have_names_without_that_kernel(captures: Path, name: str) -> None:
    """The captures hold no kallsyms: their symbols travelled in symbols.json.gz."""
    assert not (captures / f"{name}.pinprof" / "kallsyms.zst").exists()
    frames = analysis_of(captures / f"{name}.pinprof").capture.stacks.frames
    kernel = [frame.symbol for frame in (frames[index] for index in range(len(frames))) if frame.mode]
    assert len(kernel) > 100
    assert len([symbol for symbol in kernel if symbol.startswith("[")]) <= 0.01 * len(kernel)


def test_a_program_without_ranges_shows_its_calls(captures: Path) -> None:
    analysis = analysis_of(captures / "program.pinprof")
    assert not analysis.ranges
    assert analysis.events[0].by_level["pin"] >= 0.3 * analysis.events[0].total
    symbols = analysis.capture.stacks.frames.symbol
    assert {"cudaHostAlloc", "cudaFreeHost", "pin_user_pages"} <= set(symbols)
    assert analysis.opportunities.headline.startswith("main pins new memory each time"), "not the linked runtime"


def activity_of(captures: Path, name: str) -> ActivityAnalysis:
    activity = analysis_of(captures / f"{name}.pinprof").activity
    assert activity is not None
    return activity


def test_perf_and_nsys_of_one_run_split_each_call_by_cause(captures: Path) -> None:
    analysis = analysis_of(captures / "pinned-perf-nsys.pinprof")
    assert analysis.capture.clock.uncertainty_ns < 100_000
    calls = {call.name: call for call in activity_of(captures, "pinned-perf-nsys").whole.calls}
    allocation = next(call for name, call in calls.items() if name in ("cudaMallocHost", "cudaHostAlloc"))
    assert allocation.split is not None
    assert sum(allocation.split.by_leaf.values()) == allocation.split.sampled_ns
    # 42 samples of 1 ms: one sample more or less at each end of three calls.
    assert allocation.split.sampled_ns == pytest.approx(allocation.time_ns.total, abs=6_000_000)
    assert allocation.split.by_leaf["pin.faultin"] >= 0.8 * allocation.split.sampled_ns


def test_a_fault_storm_and_a_prefetched_run_look_different(captures: Path) -> None:
    storm, healthy = (activity_of(captures, name).uvm for name in ("uvm-nsys", "uvm-prefetch-nsys"))
    assert storm is not None
    assert healthy is not None
    assert storm.pattern == "fault storm"
    assert healthy.pattern == "prefetched"
    assert (
        activity_of(captures, "uvm-nsys").whole.lost_ns > 20 * activity_of(captures, "uvm-prefetch-nsys").whole.lost_ns
    )


@pytest.mark.parametrize("name", ["uvm-nsys", "uvm-perf-nsys", "pinned-perf-nsys", "uvm-prefetch-nsys"])
def test_nothing_of_the_recording_machine_is_in_a_capture(captures: Path, name: str) -> None:
    for path in (captures / f"{name}.pinprof").iterdir():
        content = path.read_bytes()
        for private in (b"LD_LIBRARY_PATH", b"HOSTNAME", b"/root/", b"HOME=", b"PATH=/"):
            assert private not in content, path.name


@pytest.mark.parametrize(
    ("mistake", "cured", "cure", "saved_ms"),
    [
        ("round-trip-copied", "round-trip-resident", "keep-resident", 6 * 69.4),
        ("overlap-blocking", "overlap-streams", "use-streams", 6 * 5.74),
        ("uvm-thrash-ping-pong", "uvm-thrash-cure", "prefetch", None),
    ],
)
def test_mistake_is_told_its_cure_and_the_cured_variant_is_not(
    captures: Path, mistake: str, cured: str, cure: str, saved_ms: float | None
) -> None:
    wrong, right = (analysis_of(captures / f"{name}.pinprof").opportunities for name in (mistake, cured))
    assert wrong is not None
    assert right is not None
    # These runs allocate in each iteration, as the scenarios did then; the first of all else counts.
    first = next(one for one in wrong.found if not one.cure.id.startswith("pool-"))
    assert first.cure.id == cure
    assert cure not in {one.cure.id for one in right.found}
    if saved_ms is not None:
        # Of the phases that the cure changes, in six iterations.
        assert first.saving.likely_ns / 1e6 == pytest.approx(saved_ms, rel=0.15)
