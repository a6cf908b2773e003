"""Copies as one table, whoever recorded them: CUPTI says what the GPU copied, uprobes what the program asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.base.columns import Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import UNRECORDED, CopyKind, GivenUp, GpuOpTable, MemoryKind, OpKind
from pinprof.data.gpu_functions import COPIES
from pinprof.data.model import Bool, Capture, Int32, Int64

WAYS = ((CopyKind.HOST_TO_DEVICE, "h2d", "to the GPU"), (CopyKind.DEVICE_TO_HOST, "d2h", "to the host"))
"""Directions between host and device, as rates and as titles name them."""


@dataclass(frozen=True, eq=False, repr=False)
class CopyTable(Table):
    """Copies between host and device, and on the host, by CUDA; one row each, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    """The call's time, on the thread that made it."""
    pid: Int32
    tid: Int32
    call: Int64
    """Row of the calls' table; -1 where only the GPU's copy was recorded."""
    size_bytes: Int64
    direction: Int32
    """`CopyKind`."""
    source: Int32
    """`MemoryKind`, of the source; UNKNOWN where the recording does not say."""
    target: Int32
    """`MemoryKind`, of the target."""
    address: UInt64
    """The host's side; 0 where not recorded."""
    from_file: Bool
    """Whether the source lies in a mapped file."""
    asynchronous: Bool
    """Whether the call promises to return before the copy is done."""
    busy_ns: Int64
    """How long the GPU copied; -1 where its work was not recorded."""


def copies_of(capture: Capture, calls: Calls) -> CopyTable | None:
    """The copies of a capture, ordered by start; None where nothing recorded any.

    A copy has the times of its call, and of several copies of one call each has them whole; the GPU's own times where
    no call was recorded. Calls whose arguments were recorded tell most, else the work of the GPU, also while calls were
    not traced; calls that failed copied nothing.
    """
    if capture.activity is None:
        return None
    operations = capture.activity.gpu_ops
    asked = _by_calls(operations, calls)
    if asked is not None:
        return _with_untraced(asked, _by_gpu(operations, calls), capture.activity.given_up)
    if (operations.kind == OpKind.COPY).any() or "cuda" in capture.activity.recorded:
        return _by_gpu(operations, calls)
    return None


def _with_untraced(asked: CopyTable, done: CopyTable, given_up: Sequence[GivenUp]) -> CopyTable:
    """The copies that calls asked for, and of those that the GPU did the ones without a call while none was traced."""
    missed = np.zeros(len(done), np.bool_)
    for part in given_up:
        if part.kind == COPIES:
            missed |= (done.call < 0) & (done.start_ns >= part.start_ns) & (done.start_ns < part.end_ns)
    if not missed.any():
        return asked
    copies = asked.joined(done.take(missed))
    return copies.take(np.argsort(copies.start_ns, kind="stable"))


def _by_gpu(operations: GpuOpTable, calls: Calls) -> CopyTable:
    table = calls.table
    row = np.flatnonzero(operations.kind == OpKind.COPY)
    call = calls.launching(operations.pid[row], operations.correlation_id[row])
    known = call >= 0
    copies = CopyTable(
        start_ns=np.where(known, np.append(table.start_ns, 0)[call], operations.start_ns[row]),
        end_ns=np.where(known, np.append(table.end_ns, 0)[call], operations.end_ns[row]),
        pid=operations.pid[row],
        tid=np.where(known, np.append(table.tid, -1)[call], -1).astype(np.int32),
        call=call,
        size_bytes=operations.size_bytes[row],
        direction=_known(operations.copy_kind[row], 0),
        source=_known(operations.src_kind[row], MemoryKind.UNKNOWN),
        target=_known(operations.dst_kind[row], MemoryKind.UNKNOWN),
        address=np.zeros(len(row), np.uint64),
        from_file=np.zeros(len(row), np.bool_),
        asynchronous=_asynchronous(calls, call),
        busy_ns=operations.end_ns[row] - operations.start_ns[row],
    )
    return copies.take(np.argsort(copies.start_ns, kind="stable"))


def _by_calls(operations: GpuOpTable, calls: Calls) -> CopyTable | None:
    table = calls.table
    if table.copy_kind is None or table.source_kind is None or table.target_kind is None or table.from_file is None:
        return None
    row = np.flatnonzero((table.copy_kind != UNRECORDED) & (table.status == 0))
    copies = CopyTable(
        start_ns=table.start_ns[row],
        end_ns=table.end_ns[row],
        pid=table.pid[row],
        tid=table.tid[row],
        call=row,
        size_bytes=calls.size_bytes[row],
        direction=table.copy_kind[row].astype(np.int32),
        source=_known(table.source_kind[row], MemoryKind.UNKNOWN),
        target=_known(table.target_kind[row], MemoryKind.UNKNOWN),
        address=np.zeros(len(row), np.uint64) if table.host_address is None else table.host_address[row],
        from_file=table.from_file[row],
        asynchronous=_asynchronous(calls, row),
        busy_ns=_busy(operations, calls)[row],
    )
    return copies.take(np.argsort(copies.start_ns, kind="stable"))


def _busy(operations: GpuOpTable, calls: Calls) -> Int64:
    """Per call how long the GPU made its copies; -1 where that was not recorded."""
    work = np.flatnonzero(operations.kind == OpKind.COPY)
    call = calls.launching(operations.pid[work], operations.correlation_id[work])
    busy = np.full(len(calls.table), -1, np.int64)
    busy[call[call >= 0]] = 0
    np.add.at(busy, call[call >= 0], (operations.end_ns - operations.start_ns)[work[call >= 0]])
    return busy


def _known(values: UInt8, unknown: int) -> Int32:
    return np.where(values == UNRECORDED, unknown, values).astype(np.int32)


def _asynchronous(calls: Calls, call: Int64) -> Bool:
    """By the call's name; a call that is not known promises nothing."""
    by_name = np.array(["Async" in name for name in calls.names], np.bool_)
    return np.asarray((call >= 0) & by_name[np.append(calls.name, len(calls.names) - 1)[call]])
