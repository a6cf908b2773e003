"""The tables of `pinprof.data.activity` from an Nsight Systems export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinprof.base.columns import (
    ROWS_AT_ONCE,
    fitting,
    in_order,
    is_uniform,
    narrowed,
    packed,
    put_together,
    rows_of,
    taken,
    uniform,
)
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.pair_index import PairIndex
from pinprof.data.activity import (
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
from pinprof.data.gpu_functions import plain_name
from pinprof.data.model import Bool, Int32, Int64
from pinprof.read.by_thread import outermost
from pinprof.read.nsys import schema
from pinprof.read.nsys.numbers import Numbers
from pinprof.read.nsys.tables import ExportTables, address_column, amount_column, enum_column, id_column, time_order

_OPERATIONS = (
    (OpKind.KERNEL, schema.KERNELS),
    (OpKind.COPY, schema.COPIES),
    (OpKind.MEMSET, schema.MEMSETS),
    (OpKind.SYNC, schema.SYNCS),
    (OpKind.GRAPH, schema.GRAPHS),
)

_MIGRATIONS = (CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST, CopyKind.UVM_DEVICE_TO_DEVICE)


def read_cuda(tables: ExportTables) -> tuple[ApiCallTable, GpuOpTable]:
    """Calls, folded, and GPU work, which points to the outer call where the inner one caused it."""
    calls, inner, outer = _calls(tables)
    operations = _operations(tables)
    if not len(inner.rows):
        return calls, operations
    row = inner.find(operations.pid, operations.correlation_id)
    # One more element, read by -1: the id of no inner call.
    moved = np.where(row >= 0, np.append(outer, -1)[row], operations.correlation_id)
    return calls, replace(operations, correlation_id=moved)


def _calls(tables: ExportTables) -> tuple[ApiCallTable, PairIndex, Int64]:
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
        name=narrowed(name[kept]),
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


@dataclass(frozen=True)
class _Piece:
    """Rows of one table that are of one kind."""

    kind: OpKind
    raw: Numbers
    rows: Int64 | slice
    """In order of start."""
    count: int

    @classmethod
    def of(cls, kind: OpKind, raw: Numbers, mask: Bool) -> Self:
        """The rows of a mask."""
        rows = rows_of(mask)
        order = time_order(raw["start"][rows])
        if not isinstance(order, slice):
            rows = order + rows.start if isinstance(rows, slice) else rows[order]
        return cls(kind, raw, rows, int(np.count_nonzero(mask)))

    def column(self, name: str, missing: int) -> NDArray[Any]:
        """A column of the whole table."""
        return self.raw[name] if name in self.raw else uniform(missing, len(self.raw["start"]), np.int64)

    def steps(self) -> Iterator[Int64 | slice]:
        """The rows, in parts so short that what is made of them takes little memory."""
        for first in range(0, self.count, ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, self.count)
            rows = self.rows
            yield slice(rows.start + first, rows.start + last) if isinstance(rows, slice) else rows[first:last]


def _pieces(tables: ExportTables) -> Iterator[_Piece]:
    """GPU work by kind, kernels first."""
    for kind, table in _OPERATIONS:
        raw = tables.read_timed(table)
        if schema.LAUNCH_SHAPE[0] in raw:
            raw["threads"] = _threads(raw)
        migrated = np.zeros(len(raw["start"]), np.bool_)
        if kind == OpKind.COPY:
            for migration in _MIGRATIONS:
                migrated |= raw["copy_kind"] == migration
        yield _Piece.of(kind, raw, ~migrated)
        if migrated.any():
            yield _Piece.of(OpKind.MIGRATION, raw, migrated)


def _operations(tables: ExportTables) -> GpuOpTable:
    """Kind after kind, so that whoever looks at one of them touches the memory of that alone."""
    pieces = list(_pieces(tables))
    total = sum(piece.count for piece in pieces)
    pieces[0].raw["name"], names = tables.names(pieces[0].column("name", -1))

    def column(
        name: str, missing: int, dtype: DTypeLike | None, change: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
    ) -> NDArray[Any]:
        """One column of all pieces, in the narrowest type that holds it where none is given; its raw form is let go."""
        parts = [piece.column(name, missing) for piece in pieces]
        held = [part for part, piece in zip(parts, pieces, strict=True) if piece.count]
        if held and all(map(is_uniform, held)) and len({int(part[0]) for part in held}) == 1:
            return uniform(change(held[0][:1])[0], total, dtype or held[0].dtype)
        if dtype is None:
            dtype = fitting(
                min(int(part.min(initial=0)) for part in parts), max(int(part.max(initial=0)) for part in parts)
            )
        steps = (change(taken(part, rows)) for part, piece in zip(parts, pieces, strict=True) for rows in piece.steps())
        made = put_together(steps, total, dtype)
        for piece in pieces:
            piece.raw.pop(name, None)
        return made

    wide_ids = any(int(piece.column("correlation_id", -1).min(initial=0)) < -1 for piece in pieces)
    kinds = (uniform(piece.kind, piece.count, np.uint8) for piece in pieces)
    return GpuOpTable(
        kind=put_together(kinds, total, np.uint8),
        end_ns=column("end", 0, np.int64),
        name=column("name", -1, None),
        pid=column("pid", -1, np.int32),
        device=column("device", -1, np.int32),
        stream=column("stream", -1, None),
        correlation_id=column("correlation_id", -1, np.int64 if wide_ids else np.int32, id_column),
        size_bytes=column("size_bytes", 0, np.int64, amount_column),
        copy_kind=column("copy_kind", -1, np.uint8, enum_column),
        src_kind=column("src_kind", -1, np.uint8, enum_column),
        dst_kind=column("dst_kind", -1, np.uint8, enum_column),
        cause=column("cause", -1, np.uint8, enum_column),
        sync=column("sync", -1, np.uint8, enum_column),
        address=column("address", schema.MISSING, np.uint64, address_column),
        names=names,
        threads=column("threads", 0, None),
        start_ns=column("start", 0, np.int64),  # last, for it says how long the others are
    )


def _threads(kernels: Numbers) -> Int64:
    """Threads of each launch; 0 where one of its sides was not recorded, and at most 2^62."""
    threads = np.ones(len(kernels["start"]))
    for side in schema.LAUNCH_SHAPE:
        threads *= np.maximum(kernels.pop(side), 0)
    return np.minimum(threads, 2.0**62).astype(np.int64)


def read_faults(tables: ExportTables) -> PageFaultTable:
    """GPU fault groups and CPU faults in one table."""
    gpu, cpu = tables.read_timed(schema.GPU_FAULTS), tables.read_timed(schema.CPU_FAULTS)
    function, names = tables.names(cpu["function"])
    on_gpu = PageFaultTable(
        time_ns=gpu["start"],
        duration_ns=gpu["end"] - gpu["start"],
        device=packed(np.maximum(gpu["device"], 0)),
        address=address_column(gpu["address"]),
        count=packed(amount_column(gpu["count"])),
        access=enum_column(gpu["access"]),
        pid=packed(gpu["pid"]),
        function=uniform(-1, len(gpu["start"]), np.int32),
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
    return faults.take(in_order(faults.time_ns))


def read_memory(tables: ExportTables) -> MemoryUsageTable:
    """Allocations and frees."""
    raw = _in_order(tables.read_timed(schema.MEMORY))
    raw["size_bytes"], raw["address"] = amount_column(raw["size_bytes"]), address_column(raw["address"])
    raw["correlation_id"] = id_column(raw["correlation_id"])
    return MemoryUsageTable.of(len(raw["start"]), time_ns=raw.pop("start"), **raw)


def read_os_calls(tables: ExportTables) -> OsCallTable:
    """Calls into libc."""
    raw = _in_order(tables.read_timed(schema.OS_CALLS))
    raw["name"], names = tables.names(raw["name"])
    raw["nesting"] = np.maximum(raw["nesting"], 0)
    return OsCallTable.of(len(raw["name"]), start_ns=raw.pop("start"), end_ns=raw.pop("end"), names=names, **raw)


def read_sched(tables: ExportTables) -> SchedTable:
    """Context switches of every process that nsys saw."""
    raw = _in_order(tables.read_timed(schema.SCHED))
    raw["running"] = raw["running"] > 0
    return SchedTable.of(len(raw["start"]), time_ns=raw.pop("start"), **raw)


def _in_order(raw: Numbers) -> Numbers:
    order = time_order(raw["start"])
    return {name: values[order] for name, values in raw.items()}
