"""The captures from an H200 give the published shares: within 1.5 points for every leaf of at least 2 %."""

from __future__ import annotations

import pytest

from pinprof.analyze import LEAF, EventResult, RangeResult
from pinprof.data.model import KERNEL
from pinprof.report.explanation import explain
from tests.support.h200 import NAMES, analysis

TOLERANCE = 0.015


def result(name: str, *path: str) -> RangeResult:
    return next(entry for entry in analysis(name).ranges if entry.path.names == path)


def clock(entry: RangeResult) -> EventResult:
    return entry.events[0]


@pytest.mark.parametrize(
    ("name", "path", "milliseconds", "shares"),
    [
        ("pinned", ("iteration", "alloc"), 492,
         {"pin.faultin": 0.87, "pin.walk": 0.07, "dma.map": 0.03, "uvm.map_ext": 0.02}),
        ("pinned", ("iteration", "free"), 129, {"free.shmem": 0.63, "free.unmap": 0.19, "unpin": 0.14}),
        ("pageable", ("iteration", "init"), 743,
         {"fault.anon": 0.44, "user.app": 0.26, "fault.entry": 0.26, "fault.core": 0.04}),
        ("pageable", ("iteration",), 1075, {"fault.*": 0.52, "user.app": 0.18, "free.unmap": 0.05}),
        ("uvm", ("iteration", "init"), 632, {"uvm.cpu_fault": 0.54, "user.app": 0.45}),
        ("uvm", ("iteration", "cpu_read"), 213, {"uvm.cpu_fault": 0.97}),
    ],
)  # fmt: skip
def test_shares_are_the_measured_ones(
    name: str, path: tuple[str, ...], milliseconds: int, shares: dict[str, float]
) -> None:
    entry = result(name, *path)
    part = clock(entry)
    assert entry.count == 5
    assert part.total / 1e6 == pytest.approx(milliseconds, rel=0.01)
    assert {leaf: part.share(leaf) for leaf in shares} == pytest.approx(shares, abs=TOLERANCE)
    told = sum(weight for leaf, weight in part.by_leaf.items() if part.share(leaf) >= 0.02 + TOLERANCE)
    assert told <= (sum(shares.values()) + TOLERANCE * len(shares)) * part.total or path == ("iteration",)


def test_libcuda_copies_pageable_memory_in_a_quarter_of_the_iteration() -> None:
    part = clock(result("pageable", "iteration"))
    assert part.share("copy.staging", "user.libcuda") == pytest.approx(0.25, abs=TOLERANCE)
    assert part.share("copy.staging") > 0.9 * part.share("copy.staging", "user.libcuda")
    assert part.heuristic >= part.by_leaf["copy.staging"] - 4 * 500_250


def test_pin_user_pages_is_in_94_percent_of_the_stacks_of_cuda_malloc_host() -> None:
    part = clock(result("pinned", "iteration", "alloc"))
    assert part.inclusive["pin_user_pages"] / part.total == pytest.approx(0.944, abs=0.002)
    assert analysis("pinned").headline == "94 % of the alloc range is pin_user_pages; 87 % is creating the pages."


def test_headlines_tell_what_the_program_waits_for() -> None:
    assert analysis("pageable").headline.startswith(
        "51 % of the iteration range is page faults; 24 % is staging copies"
    )
    assert analysis("uvm").headline.startswith("53 % of the iteration range is CPU faults on managed memory")


@pytest.mark.parametrize("name", ["pinned", "both"])
def test_copies_of_pinned_memory_are_waiting_not_staging(name: str) -> None:
    for phase in ("h2d", "d2h"):
        part = clock(result(name, "iteration", phase))
        assert part.share("sync.poll") > 0.9
        assert part.share("copy.staging") == 0


def test_waiting_for_the_kernel_of_managed_memory_is_polling() -> None:
    assert clock(result("uvm", "iteration", "kernel")).share("sync.poll") > 0.95


@pytest.mark.parametrize("name", ["pageable", "pinned", "uvm", "both"])
def test_sampled_time_agrees_with_the_programs_own_clock(name: str) -> None:
    for entry in analysis(name).ranges:
        if entry.wall_ns >= 100_000_000:
            assert clock(entry).total == pytest.approx(entry.wall_ns, rel=0.01), entry.path


@pytest.mark.parametrize("name", ["uvm", "uvm.all"])
def test_uvm_functions_belong_to_the_uvm_module(name: str) -> None:
    frames = analysis(name).capture.stacks.frames
    kernel = [frames[number] for number in range(len(frames)) if frames.mode[number] == KERNEL]
    uvm = {frame.dso.name for frame in kernel if frame.symbol.startswith(("uvm_va_", "uvm_api_", "uvm_vm_fault"))}
    assert {name.strip("[]") for name in uvm} == {"nvidia_uvm"}


def test_bottom_halves_appear_in_the_system_wide_capture_only() -> None:
    assert clock(result("uvm.all", "iteration", "kernel")).share("uvm.gpu_fault") == pytest.approx(0.49, abs=0.02)
    assert "uvm.gpu_fault" not in analysis("uvm").events[0].by_leaf


def test_idle_time_stays_out_of_the_ranges() -> None:
    whole = analysis("uvm.all")
    assert whole.events[0].by_leaf["sys.idle"] > 0
    assert all("sys.idle" not in clock(entry).by_leaf for entry in whole.ranges)


@pytest.mark.parametrize("name", NAMES)
def test_leaves_sum_to_the_weights_of_the_samples(name: str) -> None:
    whole = analysis(name)
    samples = whole.capture.samples
    for number, part in enumerate(whole.events):
        assert sum(part.by_leaf.values()) == part.total == int(samples.weight[samples.event == number].sum())


@pytest.mark.parametrize("name", NAMES)
def test_little_remains_unexplained(name: str) -> None:
    assert analysis(name).events[0].share("other.*") < 0.012


def test_both_events_are_there_and_apart() -> None:
    clock_part, faults = analysis("pageable").events
    assert (clock_part.event.unit, faults.event.unit) == ("ns", "faults")
    assert faults.total == 331_584
    assert faults.share("user.app") > 0.95


def fired(name: str) -> set[str]:
    return {finding.rule for finding in analysis(name).findings if finding.status == "fired"}


def test_findings_fire_where_the_cost_is() -> None:
    assert fired("pageable") >= {"first-touch", "staging-copies", "alloc-loop", "no-huge-pages"}
    assert fired("pinned") >= {"first-touch-in-pin", "alloc-loop", "freeing"}
    assert fired("uvm") >= {"managed-cpu-faults"}
    assert not fired("pinned") & {"first-touch", "staging-copies", "managed-cpu-faults", "compaction"}
    assert not fired("pageable") & {"first-touch-in-pin", "managed-cpu-faults", "compaction"}


def test_huge_pages_inside_a_pin_cannot_be_judged_from_page_faults() -> None:
    (finding,) = [found for found in analysis("pinned").findings if found.rule == "no-huge-pages"]
    assert finding.status == "not-assessable"
    assert finding.missing


def test_the_explanation_shows_the_frame_that_decided() -> None:
    explanation = explain(analysis("pinned"), "pin.faultin")
    assert explanation.deciding[0] == ("handle_mm_fault", explanation.weight)
    assert "▶ handle_mm_fault" in str(explanation)


def test_every_leaf_can_be_explained() -> None:
    for leaf in LEAF:
        text = str(explain(analysis("uvm.all"), leaf))
        assert text.startswith(leaf)
