"""Copies, links, overlap and idle gaps; against SQL where a real export is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinprof.analyze.activity.calls import SYNC_SOON_NS
from pinprof.analyze.activity.link import C2C_GB_PER_S, PCIE_X16_GB_PER_S, link_of
from pinprof.analyze.activity.results import DeviceWork
from pinprof.analyze.activity.transfers import (
    LARGE_COPY_BYTES,
    LONGEST_GAPS,
    PAGEABLE_ASYNC_BYTES,
    POINTS,
)
from tests.support.activities import (
    KIB,
    MIB,
    MS,
    US,
    Call,
    MemoryKind,
    Op,
    OpKind,
    explained,
    exported,
    kernel,
    migration,
    sql,
    to_device,
    to_host,
)
from tests.support.stacks import Range


@pytest.mark.parametrize("name", ["pageable", "pinned", "both"])
def test_copies_by_direction_and_memory_are_those_of_the_export(name: str) -> None:
    rows = sql(
        name,
        "SELECT CASE copyKind WHEN 1 THEN 'H2D' ELSE 'D2H' END, "
        "CASE CASE copyKind WHEN 1 THEN srcKind ELSE dstKind END WHEN 0 THEN 'pageable' ELSE 'pinned' END, "
        "count(*), sum(bytes), sum(m.end - m.start), min(bytes), max(bytes), sum(r.end - r.start) "
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
        "WHERE copyKind IN (1, 2) GROUP BY 1, 2",
    )
    found = {
        (copy.direction, copy.memory, copy.count, copy.size_bytes.total, copy.busy_ns, copy.size_bytes.least,
         copy.size_bytes.most, copy.host_ns)
        for copy in exported(name).whole.copies
    }  # fmt: skip
    assert found == set(rows)
    assert all(not copy.asynchronous for copy in exported(name).whole.copies)
    for copy in exported(name).whole.copies:
        assert copy.gb_per_s == pytest.approx(copy.size_bytes.total / copy.busy_ns)


def test_pinned_copies_reach_the_link_and_pageable_ones_do_not() -> None:
    for copy in exported("pinned").whole.copies:
        assert copy.link_share == pytest.approx(1, abs=0.03)
    for copy in exported("pageable").whole.copies:
        assert copy.link_share is not None
        assert copy.link_share < 0.35


def test_copies_in_a_range_are_those_of_its_calls() -> None:
    entries = {str(entry.path): entry for entry in exported("pinned").ranges}
    assert [(copy.direction, copy.count) for copy in entries["iteration > h2d"].copies] == [("H2D", 3)]
    assert [(copy.direction, copy.count) for copy in entries["iteration > d2h"].copies] == [("D2H", 3)]
    assert entries["iteration > init"].copies == ()
    assert entries["iteration"].kernels == 3


@pytest.mark.parametrize(
    ("gpu", "name", "to_device_rate"),
    [
        ({"link_generation_max": 4, "link_width_max": 16}, "PCIe 4.0 x16", PCIE_X16_GB_PER_S[4][0]),
        ({"link_generation": 1, "link_generation_max": 5, "link_width_max": 8}, "PCIe 5.0 x8", 27.8),
        ({"link_generation": 3, "link_width": 16}, "PCIe 3.0 x16", 11.5),
        ({"link_generation_max": 3, "chip": "AD106"}, "PCIe 3.0 x8", 5.75),
        ({"chip": "AD106", "name": "NVIDIA GeForce RTX 4060 Ti"}, "PCIe 4.0 x8", 12.75),
        ({"chip": "AD106", "link_generation_max": 4, "link_width_max": 4}, "PCIe 4.0 x4", 6.375),
        ({"chip": "GA106", "name": "NVIDIA GeForce RTX 3060"}, "PCIe 4.0 x16", 25.5),
        ({"chip": "GA106", "name": "NVIDIA GeForce RTX 3050"}, "PCIe 4.0 x8", 12.75),
        ({"chip": "GH100", "name": "NVIDIA H200"}, "PCIe 5.0 x16", 55.6),
        ({"chip": "GA102", "name": "NVIDIA A10"}, "PCIe 4.0 x16", 25.5),
        ({"chip": "GH100", "name": "NVIDIA GH200 480GB"}, "NVLink-C2C", C2C_GB_PER_S[0]),
    ],
)
def test_the_link_is_told_by_the_driver_else_by_the_chip(gpu: Any, name: str, to_device_rate: float) -> None:
    link = link_of({"gpus": [gpu]})
    assert link is not None
    assert (link.name, link.rate("H2D")) == (name, pytest.approx(to_device_rate))
    assert link.rate("D2D") is None


@pytest.mark.parametrize(
    "gpus",
    [
        None, [], [{}], "text", [None], [{"chip": "XX1"}], [{"link_generation": 2}], [{"link_generation": "4"}],
        [{"link_generation": True}], [{"link_generation": 3}], [{"chip": "GA10B", "name": "Orin"}], [{"chip": "GB100"}],
        [{"link_generation": 3, "link_width": 16}, {"link_generation": 4, "link_width": 16}],
        [{"chip": "AD104", "name": "NVIDIA GeForce RTX 4080 Laptop GPU"}], [{"chip": "GA107", "name": "NVIDIA A16"}],
    ],
)  # fmt: skip
def test_an_unknown_link_stays_unknown(gpus: Any) -> None:
    assert link_of({"gpus": gpus}) is None


def test_on_a_machine_with_nvlink_to_the_processor_the_chip_does_not_tell_the_link() -> None:
    gpu = {"chip": "GV100", "name": "Tesla V100-SXM2-16GB"}
    assert link_of({"gpus": [gpu], "arch": "x86_64"}) is not None
    assert link_of({"gpus": [gpu], "arch": "ppc64le"}) is None


def test_memory_is_that_of_the_host_side_and_calls_are_told_apart() -> None:
    calls = [Call("cudaMemcpy", 0, 10, 1), Call("cudaMemcpyAsync_v3020", 20, 25, 2), Call("cuMemcpyDtoD_v2", 40, 45, 3)]
    ops = [
        to_device(1, 9, MIB, MemoryKind.PAGEABLE, correlation_id=1),
        to_host(30, 39, MIB, MemoryKind.PINNED, correlation_id=2),
        Op(OpKind.COPY, 41, 44, MIB, 8, MemoryKind.DEVICE, MemoryKind.DEVICE, correlation_id=3),
        Op(OpKind.COPY, 50, 60, MIB, 99, 200, 200),
    ]
    found = {
        (copy.direction, copy.memory, copy.asynchronous, copy.host_ns) for copy in explained(calls, ops).whole.copies
    }
    assert found == {
        ("H2D", "pageable", False, 10),
        ("D2H", "pinned", True, 5),
        ("D2D", "device", False, 5),
        ("other", "unknown", False, 0),
    }


def test_a_call_with_several_copies_counts_its_time_once() -> None:
    ops = [to_device(at, at + 5, KIB, correlation_id=1) for at in (10, 20, 30)]
    (copy,) = explained([Call("cudaMemcpy3D", 0, 50, 1)], ops).whole.copies
    assert (copy.count, copy.host_ns, copy.size_bytes.total) == (3, 50, 3 * KIB)


def test_overlap_and_idle_time_are_told_per_device() -> None:
    ops = [
        kernel(0, 100), kernel(50, 150), to_device(120, 200, MIB), kernel(300, 400), to_host(320, 380, MIB),
        kernel(0, 1000, device=1), Op(OpKind.SYNC, 0, 5000),
    ]  # fmt: skip
    found = explained((), ops)
    first, second = found.transfers.devices
    assert (first.span_ns, first.busy_ns) == (400, 300)
    assert (first.kernel_ns, first.copy_ns, first.overlap_ns) == (250, 140, 90)
    assert first.longest_gaps == ((200, 100),)
    assert (second.span_ns, second.busy_ns, second.idle_gaps) == (1000, 1000, 0)


def test_times_of_several_gpus_are_time_in_which_any_of_them_worked_and_each_is_told() -> None:
    ops = [
        kernel(0, 100), to_device(120, 200, MIB), kernel(50, 150, device=1), to_host(60, 140, MIB, device=1),
        kernel(1000, 1100, device=1),
    ]  # fmt: skip
    found = explained((), ops, ranges=[Range("step", 0, 500)])
    for scope, late in ((found.whole, 100), (found.ranges[0], 0)):
        assert (scope.kernel_ns, scope.copy_ns, scope.overlap_ns, scope.busy_ns) == (150 + late, 140, 80, 200 + late)
        assert scope.devices == (DeviceWork(0, 100, 80, 0, 180), DeviceWork(1, 100 + late, 80, 80, 100 + late))


def test_a_range_names_the_gpus_that_worked_in_it() -> None:
    ops = [kernel(0, 100), kernel(200, 300, device=1)]
    (entry,) = explained((), ops, ranges=[Range("step", 150, 500)]).ranges
    assert [work.device for work in entry.devices] == [1]


def test_the_longest_gaps_come_first_and_are_bounded() -> None:
    ops = [kernel(start, start + 1) for start in np.cumsum(np.arange(100)).tolist()]
    (device,) = explained((), ops).transfers.devices
    assert device.idle_gaps == 98
    lengths = [length for _, length in device.longest_gaps]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == LONGEST_GAPS
    assert lengths[0] == 98


def test_migrations_are_no_copies_but_keep_the_link_busy() -> None:
    found = explained((), [migration(0, 10, MIB, 2)])
    assert (found.whole.copies, found.whole.copy_ns, len(found.transfers.points)) == ((), 10, 0)


@pytest.mark.slow
def test_few_copies_are_points_of_their_own_and_many_are_thinned_without_losing_one() -> None:
    few = explained((), [to_device(at * 100, at * 100 + 10, KIB << at) for at in range(5)]).transfers.points
    assert few.size_bytes.tolist() == [KIB << at for at in range(5)]
    assert few.gb_per_s.tolist() == pytest.approx([(KIB << at) / 10 for at in range(5)])
    random = np.random.default_rng(1)
    sizes, times = random.integers(1, 1 << 30, 5 * POINTS).tolist(), random.integers(1, MS, 5 * POINTS).tolist()
    ops = [
        (to_device if at % 2 else to_host)(at * MS, at * MS + time, size)
        for at, (size, time) in enumerate(zip(sizes, times, strict=True))
    ]
    many = explained((), ops).transfers.points
    assert len(many) <= POINTS
    assert many.count.sum() == 5 * POINTS
    assert set(many.groups) == {("H2D", "pinned"), ("D2H", "pinned")}
    assert many.size_bytes.max() <= max(sizes)
    assert np.all(np.isfinite(many.gb_per_s))


@pytest.mark.parametrize(
    ("op", "call", "blocking"),
    [
        (to_device(10, 20, PAGEABLE_ASYNC_BYTES + 1, MemoryKind.PAGEABLE, correlation_id=1), "cudaMemcpyAsync", True),
        (to_device(10, 20, PAGEABLE_ASYNC_BYTES, MemoryKind.PAGEABLE, correlation_id=1), "cudaMemcpyAsync", False),
        (to_host(10, 20, 1, MemoryKind.PAGEABLE, correlation_id=1), "cuMemcpyDtoHAsync_v2", True),
        (to_host(10, 20, MIB, MemoryKind.PINNED, correlation_id=1), "cudaMemcpyAsync", False),
        (to_host(10, 20, MIB, MemoryKind.PAGEABLE, correlation_id=1), "cudaMemcpy", False),
    ],
)
def test_pageable_copies_that_block_in_spite_of_their_call(op: Op, call: str, blocking: bool) -> None:
    found = explained([Call(call, 0, 25, 1)], [op]).transfers.pageable_async
    assert (found.count, found.host_ns) == ((1, 25) if blocking else (0, 0))


@pytest.mark.parametrize(("wait_after", "serial"), [(SYNC_SOON_NS, 1), (SYNC_SOON_NS + 1, 0)])
def test_asynchronous_copies_that_are_waited_for_at_once_are_serial(wait_after: int, serial: int) -> None:
    calls = [
        Call("cudaMemcpyAsync", 0, 10 * US, 1),
        Call("cudaStreamSynchronize", 10 * US + wait_after, 90 * US),
        Call("cudaStreamSynchronize", 11 * US, 12 * US, tid=999),
    ]
    ops = [to_device(5 * US, 65 * US, MIB, correlation_id=1), kernel(50 * US, 105 * US)]
    found = explained(calls, ops).transfers.serial
    assert (found.count, found.copy_ns, found.overlapped_ns) == (serial, 60 * US * serial, 15 * US * serial)
    assert found.span_ns == 100 * US


def test_only_large_pinned_copies_speak_for_the_link() -> None:
    ops = [to_device(0, 100, LARGE_COPY_BYTES), to_device(200, 300, LARGE_COPY_BYTES - 1)]
    ops += [to_device(400, 500, 2 * LARGE_COPY_BYTES, MemoryKind.PAGEABLE)]
    (direction,) = explained((), ops).transfers.directions
    assert (direction.count, direction.large_pinned.count) == (3, 1)
    assert direction.large_pinned.size_bytes == LARGE_COPY_BYTES


def test_nothing_recorded_is_nothing_found() -> None:
    found = explained()
    assert (found.whole.calls, found.whole.copies, found.transfers.devices, found.uvm) == ((), (), (), None)
    assert found.span_ns == found.whole.busy_ns == 0
