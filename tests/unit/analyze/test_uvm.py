"""Managed memory: a fault storm and a prefetched run, by fault windows and by causes; against SQL on the real one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.analyze.activity.results import ActivityAnalysis, UvmAnalysis
from pinprof.analyze.activity.uvm import DRAIN_GAP_NS, SERVICE_NS, STORM_MIGRATIONS, WARP, WARP_SERVICE_NS
from pinprof.analyze.activity.uvm_blocks import BLOCKS
from pinprof.data.activity import OpKind
from tests.support.activities import (
    ALL,
    KIB,
    MIB,
    MS,
    US,
    Call,
    Fault,
    Memory,
    MemoryKind,
    MemoryOperation,
    Op,
    explained,
    export,
    exported,
    kernel,
    migration,
    sql,
    to_device,
)
from tests.support.uvm_told import told_by_the_driver

PREFETCH, FAULT, SPECULATIVE, EVICTION = 1, 2, 3, 4
BLOCK = 2 * MIB


def uvm_of(found: ActivityAnalysis) -> UvmAnalysis:
    assert found.uvm is not None
    return found.uvm


def without_faults() -> ActivityAnalysis:
    """The real run as nsys records it by default: no fault tables."""
    capture = export("uvm").capture
    assert capture.activity is not None
    bare = replace(
        capture.activity,
        faults=type(capture.activity.faults).empty(),
        recorded=capture.activity.recorded - {"gpu_faults", "cpu_faults"},
    )
    found = analyze(replace(capture, activity=bare)).activity
    assert found is not None
    return found


def test_migrations_by_direction_and_cause_are_those_of_the_export() -> None:
    rows = sql(
        "uvm",
        "SELECT CASE copyKind WHEN 11 THEN 'H2D' ELSE 'D2H' END, "
        "CASE migrationCause WHEN 2 THEN 'fault' ELSE 'speculative' END, count(*), sum(bytes), min(bytes), max(bytes), "
        "sum(m.end - m.start), "
        "sum(EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE m.start >= k.start AND m.start < k.end)) "
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY m WHERE copyKind IN (11, 12) GROUP BY 1, 2",
    )
    found = {
        (entry.direction, entry.cause, entry.count, entry.size_bytes.total, entry.size_bytes.least,
         entry.size_bytes.most, entry.busy_ns, entry.in_kernel_count)
        for entry in exported("uvm").whole.migrations
    }  # fmt: skip
    assert found == set(rows)
    to_device_bytes = sum(
        entry.size_bytes.total for entry in exported("uvm").whole.migrations if entry.direction == "H2D"
    )
    assert to_device_bytes == 3 * 64 * MIB


def test_fault_groups_and_their_time_are_those_of_the_export() -> None:
    found = uvm_of(exported("uvm"))
    groups, faults = sql("uvm", "SELECT count(*), sum(numberOfPageFaults) FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS")[0]
    cpu = sql("uvm", "SELECT count(*) FROM CUDA_UM_CPU_PAGE_FAULT_EVENTS")[0][0]
    assert (found.gpu_fault_groups, found.gpu_faults, found.cpu_faults) == (groups, faults, cpu)
    assert found.gpu_fault_groups == 319
    assert found.cpu_fault_functions == (("main", cpu),)
    whole = exported("uvm").whole
    assert (whole.gpu_fault_groups, whole.gpu_faults, whole.cpu_faults) == (groups, faults, cpu)


def timeline(query: str, start: int, length: int) -> np.ndarray:
    """Which nanoseconds of a window lie in the intervals of a query."""
    inside = np.zeros(length, np.bool_)
    for low, high in sql("uvm", query):
        inside[max(0, low - start) : max(0, high - start)] = True
    return inside


@pytest.mark.slow
def test_lost_kernel_time_is_kernel_and_fault_window_without_copies_nanosecond_by_nanosecond() -> None:
    found = uvm_of(exported("uvm"))
    lost = 0
    for start, end in sql("uvm", "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start"):
        faulting = timeline("SELECT start, end FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS", start, end - start)
        copying = timeline("SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY", start, end - start)
        lost += int((faulting & ~copying).sum())
    assert found.lost_ns == lost == exported("uvm").whole.lost_ns == int(found.kernels.lost_ns.sum())
    assert found.lost_from == "fault windows"
    assert 0.5 < found.lost_ns / found.kernel_ns < 0.6


def test_causes_alone_tell_nearly_the_same_loss() -> None:
    by_windows, by_causes = uvm_of(exported("uvm")), uvm_of(without_faults())
    assert by_causes.lost_from == "migration causes"
    assert by_causes.lost_ns == pytest.approx(by_windows.lost_ns, rel=0.05)
    assert by_causes.pattern == by_windows.pattern == "fault storm"
    assert (by_causes.gpu_fault_groups, by_causes.gpu_faults, by_causes.cpu_faults) == (None, None, None)


def test_blocks_add_up_to_the_migrations_and_faults() -> None:
    found = uvm_of(exported("uvm"))
    assert found.block_count == len(found.blocks) == 3 * 64 * MIB // 3 // BLOCK
    assert (found.blocks.to_device_bytes == 3 * BLOCK).all()
    assert (found.blocks.to_host_bytes == 3 * BLOCK).all()
    assert int(found.blocks.gpu_faults.sum()) == found.gpu_faults
    assert int(found.blocks.cpu_faults.sum()) == found.cpu_faults
    assert int(found.blocks.migrations.sum()) == sum(entry.count for entry in exported("uvm").whole.migrations)


def test_memory_allocated_anew_begins_a_new_life() -> None:
    # Three iterations, each to the device and back: one change of direction each, not five in a row.
    found = uvm_of(exported("uvm"))
    assert (found.flips_per_block, found.moved_per_byte) == (1, 2)
    capture = export("uvm").capture
    assert capture.activity is not None
    bare = replace(capture.activity, memory=type(capture.activity.memory).empty())
    unknown = analyze(replace(capture, activity=bare)).activity
    assert unknown is not None
    assert (uvm_of(unknown).flips_per_block, uvm_of(unknown).moved_per_byte) == (5, 6)


def test_size_histograms_hold_every_migration() -> None:
    found = uvm_of(exported("uvm"))
    rows = dict(sql("uvm", "SELECT copyKind, count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1"))
    assert {entry.direction: int(entry.count.sum()) for entry in found.sizes} == {"H2D": rows[11], "D2H": rows[12]}
    for entry in found.sizes:
        assert (entry.size_bytes >= entry.at_least_bytes * entry.count).all()
        assert (entry.size_bytes < 2 * entry.at_least_bytes * entry.count).all()


def prefetched() -> list[Op]:
    """32 migrations of 2 MiB that were asked for, before a kernel that finds its data."""
    moves = [
        migration(at * 50 * US, at * 50 * US + 40 * US, BLOCK, PREFETCH, 0x7F00_0000_0000 + at * BLOCK)
        for at in range(32)
    ]
    return [*moves, kernel(2 * MS, 3 * MS)]


def stormy(count: int, *, copying: float = 0.1, cause: int = FAULT) -> list[Op]:
    """A kernel of 10 ms with so many faulted migrations, which copy for a part of it."""
    step = 10 * MS // count
    moves = [
        migration(at * step, at * step + int(step * copying), 4 * KIB, cause, 0x7F00_0000_0000 + at * 64 * KIB)
        for at in range(count)
    ]
    return [*moves, kernel(0, 10 * MS)]


def test_a_prefetched_run_and_a_fault_storm_look_different_at_first_sight() -> None:
    healthy, sick = uvm_of(explained((), prefetched())), uvm_of(exported("uvm"))
    assert (healthy.pattern, sick.pattern) == ("prefetched", "fault storm")
    assert (healthy.lost_ns, len(healthy.kernels)) == (0, 0)
    assert healthy.summary.startswith("32 migrations to the device, median 2 MiB, 0 of them inside kernels")
    assert sick.summary.startswith("6,915 migrations to the device, median 8 KiB, 6,915 of them inside kernels")
    assert [entry.at_least_bytes.tolist() for entry in healthy.sizes] == [[BLOCK]]


@pytest.mark.parametrize(
    ("ops", "pattern"),
    [
        (stormy(STORM_MIGRATIONS), "fault storm"),
        (stormy(STORM_MIGRATIONS - 1), "on demand"),
        (stormy(STORM_MIGRATIONS, copying=0.797), "fault storm"),
        (stormy(STORM_MIGRATIONS, copying=0.8), "on demand"),
        (stormy(STORM_MIGRATIONS, cause=SPECULATIVE), "on demand"),
        ([migration(0, 10, BLOCK, FAULT, back=True)], "host only"),
    ],
)
def test_a_storm_needs_many_faulted_migrations_and_waiting(ops: list[Op], pattern: str) -> None:
    assert uvm_of(explained((), ops, recorded=ALL - {"gpu_faults"})).pattern == pattern


def test_windows_outside_kernels_and_copies_inside_them_are_not_lost() -> None:
    ops = [kernel(100, 200), migration(120, 130, BLOCK, FAULT), to_device(150, 160, KIB), kernel(300, 400, device=1)]
    faults = [Fault(50, 100), Fault(140, 30), Fault(190, 100), Fault(320, 10)]
    found = uvm_of(explained((), ops, faults))
    # Device 0: 100–150 and 140–170 and 190–200 without 120–130 and 150–160. Device 1 has no faults.
    assert found.lost_ns == 60
    # Windows of either device: 50–150, 140–170, 190–290, 320–330.
    assert found.gpu_fault_ns == 120 + 100 + 10
    assert found.kernels.lost_ns.tolist() == [60]


def test_without_fault_tables_only_kernels_with_faulted_migrations_lose_time() -> None:
    ops = [
        kernel(100, 200),
        kernel(300, 400),
        migration(120, 130, BLOCK, FAULT),
        migration(150, 170, BLOCK, SPECULATIVE),
    ]
    ops += [migration(310, 320, BLOCK, PREFETCH)]
    found = uvm_of(explained((), ops, recorded=ALL - {"gpu_faults", "cpu_faults"}))
    # From the kernel's start to the last such migration, less the migrations.
    assert found.lost_ns == 70 - 10 - 20
    assert found.kernels.start_ns.tolist() == [100, 300]
    assert found.kernels.prefetch_bytes.tolist() == [0, BLOCK]


@pytest.mark.parametrize(
    ("threads", "service_ns"), [(1, WARP_SERVICE_NS), (WARP, WARP_SERVICE_NS), (WARP + 1, SERVICE_NS), (0, SERVICE_NS)]
)
def test_what_a_kernel_computes_between_faults_is_not_waiting(threads: int, service_ns: int) -> None:
    # 200 faults, one every 20 ms: 4 s of computing.
    moves = [migration(at * 20 * MS, at * 20 * MS + 10 * US, 64 * KIB, FAULT, at * BLOCK) for at in range(1, 201)]
    ops = [*moves, kernel(0, 4030 * MS, threads=threads)]
    found = uvm_of(explained((), ops, recorded=ALL - {"gpu_faults"}))
    assert (found.lost_ns, found.stalled_ns) == (200 * service_ns, 200 * (service_ns + 10 * US))
    assert found.pattern == "on demand"
    assert "at most" in found.summary


def test_a_wait_for_a_fault_begins_in_its_own_kernel() -> None:
    ops = [kernel(0, 100 * US), kernel(150 * US, 300 * US), migration(160 * US, 170 * US, BLOCK, FAULT)]
    found = uvm_of(explained((), ops, recorded=ALL - {"gpu_faults"}))
    assert (found.lost_ns, found.kernels.lost_ns.tolist()) == (10 * US, [10 * US])


def test_two_gpus_that_wait_at_once_lose_time_once() -> None:
    ops = [kernel(0, 100, device=device) for device in (0, 1)]
    faults = [Fault(10, 50, device=device) for device in (0, 1)]
    found = uvm_of(explained((), [*ops, migration(70, 80, BLOCK, FAULT)], faults))
    assert (found.lost_ns, found.kernel_ns, found.gpu_fault_ns) == (50, 100, 50)


def test_no_loss_when_fault_tables_were_recorded_and_are_empty() -> None:
    assert uvm_of(explained((), [kernel(0, 100), migration(10, 20, BLOCK, FAULT)])).lost_ns == 0


@pytest.mark.parametrize(("gap", "drained"), [(DRAIN_GAP_NS, 3 * US + 2 * DRAIN_GAP_NS), (DRAIN_GAP_NS + 1, 3 * US)])
def test_touches_close_to_each_other_drain_as_one_run(gap: int, drained: int) -> None:
    ops = [migration(at * (US + gap), at * (US + gap) + US, BLOCK, FAULT, back=True) for at in range(3)]
    found = uvm_of(explained((), ops))
    assert (found.drain_ns, found.drain_bytes) == (drained, 3 * BLOCK)


def test_a_drain_counts_touches_outside_kernels_only() -> None:
    ops = [
        migration(0, 10, BLOCK, PREFETCH, back=True), migration(20, 30, BLOCK, EVICTION, back=True),
        kernel(100, 200), migration(150, 160, BLOCK, FAULT, back=True),
    ]  # fmt: skip
    found = uvm_of(explained((), ops))
    assert (found.drain_ns, found.drain_bytes) == (0, 0)
    assert found.eviction_share == pytest.approx(1 / 3)


def test_the_real_run_drains_by_touch_in_its_cpu_read_ranges() -> None:
    found = uvm_of(exported("uvm"))
    ranges = export("uvm").ranges
    reading = next(entry.wall_ns for entry in ranges if entry.name == "cpu_read")
    assert 0.5 * reading < found.drain_ns < reading


def test_flips_are_counted_per_block_and_allocation() -> None:
    def moves(base: int, backs: list[bool], start: int) -> list[Op]:
        return [
            migration(start + at * 10, start + at * 10 + 5, BLOCK, FAULT, base, back=back)
            for at, back in enumerate(backs)
        ]

    ops = [*moves(0x1000_0000, [False, True, False, True], 0), *moves(0x2000_0000, [False, False], 100)]
    found = uvm_of(explained((), ops))
    assert found.blocks.flips.tolist() == [3, 0]
    assert found.flips_per_block == 1.5
    assert found.moved_per_byte == 3.0
    memory = [
        Memory(0, BLOCK, memory_kind=MemoryKind.MANAGED, address=0x1000_0000),
        Memory(19, BLOCK, MemoryOperation.FREE, MemoryKind.MANAGED, address=0x1000_0000),
        Memory(20, BLOCK, memory_kind=MemoryKind.MANAGED, address=0x1000_0000),
    ]
    again = uvm_of(explained((), ops, (), memory))
    assert again.blocks.flips.tolist() == [2, 0]
    assert again.flips_per_block == pytest.approx(2 / 3)
    elsewhere = uvm_of(explained((), ops, (), [replace(each, address=0) for each in memory]))
    assert (elsewhere.flips_per_block, elsewhere.moved_per_byte) == (1.5, 3.0)


def test_the_same_address_in_another_process_is_another_block() -> None:
    ops = [
        migration(0, 5, BLOCK, FAULT, 0x1000_0000, pid=1),
        migration(10, 15, BLOCK, FAULT, 0x1000_0000, back=True, pid=2),
    ]
    found = uvm_of(explained((), ops))
    assert (found.block_count, found.flips_per_block, found.moved_per_byte) == (2, 0, 1)
    assert found.blocks.address.tolist() == [0x1000_0000, 0x1000_0000]


def test_very_many_blocks_keep_the_busiest() -> None:
    ops = [migration(at * 10, at * 10 + 5, KIB + at, FAULT, at * BLOCK) for at in range(BLOCKS + 10)]
    found = uvm_of(explained((), ops))
    assert (found.block_count, len(found.blocks)) == (BLOCKS + 10, BLOCKS)
    assert found.blocks.address.min() == 10 * BLOCK


def test_faults_without_migrations_are_still_managed_memory() -> None:
    found = uvm_of(explained([Call("cudaMallocManaged", 0, 10)], (), [Fault(5, 0, device=-1, function="main")]))
    assert (found.pattern, found.cpu_faults, found.gpu_faults, found.cpu_fault_functions) == (
        "host only",
        1,
        0,
        (("main", 1),),
    )


def test_ranges_hold_their_own_faults_and_losses() -> None:
    entries = {str(entry.path): entry for entry in exported("uvm").ranges}
    running, reading = entries["iteration > kernel"], entries["iteration > cpu_read"]
    assert (running.gpu_fault_groups, running.cpu_faults) == (319, 0)
    assert (reading.gpu_fault_groups, reading.lost_ns) == (0, 0)
    assert reading.cpu_faults + entries["iteration > init"].cpu_faults == exported("uvm").whole.cpu_faults
    assert running.lost_ns == exported("uvm").whole.lost_ns
    assert {entry.direction for entry in running.migrations} == {"H2D"}
    assert {entry.direction for entry in reading.migrations} == {"D2H"}


def test_the_drivers_events_give_the_tables_of_the_export() -> None:
    told, traced = told_by_the_driver().activity, export("uvm").capture.activity
    assert told is not None
    assert traced is not None
    moved = traced.gpu_ops.take(traced.gpu_ops.kind == OpKind.MIGRATION)
    order = np.lexsort((moved.end_ns, moved.start_ns))
    for column in ("start_ns", "end_ns", "size_bytes", "copy_kind", "cause", "address", "device", "pid"):
        assert np.array_equal(getattr(told.gpu_ops, column), getattr(moved, column)[order]), column
    assert len(told.faults) == int(np.count_nonzero(traced.faults.device < 0))


@pytest.mark.slow
def test_the_drivers_events_alone_tell_where_managed_memory_goes() -> None:
    found = {finding.rule: finding for finding in analyze(told_by_the_driver()).findings}
    assert {name: found[name].severity for name in ("cpu-fault-drain", "ping-pong", "eviction")} == {
        "cpu-fault-drain": "warning", "ping-pong": "ok", "eviction": "ok",
    }  # fmt: skip
    assert {found[name].severity for name in ("gpu-fault-storm", "tiny-copies")} == {"not-assessable"}
