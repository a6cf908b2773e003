"""The tables of `pinprof.activity` from an Nsight Systems export."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.activity import (
    UNRECORDED,
    Api,
    ApiCallTable,
    CopyKind,
    GpuOpTable,
    MemoryUsageTable,
    OpKind,
    OsCallTable,
    PageFaultTable,
    SchedTable,
)
from pinprof.columns import PairIndex, is_uniform, narrowed, packed, uniform
from pinprof.cuda_functions import plain_name
from pinprof.model import Int32, Int64
from pinprof.read.by_thread import outermost
from pinprof.read.nsys import schema
from pinprof.read.nsys.numbers import Numbers
from pinprof.read.nsys.tables import Tables, address_column, amount_column, enum_column, id_column, time_order

_OPERATIONS = (
    (OpKind.KERNEL, schema.KERNELS),
    (OpKind.COPY, schema.COPIES),
    (OpKind.MEMSET, schema.MEMSETS),
    (OpKind.SYNC, schema.SYNCS),
    (OpKind.GRAPH, schema.GRAPHS),
)

_MIGRATIONS = (CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST, CopyKind.UVM_DEVICE_TO_DEVICE)


def read_cuda(tables: Tables) -> tuple[ApiCallTable, GpuOpTable]:
    """Calls, folded, and GPU work, which points to the outer call where the inner one caused it."""
    calls, inner, outer = _calls(tables)
    operations = _operations(tables)
    if not len(inner.rows):
        return calls, operations
    row = inner.find(operations.pid, operations.correlation_id)
    # One more element, read by -1: the id of no inner call.
    moved = np.where(row >= 0, np.append(outer, -1)[row], operations.correlation_id)
    return calls, replace(operations, correlation_id=moved)


def _calls(tables: Tables) -> tuple[ApiCallTable, PairIndex, Int64]:
    """Calls ordered by start; rows of the raw table by the ids of folded calls; per raw row its outer call's id."""
    raw = tables.read_timed(schema.CALLS)
    order = time_order(raw["start"], raw["end"])
    raw = {name: values[order] for name, values in raw.items()}
    outer = outermost(raw["start"], raw["end"], raw["pid"], raw["tid"])
    own = outer == np.arange(len(outer))
    kept = slice(None) if own.all() else np.flatnonzero(own)
    folded = (np.bincount(outer, minlength=len(outer)) - 1).astype(np.int32)
    name, names = _plain_names(*tables.names(raw["name"]))
    correlation = id_column(raw["correlation_id"])
    api = enum_column(raw["api"])
    table = ApiCallTable(
        start_ns=raw["start"][kept],
        end_ns=raw["end"][kept],
        name=name[kept],
        pid=packed(raw["pid"][kept]),
        tid=packed(raw["tid"][kept]),
        correlation_id=correlation[kept],
        status=packed(raw["status"][kept]),
        api=packed(np.where(api <= Api.DRIVER, api, np.uint8(UNRECORDED))[kept]),
        folded=packed(folded[kept]),
        names=names,
    )
    return table, PairIndex.of(raw["pid"], correlation, np.flatnonzero(~own & (correlation > 0))), correlation[outer]


def _plain_names(index: Int32, names: tuple[str, ...]) -> tuple[Int32, tuple[str, ...]]:
    """Names without version suffixes, equal ones merged."""
    merged: dict[str, int] = {}
    place = [merged.setdefault(plain_name(name), len(merged)) for name in names]
    return np.append(np.array(place, np.int32), np.int32(-1))[index], tuple(merged)


def _operations(tables: Tables) -> GpuOpTable:
    pieces = [(kind, tables.read_timed(table)) for kind, table in _OPERATIONS]
    counts = [len(piece["start"]) for _, piece in pieces]

    def column(name: str, dtype: Any, missing: int) -> NDArray[Any]:
        parts = [
            piece.pop(name).astype(dtype, copy=False) if name in piece else uniform(missing, count, dtype)
            for (_, piece), count in zip(pieces, counts, strict=True)
        ]
        if all(map(is_uniform, parts)) and len(values := {int(part[0]) for part in parts if len(part)}) == 1:
            return uniform(values.pop(), len(start), dtype)
        return np.concatenate(parts)[order]

    for _, piece in pieces:
        if schema.LAUNCH_SHAPE[0] in piece:
            piece["threads"] = _threads(piece)
    start = np.concatenate([piece.pop("start") for _, piece in pieces])
    order = time_order(start)
    name, names = tables.names(column("name", np.int32, -1))
    copy_kind = enum_column(column("copy_kind", np.int8, -1))
    kind = np.repeat(np.array([kind for kind, _ in pieces], np.uint8), counts)[order]
    kind[(kind == OpKind.COPY) & np.isin(copy_kind, _MIGRATIONS)] = OpKind.MIGRATION
    return GpuOpTable(
        start_ns=start[order],
        end_ns=column("end", np.int64, 0),
        kind=kind,
        name=narrowed(name),
        pid=column("pid", np.int32, -1),
        device=column("device", np.int32, -1),
        stream=narrowed(column("stream", np.int32, -1)),
        correlation_id=id_column(column("correlation_id", np.int32, -1)),
        size_bytes=amount_column(column("size_bytes", np.int64, 0)),
        copy_kind=copy_kind,
        src_kind=enum_column(column("src_kind", np.int8, -1)),
        dst_kind=enum_column(column("dst_kind", np.int8, -1)),
        cause=enum_column(column("cause", np.int8, -1)),
        sync=enum_column(column("sync", np.int8, -1)),
        address=address_column(column("address", np.int64, schema.MISSING)),
        names=names,
        threads=narrowed(column("threads", np.int64, 0)),
    )


def _threads(kernels: Numbers) -> Int64:
    """Threads of each launch; 0 where one of its sides was not recorded, and at most 2^62."""
    threads = np.ones(len(kernels["start"]))
    for side in schema.LAUNCH_SHAPE:
        threads *= np.maximum(kernels.pop(side), 0)
    return np.minimum(threads, 2.0**62).astype(np.int64)


def read_faults(tables: Tables) -> PageFaultTable:
    """GPU fault groups and CPU faults in one table."""
    gpu, cpu = tables.read_timed(schema.GPU_FAULTS), tables.read_timed(schema.CPU_FAULTS)
    function, names = tables.names(cpu["function"])
    on_gpu = PageFaultTable.of(
        len(gpu["start"]),
        time_ns=gpu["start"],
        duration_ns=gpu["end"] - gpu["start"],
        device=np.maximum(gpu["device"], 0),
        address=address_column(gpu["address"]),
        count=amount_column(gpu["count"]),
        access=gpu["access"],
        pid=gpu["pid"],
        function=-1,
        names=names,
    )
    on_cpu = PageFaultTable.of(
        len(cpu["start"]),
        time_ns=cpu["start"],
        device=-1,
        address=address_column(cpu["address"]),
        count=1,
        access=UNRECORDED,
        pid=cpu["pid"],
        function=function,
    )
    faults = on_gpu.joined(on_cpu)
    return faults.take(np.argsort(faults.time_ns, kind="stable"))


def read_memory(tables: Tables) -> MemoryUsageTable:
    """Allocations and frees."""
    raw = _in_order(tables.read_timed(schema.MEMORY))
    raw["size_bytes"], raw["address"] = amount_column(raw["size_bytes"]), address_column(raw["address"])
    raw["correlation_id"] = id_column(raw["correlation_id"])
    return MemoryUsageTable.of(len(raw["start"]), time_ns=raw.pop("start"), **raw)


def read_os_calls(tables: Tables) -> OsCallTable:
    """Calls into libc."""
    raw = _in_order(tables.read_timed(schema.OS_CALLS))
    raw["name"], names = tables.names(raw["name"])
    raw["nesting"] = np.maximum(raw["nesting"], 0)
    return OsCallTable.of(len(raw["name"]), start_ns=raw.pop("start"), end_ns=raw.pop("end"), names=names, **raw)


def read_sched(tables: Tables) -> SchedTable:
    """Context switches of every process that nsys saw."""
    raw = _in_order(tables.read_timed(schema.SCHED))
    raw["running"] = raw["running"] > 0
    return SchedTable.of(len(raw["start"]), time_ns=raw.pop("start"), **raw)


def _in_order(raw: Numbers) -> Numbers:
    order = time_order(raw["start"])
    return {name: values[order] for name, values in raw.items()}
