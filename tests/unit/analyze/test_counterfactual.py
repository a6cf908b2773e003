"""What a run would have cost otherwise: the arithmetic on figures that can be checked by eye, and what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.costs.counterfactual import Counterfactual, counterfactual
from pinprof.analyze.costs.memory_modes import MODES, mode_of
from pinprof.data.model import Capture
from pinprof.data.rates import MEASURES, Rate, Rates
from tests.support.stacks import Range, Sample, capture
from tests.unit.analyze.test_rules import MS, STACKS

MIB = 1 << 20
PAGEABLE = {"alloc": "malloc + cudaMalloc", "init": "first write", "h2d": "cudaMemcpy(HostToDevice)"}
PINNED = {"alloc": "cudaMallocHost + cudaMalloc", "init": "write", "h2d": "cudaMemcpy(HostToDevice)"}


def run(phases: dict[str, int], calls: dict[str, str], traffic: list[dict[str, Any]] | None = None) -> Capture:
    """Two iterations with phases of so many milliseconds; init is one sample a millisecond, 3 of 4 page faults."""
    ranges, samples, length = [], [], sum(phases.values()) + 10
    for number in range(2):
        at = number * length * MS
        ranges.append(Range("iteration", at, at + length * MS))
        for name, wall in phases.items():
            ranges.append(Range(name, at, at + wall * MS, depth=1))
            if name == "init":
                kinds = ["fault.anon"] * (wall * 3 // 4) + ["user.app"] * (wall - wall * 3 // 4)
                kinds = kinds if "malloc +" in calls["alloc"] else ["user.app"] * wall
                samples += [Sample(STACKS[kind], MS, time_ns=at + place * MS) for place, kind in enumerate(kinds)]
            at += wall * MS
    scenario = {"name": "x", "backend": "cuda", "parameters": {"size_bytes": MIB}, "calls": calls}
    return capture(samples, ranges, scenario=scenario | ({"traffic": traffic} if traffic else {}))


def rates(backend: str = "cuda", **changes: float) -> Rates:
    """Every measure at 1 MiB in milliseconds, 10 % less and more at the ends; 1 ms where nothing is said."""
    likely = {
        "pin.alloc": 50.0, "free.pinned": 10.0, "h2d.pinned": 4.0, "d2h.pinned": 4.0, "h2d.pageable": 20.0,
        "d2h.pageable": 15.0, "touch.first": 60.0, "prefault.t1": 40.0, "uvm.first-touch": 70.0, "prefault.t8": 12.0,
    }  # fmt: skip
    names = [*(name for name in MEASURES if name != "prefault.tN"), "prefault.t1", "prefault.t8"]
    values = dict.fromkeys(names, 1.0) | likely | {name.replace("_", "."): value for name, value in changes.items()}
    rows = [Rate(name, MIB, ms * MS, 0.9 * ms * MS, 1.1 * ms * MS) for name, ms in values.items() if ms]
    return Rates({}, backend, "2026-01-02T03:04:05+00:00", tuple(rows))


def of(data: Capture, found: Rates | None) -> Counterfactual:
    told = counterfactual(data, analyze(data).events, analyze(data).ranges, found)
    assert told is not None
    return told


def test_a_pageable_run_is_priced_in_pinned_memory() -> None:
    # 80 ms of init are 60 of faults and 20 of writing, which doubles where the pages exist.
    told = of(run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE), rates())
    assert (told.mode, told.measured_ns) == ("pageable", 130 * MS)
    assert told.modelled is not None
    assert told.modelled.ns == pytest.approx(10 * MS + 20 * MS + (1 + 60 + 1 + 20 + 15) * MS)
    # Memory took 1 + 60 + 4 ms where the rates say 1 + 60 + 1, so making pinned memory is scaled by as much.
    assert told.scale == pytest.approx(65 / 62)
    pinned = next(estimate for estimate in told.estimates if estimate.mode == "pinned")
    assert pinned.ns == pytest.approx((10 + 40 + 65 / 62 * 60 + 4 + 4) * MS)
    # The rates' 10 %, writing from once to three times, and the 3 ms by which the rates are off.
    off = 3 * MS * (pinned.ns - 10 * MS) / (told.modelled.ns - 10 * MS)
    assert pinned.low_ns == pytest.approx((10 + 20 + 0.9 * (65 / 62 * 60 + 8)) * MS - off)
    assert pinned.high_ns == pytest.approx((10 + 60 + 1.1 * (65 / 62 * 60 + 8)) * MS + off)
    pooled = next(estimate for estimate in told.estimates if estimate.mode == "pooled")
    assert (pooled.ns, pooled.once_ns) == (pytest.approx((10 + 40 + 8) * MS), pytest.approx(65 / 62 * 50 * MS))


def test_the_scale_is_bounded_and_left_out_without_its_rates() -> None:
    dear = of(run({"alloc": 900, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE), rates())
    assert dear.scale == 2
    found = rates()
    without = replace(found, rates=tuple(rate for rate in found.rates if rate.measure != "touch.first"))
    assert of(run({"alloc": 9, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE), without).scale == 1


def test_the_largest_saving_comes_first_and_counts_only_beyond_its_error() -> None:
    told = of(run({"alloc": 50, "init": 40, "h2d": 4, "d2h": 4, "free": 10}, PINNED), rates())
    assert [estimate.ns for estimate in told.estimates] == sorted(estimate.ns for estimate in told.estimates)
    assert told.best is not None
    assert told.best.mode == told.estimates[0].mode
    assert "8 threads" in next(estimate.title for estimate in told.estimates if estimate.mode == "prefault")
    cheap = of(run({"alloc": 1, "init": 40, "h2d": 4, "d2h": 4, "free": 1}, PINNED), rates())
    assert cheap.best is None or cheap.best.high_ns < cheap.measured_ns


def test_a_pool_is_priced_by_what_it_allocates_and_copies() -> None:
    traffic = [
        {"what": "pinned", "size_bytes": MIB // 8, "count": 8},
        {"what": "device", "size_bytes": MIB // 8, "count": 8},
        {"what": "h2d", "size_bytes": MIB // 8, "count": 8},
        {"what": "d2h", "size_bytes": MIB // 8, "count": 8},
    ]
    eighths = Rates({}, "cuda", "", tuple(replace(rate, size_bytes=MIB // 8) for rate in rates().rates))
    told = of(run({"alloc": 400, "init": 40, "h2d": 32, "d2h": 32, "free": 80}, PINNED, traffic), eighths)
    assert told.modelled is not None
    assert told.modelled.ns == pytest.approx(told.measured_ns)
    assert told.best is not None
    assert (told.best.mode, told.best.ns) == ("pooled", pytest.approx((10 + 40 + 64) * MS))


def test_work_over_the_link_or_on_demand_is_replaced_by_copies_and_a_kernel_on_the_device() -> None:
    mapped = {"alloc": "cudaHostAlloc(Mapped) + cudaHostGetDevicePointer", "init": "write"}
    told = of(run({"alloc": 50, "init": 40, "kernel": 30, "free": 10}, mapped), rates())
    assert told.mode == "zerocopy"
    pinned = next(estimate for estimate in told.estimates if estimate.mode == "pinned")
    assert pinned.ns == pytest.approx((10 + 40 + 50 + 10 + 4 + 4 + 1) * MS)
    managed = {"alloc": "cudaMallocManaged", "init": "CPU first touch"}
    told = of(run({"alloc": 1, "init": 40, "kernel": 30, "cpu_read": 20, "free": 2}, managed), rates())
    prefetch = next(estimate for estimate in told.estimates if estimate.mode == "prefetch")
    # Allocation, first touch and free stay as they were measured.
    assert prefetch.ns == pytest.approx((10 + 1 + 40 + 2 + 1 + 1 + 1) * MS)


def test_without_rates_or_with_those_of_another_backend_nothing_is_claimed() -> None:
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE)
    for found in (None, rates("host")):
        told = of(data, found)
        assert (told.estimates, told.best, told.modelled, told.measured_utc) == ((), None, None, "")


def test_page_faults_that_samples_cannot_see_are_taken_from_the_rates() -> None:
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE)
    told = counterfactual(data, analyze(data).events, analyze(data).ranges, rates(touch_first=50.0), sees_kernel=False)
    assert told is not None
    pinned = next(estimate for estimate in told.estimates if estimate.mode == "pinned")
    # 80 ms of init are 50 of faults by the rate and 30 of writing.
    assert told.scale == pytest.approx((1 + 50 + 4) / (1 + 50 + 1))
    assert pinned.ns == pytest.approx((10 + 60 + told.scale * 60 + 4 + 4) * MS)


def test_modes_that_lack_a_rate_are_named_with_it() -> None:
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE)
    found = rates()
    without = replace(found, rates=tuple(rate for rate in found.rates if rate.measure != "h2d.staged"))
    told = of(data, without)
    assert ("pageable memory staged through reused pinned chunks", ("h2d.staged",)) in told.lacking
    assert "staged" not in {estimate.mode for estimate in told.estimates}


@pytest.mark.parametrize(
    "phases", [{"alloc": 1, "pipeline": 80}, {"alloc": 1, "init": 5, "tiles": 4}], ids=["pipeline", "tiles"]
)
def test_a_program_whose_phases_do_other_things_is_not_priced(phases: dict[str, int]) -> None:
    data = run(phases, PAGEABLE)
    assert counterfactual(data, analyze(data).events, analyze(data).ranges, rates()) is None
    bare = capture([], [Range("alloc", 0, 1)])
    assert counterfactual(bare, (), analyze(bare).ranges, rates()) is None


IMPOSSIBLE = [
    [{"what": "h2d"}],
    [{"size_bytes": "1", "count": 2}],
    [5],
    [{}],
    [{"what": "pageable", "size_bytes": 10**400, "count": 1}],
    [{"what": "pageable", "size_bytes": 1, "count": -1}],
]


@pytest.mark.parametrize("traffic", IMPOSSIBLE)
def test_traffic_that_is_none_prices_nothing(traffic: list[Any]) -> None:
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE, traffic)
    assert of(data, rates()).estimates == ()


@pytest.mark.parametrize(("size", "ms"), [(MIB // 4, 1.0), (MIB, 1.0), (2 * MIB, 2.0), (4 * MIB, 4.0), (8 * MIB, 8.0)])
def test_a_rate_between_and_beyond_the_measured_sizes(size: int, ms: float) -> None:
    rows = tuple(
        Rate(rate.measure, size_bytes, rate.median_ns * factor, rate.low_ns * factor, rate.high_ns * factor)
        for rate in rates(h2d_pinned=1.0).rates
        for size_bytes, factor in ((MIB, 1.0), (4 * MIB, 4.0))
    )
    traffic = [{"what": "pageable", "size_bytes": MIB, "count": 1}, {"what": "h2d", "size_bytes": size, "count": 1}]
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE, traffic)
    pooled = next(found for found in of(data, Rates({}, "cuda", "", rows)).estimates if found.mode == "pooled")
    assert pooled.ns == pytest.approx((10 + 40 + ms) * MS)


@pytest.mark.parametrize(
    ("alloc", "more", "mode"),
    [
        ("malloc + cudaMalloc", {}, "pageable"),
        ("malloc + cudaMalloc", {"register": "cudaHostRegister"}, "register"),
        ("malloc + cudaMalloc", {"ring": "cudaMallocHost + cudaStreamCreate"}, "staged"),
        ("mmap + madvise(MADV_HUGEPAGE) + cudaMalloc", {"register": "cudaHostRegister"}, "prefault"),
        ("cudaHostAlloc(Default) + cudaMalloc", {"h2d": "cudaMemcpy"}, "pinned"),
        ("cudaHostAlloc(Mapped) + cudaHostGetDevicePointer", {}, "zerocopy"),
        ("cudaMallocManaged", {}, "managed"),
        ("cudaMallocManaged", {"prefetch": "cudaMemPrefetchAsync(device)"}, "prefetch"),
        ("memfd + IORING_REGISTER_BUFFERS", {"h2d": "memcpy"}, "pinned"),
        ("memfd + IORING_REGISTER_BUFFERS", {}, "zerocopy"),
        ("malloc", {"register": "IORING_REGISTER_BUFFERS"}, "register"),
        ("malloc", {"ring": "memfd + IORING_REGISTER_BUFFERS"}, "staged"),
        ("torch.empty", {}, None),
        ("cudaMalloc", {}, None),
    ],
)
def test_the_mode_is_told_by_the_calls(alloc: str, more: dict[str, str], mode: str | None) -> None:
    found = mode_of({"calls": {"alloc": alloc, **more}})
    assert (found.key if found else None) == mode


def test_every_measure_of_a_mode_is_one_that_can_be_taken() -> None:
    for mode in MODES:
        named = {*mode.buffer, *mode.once, mode.to_device, mode.to_host, mode.kernel} - {""}
        assert named <= set(MEASURES), mode.key


@pytest.mark.parametrize("size", [0, -1, 10**400, "1", None, True])
def test_a_size_that_is_none_prices_nothing(size: object) -> None:
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE)
    scenario = {**data.manifest.scenario, "parameters": {"size_bytes": size}}
    told = of(replace(data, manifest=replace(data.manifest, scenario=scenario)), rates())
    assert told.estimates == () or size is True


def test_measures_of_no_possible_number_of_threads_are_passed_over() -> None:
    odd = ("prefault.t", "prefault.tx", "prefault.t" + "9" * 5000, "prefault.t²", "nonsense")
    found = rates()
    mixed = replace(found, rates=(*found.rates, *(replace(found.rates[0], measure=name) for name in odd)))
    data = run({"alloc": 1, "init": 80, "h2d": 20, "d2h": 15, "free": 4}, PAGEABLE)
    assert of(data, mixed).estimates == of(data, found).estimates


def test_ranges_of_no_possible_number_of_threads_are_no_curve() -> None:
    names = ("0 is not a valid number of threads", "9" * 5000 + " threads", "x threads")
    ranges = [Range("iteration", 0, 100 * MS), Range("malloc_host", 0, 10 * MS, depth=1)]
    ranges += [Range(name, (20 + 10 * at) * MS, (25 + 10 * at) * MS, depth=1) for at, name in enumerate(names)]
    scenario = {"name": "prefault", "parameters": {"size_bytes": MIB}}
    assert analyze(capture([], ranges, scenario=scenario)).pinning is None
    ranges.append(Range("2 threads", 90 * MS, 95 * MS, depth=1))
    curve = analyze(capture([], ranges, scenario=scenario)).pinning
    assert curve is not None
    assert [(point.threads, point.median_ns) for point in curve.points] == [(2, 5 * MS)]
    assert (curve.baseline.median_ns, curve.call) == (10 * MS, "malloc_host")
