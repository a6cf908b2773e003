"""Page-locking that failed, and the copies of pageable memory by which a program goes on without it."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import UNKNOWN_SIZE, Calls
from pinprof.analyze.activity.results import CallError, FailedPin
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Activity, MemoryKind, OpKind
from pinprof.data.cuda_errors import ALREADY_SO, error_name
from pinprof.data.model import Bool, Int32, Int64

_LEAST_PART = 0.5
"""The share of what was to be pinned that a copy has at least to be taken for one of that buffer."""
_MOST = 256
"""Failures whose copies are looked for, the largest first: each is compared with all copies."""


_ASKS = "cudaGetLastError"


@dataclass(frozen=True)
class _Copies:
    """Copies with a pageable end, ordered by start."""

    pid: Int32
    start_ns: Int64
    size_bytes: Int64
    duration_ns: Int64


def failed_pins(activity: Activity, calls: Calls) -> tuple[FailedPin, ...]:
    """Failed allocations and registrations of pinned memory, by call and error, most bytes first.

    A copy counts as a fall-back where its process pins nothing of its size between the failure and the copy: as large
    as what was asked for, or half of it. Each copy counts once. Where nobody recorded what was asked for, or which
    memory is copied, no fall-back is claimed.
    """
    table = calls.table
    pins = calls.is_for("alloc pinned", "register")
    failed = np.flatnonzero(pins & calls.failed & ~np.isin(table.status, ALREADY_SO))
    if not len(failed):
        return ()
    asked = np.full(len(table), UNKNOWN_SIZE, np.int64) if table.size_bytes is None else table.size_bytes
    copies = _pageable(activity, calls)
    free = np.ones(len(copies.pid), np.bool_)
    worked = np.flatnonzero(pins & ~calls.failed)
    found: dict[tuple[int, int], list[tuple[int, Int64]]] = {}
    of: dict[tuple[int, int], list[int]] = {}
    compared = set(failed[np.argsort(-asked[failed], kind="stable")][:_MOST].tolist())
    for row in failed.tolist():
        mine = np.zeros(0, np.int64)
        if row in compared:
            mine = np.flatnonzero(free & _falls_back(copies, calls, row, int(asked[row]), worked, asked))
            free[mine] = False
        of.setdefault((int(calls.name[row]), int(table.status[row])), []).append(row)
        found.setdefault((int(calls.name[row]), int(table.status[row])), []).append((int(asked[row]), mine))
    results = []
    for (name, status), entries in found.items():
        rows = np.concatenate([mine for _, mine in entries])
        results.append(
            FailedPin(
                surfaces=next(filter(None, (_surfaces(calls, row) for row in of[name, status])), ""),
                call=calls.names[name],
                error=CallError(error_name(calls.names[name], status), status, len(entries)),
                asked_bytes=sum(max(size, 0) for size, _ in entries),
                largest_bytes=max(size for size, _ in entries) if any(size > 0 for size, _ in entries) else None,
                copies=len(rows),
                copied_bytes=int(copies.size_bytes[rows].sum()),
                copying_ns=int(copies.duration_ns[rows].sum()),
            )
        )
    return tuple(sorted(results, key=lambda pin: (-pin.asked_bytes, pin.call)))


def _surfaces(calls: Calls, row: int) -> str:
    """Where the same thread launches next without having asked for the error; empty where it asks, or never does.

    The runtime keeps an error for each thread until cudaGetLastError takes it (CUDA Runtime API, Error Handling).
    """
    table = calls.table
    later = np.flatnonzero((table.pid == table.pid[row]) & (table.tid == table.tid[row]))
    later = later[table.start_ns[later] >= table.end_ns[row]]
    asks = np.array([name == _ASKS for name in calls.names], np.bool_)[calls.name[later]]
    launches = calls.is_for("launch")[later]
    first = later[asks | launches][:1]
    if not len(first) or not launches[later == first[0]][0]:
        return ""
    site = -1 if table.site is None else int(table.site[first[0]])
    place = f" at {table.sites[site].text}" if site >= 0 else ""
    return f"{calls.names[calls.name[first[0]]]}{place}"


def _falls_back(copies: _Copies, calls: Calls, row: int, asked: int, worked: Int64, sizes: Int64) -> Bool:
    """Which copies may be of the buffer that a failed call was to pin."""
    if asked <= 0:
        return np.zeros(len(copies.pid), np.bool_)
    table = calls.table
    failed_ns, pid = int(table.end_ns[row]), table.pid[row]
    again = worked[(table.pid[worked] == pid) & (table.end_ns[worked] > failed_ns) & (sizes[worked] >= asked)]
    until_ns = int(table.end_ns[again].min()) if len(again) else np.iinfo(np.int64).max
    fits = (copies.size_bytes <= asked) & (copies.size_bytes >= _LEAST_PART * asked)
    return np.asarray(fits & (copies.pid == pid) & (copies.start_ns >= failed_ns) & (copies.start_ns < until_ns))


def _pageable(activity: Activity, calls: Calls) -> _Copies:
    """By the work of the GPU or by the calls, whichever knows of more: what one sees, the other may leave out."""
    table, operations = calls.table, activity.gpu_ops
    ends = (operations.src_kind == MemoryKind.PAGEABLE) | (operations.dst_kind == MemoryKind.PAGEABLE)
    row = np.flatnonzero(ends & (operations.kind == OpKind.COPY))
    if table.source_kind is not None and table.target_kind is not None:
        ends = (table.source_kind == MemoryKind.PAGEABLE) | (table.target_kind == MemoryKind.PAGEABLE)
        asked = np.flatnonzero(ends & (table.status == 0) & (calls.size_bytes > 0))
        if len(asked) >= len(row):
            return _Copies(table.pid[asked], table.start_ns[asked], calls.size_bytes[asked], calls.duration_ns[asked])
    return _Copies(
        operations.pid[row],
        operations.start_ns[row],
        operations.size_bytes[row],
        operations.end_ns[row] - operations.start_ns[row],
    )
