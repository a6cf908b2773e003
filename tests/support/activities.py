"""CUDA activity written down in tests, one row at a time; times in nanoseconds, one process and thread unless said."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from pinprof.analyze import Run, analyze
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.data.activity import (
    UNRECORDED,
    Activity,
    ApiCallTable,
    CopyKind,
    GpuOpTable,
    MemoryKind,
    MemoryOperation,
    MemoryUsageTable,
    OpKind,
    PageFaultTable,
    Table,
)
from pinprof.data.model import Capture
from pinprof.read import ReadOptions, read
from tests.support.nsys_file import real
from tests.support.stacks import Range, Sample, capture

T = TypeVar("T", bound=Table)

PID, TID = 100, 100
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
ALL = frozenset({"cuda", "gpu_faults", "cpu_faults", "memory"})
H200 = {"gpus": [{"name": "NVIDIA H200", "chip": "GH100", "memory_bytes": 140 * GIB}], "memory_bytes": 128 * GIB}


@dataclass(frozen=True)
class Call:
    name: str
    start_ns: int
    end_ns: int
    correlation_id: int = -1
    pid: int = PID
    tid: int = TID
    status: int = 0
    api: int = 0
    folded: int = 0


@dataclass(frozen=True)
class Op:
    kind: OpKind
    start_ns: int
    end_ns: int
    size_bytes: int = 0
    copy_kind: int = UNRECORDED
    src_kind: int = UNRECORDED
    dst_kind: int = UNRECORDED
    cause: int = UNRECORDED
    address: int = 0
    correlation_id: int = -1
    name: str | None = None
    pid: int = PID
    device: int = 0
    stream: int = 7
    sync: int = UNRECORDED
    threads: int = 0


@dataclass(frozen=True)
class Fault:
    time_ns: int
    duration_ns: int = 0
    count: int = 1
    device: int = 0
    address: int = 0
    access: int = UNRECORDED
    pid: int = PID
    function: str | None = None


@dataclass(frozen=True)
class Memory:
    time_ns: int
    size_bytes: int
    operation: int = MemoryOperation.ALLOCATE
    memory_kind: int = MemoryKind.PINNED
    address: int = 0
    correlation_id: int = -1
    device: int = 0
    pid: int = PID


def kernel(start: int, end: int, **other: Any) -> Op:
    return Op(OpKind.KERNEL, start, end, **{"name": "edit", **other})


def to_device(start: int, end: int, size: int, memory: int = MemoryKind.PINNED, **other: Any) -> Op:
    return Op(OpKind.COPY, start, end, size, CopyKind.HOST_TO_DEVICE, memory, MemoryKind.DEVICE, **other)


def to_host(start: int, end: int, size: int, memory: int = MemoryKind.PINNED, **other: Any) -> Op:
    return Op(OpKind.COPY, start, end, size, CopyKind.DEVICE_TO_HOST, MemoryKind.DEVICE, memory, **other)


def migration(start: int, end: int, size: int, cause: int, address: int = 0, *, back: bool = False, **other: Any) -> Op:
    direction = CopyKind.UVM_DEVICE_TO_HOST if back else CopyKind.UVM_HOST_TO_DEVICE
    return Op(OpKind.MIGRATION, start, end, size, direction, 7, 7, cause, address, 0, **other)


def _table(empty: T, rows: Sequence[Any], order: str) -> T:
    rows = sorted(rows, key=lambda row: getattr(row, order))
    names: dict[str, int] = {}
    columns: dict[str, Any] = {}
    for column in fields(empty):
        if column.name in ("names", "sites") or getattr(empty, column.name) is None:
            continue
        values = [getattr(row, column.name) for row in rows]
        if column.name in ("name", "function"):
            values = [-1 if value is None else names.setdefault(value, len(names)) for value in values]
        columns[column.name] = np.array(values, getattr(empty, column.name).dtype)
    return replace(empty, **columns, **({"names": tuple(names)} if hasattr(empty, "names") else {}))


def activity(
    calls: Sequence[Call] = (),
    ops: Sequence[Op] = (),
    faults: Sequence[Fault] = (),
    memory: Sequence[Memory] = (),
    recorded: frozenset[str] = ALL,
) -> Activity:
    return Activity(
        "test",
        calls=_table(ApiCallTable.empty(), calls, "start_ns"),
        gpu_ops=_table(replace(GpuOpTable.empty(), threads=np.zeros(0, np.int64)), ops, "start_ns"),
        faults=_table(PageFaultTable.empty(), faults, "time_ns"),
        memory=_table(MemoryUsageTable.empty(), memory, "time_ns"),
        recorded=recorded,
    )


def traced(
    calls: Sequence[Call] = (),
    ops: Sequence[Op] = (),
    faults: Sequence[Fault] = (),
    memory: Sequence[Memory] = (),
    *,
    samples: Sequence[Sample] = (),
    ranges: Sequence[Range] = (),
    recorded: frozenset[str] = ALL,
    host: Mapping[str, Any] = H200,
) -> Capture:
    base = capture(samples, ranges)
    manifest = replace(base.manifest, host=host)
    return replace(base, manifest=manifest, activity=activity(calls, ops, faults, memory, recorded))


def explained(*rows: Sequence[Any], **other: Any) -> ActivityAnalysis:
    found = analyze(traced(*rows, **other)).activity
    assert found is not None
    return found


@cache
def export(name: str) -> Run:
    """A real export of tests/data/h200, analysed."""
    return analyze(read(real(f"{name}.sqlite"), ReadOptions()))


def exported(name: str) -> ActivityAnalysis:
    found = export(name).activity
    assert found is not None
    return found


def sql(name: str, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a real export."""
    with closing(sqlite3.connect(real(f"{name}.sqlite"))) as base:
        return base.execute(query).fetchall()
