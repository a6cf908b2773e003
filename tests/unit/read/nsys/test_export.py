"""Real exports: the numbers are those of direct SQL, and the same from SQLite and Parquet."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.data.activity import Access, Api, CopyKind, MemoryKind, MemoryOperation, MigrationCause, OpKind
from pinprof.data.model import KERNEL, Capture
from pinprof.read import read
from pinprof.report.gather import build
from tests.support.nsys_file import real, shuffled

MIB = 1 << 20


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as base:
        return base.execute(query).fetchall()


def opened(name: str) -> tuple[Capture, Any]:
    capture = read(real(name))
    assert capture.activity is not None
    return capture, capture.activity


@pytest.mark.slow
def test_uvm_migrations_by_cause_are_those_of_the_export() -> None:
    _, activity = opened("uvm.sqlite")
    ops = activity.gpu_ops
    moved = ops.take(ops.kind == OpKind.MIGRATION)
    found = {
        (
            kind,
            cause,
            int(rows.sum()),
            int(moved.size_bytes[rows].sum()),
            int((moved.end_ns - moved.start_ns)[rows].sum()),
        )
        for kind in (CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST)
        for cause in (MigrationCause.FAULT, MigrationCause.SPECULATIVE)
        for rows in [(moved.copy_kind == kind) & (moved.cause == cause)]
    }
    expected = sql(
        real("uvm.sqlite"),
        "SELECT copyKind, migrationCause, count(*), sum(bytes), sum(end - start) "
        "FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1, 2",
    )
    assert found == set(expected)
    to_device = moved.size_bytes[moved.copy_kind == CopyKind.UVM_HOST_TO_DEVICE].sum()
    assert to_device == 3 * 64 * MIB


def test_uvm_faults_are_those_of_the_export() -> None:
    _, activity = opened("uvm.sqlite")
    gpu, cpu = activity.faults.take(activity.faults.device >= 0), activity.faults.take(activity.faults.device < 0)
    groups = sql(
        real("uvm.sqlite"),
        "SELECT count(*), sum(numberOfPageFaults), sum(end - start), min(address) FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS",
    )
    assert (len(gpu), gpu.count.sum(), gpu.duration_ns.sum(), gpu.address.min()) == groups[0]
    assert len(gpu) == 319
    assert set(gpu.access.tolist()) == {Access.READ}
    assert (len(cpu), cpu.count.sum()) == (1152, 1152)
    assert {cpu.names[name] for name in set(cpu.function.tolist())} == {"main"}


def test_uvm_allocations_are_three_of_64_mib() -> None:
    _, activity = opened("uvm.sqlite")
    memory = activity.memory
    assert memory.size_bytes[memory.operation == MemoryOperation.ALLOCATE].tolist() == [64 * MIB] * 3
    assert memory.size_bytes[memory.operation == MemoryOperation.FREE].tolist() == [64 * MIB] * 3
    assert set(memory.memory_kind.tolist()) == {MemoryKind.MANAGED}


def test_pinned_host_memory_and_its_copies_have_their_kinds() -> None:
    _, activity = opened("pinned.sqlite")
    memory, ops = activity.memory, activity.gpu_ops
    assert sorted(memory.memory_kind.tolist()) == [MemoryKind.PINNED] * 6 + [MemoryKind.DEVICE] * 6
    copies = ops.take(ops.kind == OpKind.COPY)
    assert copies.src_kind.tolist() == [MemoryKind.PINNED, MemoryKind.DEVICE] * 3
    assert copies.copy_kind.tolist() == [CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST] * 3
    assert set(copies.size_bytes.tolist()) == {64 * MIB}
    kernels = ops.take(ops.kind == OpKind.KERNEL)
    assert len(kernels) == 3
    assert "(" in kernels.names[kernels.name[0]]


def test_pageable_copies_say_so() -> None:
    _, activity = opened("pageable.sqlite")
    ops = activity.gpu_ops
    copies = ops.take(ops.kind == OpKind.COPY)
    assert copies.src_kind.tolist() == [MemoryKind.PAGEABLE, MemoryKind.DEVICE] * 3


@pytest.mark.parametrize("name", ["uvm.sqlite", "pinned.sqlite", "pageable.sqlite", "both.sqlite"])
def test_calls_sum_to_those_of_the_export(name: str) -> None:
    _, activity = opened(name)
    calls = activity.calls
    expected = sql(
        real(name),
        "SELECT value, eventClass, count(*), sum(end - start) "
        "FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId GROUP BY 1, 2",
    )
    found = {
        (calls.names[number], api, int(rows.sum()), int((calls.end_ns - calls.start_ns)[rows].sum()))
        for number in range(len(calls.names))
        for api in (Api.RUNTIME, Api.DRIVER)
        for rows in [(calls.name == number) & (calls.api == api)]
        if rows.any()
    }
    assert found == {(name.split("_v")[0], *rest) for name, *rest in expected}
    assert not calls.folded.any()


def test_gpu_work_finds_its_call() -> None:
    _, activity = opened("pinned.sqlite")
    calls, ops = activity.calls, activity.gpu_ops
    name = dict(zip(calls.correlation_id.tolist(), calls.name.tolist(), strict=True))
    callers = {calls.names[name[number]] for number in ops.correlation_id.tolist()}
    assert callers == {"cudaMemcpy", "cudaLaunchKernel"}


def test_ranges_nest_as_the_program_pushed_them() -> None:
    capture, _ = opened("pinned.sqlite")
    names = ("iteration", "alloc", "init", "h2d", "kernel", "d2h", "free")
    assert capture.ranges.name == names * 3
    assert capture.ranges.depth.tolist() == [0, 1, 1, 1, 1, 1, 1] * 3
    assert (capture.ranges.end_ns[0], capture.ranges.pid[0], capture.ranges.tid[0]) == (623240563, 112, 112)


def test_samples_count_cpu_time_at_the_recorded_period() -> None:
    capture, _ = opened("uvm.sqlite")
    (event,) = capture.events
    assert (event.name, event.unit, event.period) == ("cpu-clock", "ns", 2_000_000)
    assert len(capture.samples) == sql(real("uvm.sqlite"), "SELECT count(*) FROM COMPOSITE_EVENTS")[0][0] == 87
    assert any("only user code" in note for note in capture.losses.notes)
    assert KERNEL not in capture.stacks.frames.mode


def test_callchains_read_leaf_to_root_as_in_the_export() -> None:
    capture, _ = opened("uvm.sqlite")
    rows = sql(
        real("uvm.sqlite"),
        "SELECT start, value "
        "FROM COMPOSITE_EVENTS e JOIN SAMPLING_CALLCHAINS c USING (id) JOIN StringIds s ON s.id = c.symbol "
        "WHERE unresolved = 0 AND value != '[Broken backtraces]' ORDER BY start, stackDepth",
    )
    expected: dict[int, list[str]] = {}
    for start, symbol in rows:
        expected.setdefault(start, []).append(symbol)
    found = {}
    for time, node in zip(capture.samples.time_ns.tolist(), capture.samples.stack.tolist(), strict=True):
        frames = [capture.stacks.frames[int(capture.stacks.frame[n])] for n in capture.stacks.chain(node)]
        if symbols := [frame.symbol for frame in frames if not frame.symbol.startswith("[")]:
            found[time] = symbols
    assert found == expected
    assert capture.losses.truncated_chains == 21


def test_machine_and_session_facts_are_known() -> None:
    capture, activity = opened("uvm.sqlite")
    host = capture.manifest.host
    assert (host["driver"], host["cuda"], host["cpus"]) == ("580.159.04", "13.0", 16)
    assert host["gpus"][0]["name"] == "NVIDIA H200"
    assert host["gpus"][0]["compute_capability"] == "9.0"
    assert capture.manifest.command == ("/tmp/flame", "uvm", "64", "3")
    assert activity.source == "Nsight Systems 2025.3.2.0, schema 3.20.3"
    assert activity.start_utc_ns == 1795228601084102955
    assert capture.threads[349, 349] == "flame"
    assert {"gpu_faults", "cpu_faults", "memory", "sched", "os_calls"} <= activity.recorded


def test_fault_tables_that_were_off_are_told_apart_from_empty_ones() -> None:
    assert "gpu_faults" not in opened("both.sqlite")[1].recorded
    assert "gpu_faults" in opened("pinned.sqlite")[1].recorded


@pytest.mark.slow
def test_parquet_reads_the_same_as_sqlite() -> None:
    pytest.importorskip("pyarrow", reason="pinprof[nsys] is not installed")
    one, other = read(real("uvm.sqlite")), read(real("uvm.parquet"))
    assert one.manifest == other.manifest
    assert one.losses == other.losses
    assert one.threads == other.threads
    same(one.samples, other.samples)
    same(one.ranges, other.ranges)
    same(one.stacks.frames, other.stacks.frames)
    assert one.activity is not None
    for field in fields(one.activity):
        same(getattr(one.activity, field.name), getattr(other.activity, field.name))


@pytest.mark.parametrize("name", ["uvm.sqlite", "pinned.sqlite", "both.sqlite", "nvtx-2022.4.sqlite"])
def test_the_order_of_rows_in_an_export_makes_no_difference(name: str, tmp_path: Path) -> None:
    def report(path: Path) -> dict[str, Any]:
        document: dict[str, Any] = build(analyze(read(path))).to_json()
        return document | {"capture": document["capture"] | {"path": ""}}

    assert report(shuffled(real(name), tmp_path / name, seed=7)) == report(real(name))


def same(one: Any, other: Any) -> None:
    """Equal in every column, including its type."""
    if not hasattr(one, "__dataclass_fields__"):
        assert one == other
        return
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            assert np.array_equal(left, right), field.name
        else:
            assert left == right, field.name


def test_schema_3_0_has_domains_registered_strings_marks_and_thread_names() -> None:
    capture, activity = opened("nvtx-2022.4.sqlite")
    assert activity.source == "Nsight Systems 2022.4.2.1, schema 3.0.0"
    ranges = list(zip(capture.ranges.name, capture.ranges.domain, capture.ranges.depth.tolist(), strict=True))
    assert ranges == [("iteration", "", 0), ("alloc", "pinprof", 1), ("side", "", 1)] * 3 + [("unclosed", "", 0)]
    assert [activity.marks.names[name] for name in activity.marks.name] == ["tick"] * 3
    assert "worker" in capture.threads.values()
    assert len(activity.os_calls) == sql(real("nvtx-2022.4.sqlite"), "SELECT count(*) FROM OSRT_API")[0][0]


@pytest.mark.parametrize("name", ["nvtx-2022.4.sqlite", "uvm.sqlite"])
def test_every_column_has_its_declared_type_and_length(name: str) -> None:
    _, activity = opened(name)
    for table in (f for f in fields(activity) if hasattr(getattr(activity, f.name), "take")):
        found = getattr(activity, table.name)
        for column, empty in vars(type(found).empty()).items():
            values = getattr(found, column)
            if isinstance(empty, np.ndarray):
                # Numbers that nobody reckons with may be narrower.
                narrower = column in ("correlation_id", "name", "stream", "threads")
                declared = np.can_cast(values.dtype, empty.dtype) if narrower else values.dtype == empty.dtype
                assert (declared, len(values)) == (True, len(found)), (table.name, column)
