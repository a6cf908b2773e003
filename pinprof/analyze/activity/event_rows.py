"""The single calls, copies and migrations behind the whole recording's results, each with the result it is part of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from pinprof.analyze.activity.calls import Calls, Samples
from pinprof.analyze.activity.migrations import Migrations, cause_name, prepare_migrations
from pinprof.analyze.activity.results import ScopeActivity
from pinprof.analyze.activity.row_tables import ActivityRows, CallTime, EventRows
from pinprof.analyze.activity.transfers import DIRECTIONS, Copies, DeviceSets, memory_name, prepare_copies
from pinprof.analyze.groups import group
from pinprof.analyze.ranges.membership import Scopes
from pinprof.data.activity import GpuOpTable
from pinprof.data.model import Int32, Int64


def activity_rows(
    operations: GpuOpTable,
    calls: Calls,
    samples: Samples | None,
    sets: tuple[DeviceSets, ...],
    scopes: Scopes,
    whole: ScopeActivity,
) -> ActivityRows:
    """Every event that `whole` counts; calls that created a context are in none of its results and so left out."""
    ordinary = np.flatnonzero(~calls.initial)
    copies, moved = prepare_copies(operations, calls), prepare_migrations(operations, sets)
    return ActivityRows(
        calls=_calls(calls, ordinary, whole),
        copies=_copies(calls, copies, whole),
        migrations=_migrations(moved, whole),
        times=_times(samples, ordinary, len(calls.table)),
        scope=scopes.path,
        scope_start_ns=scopes.start_ns,
        scope_end_ns=scopes.end_ns,
        scope_pid=scopes.owner,
    )


def _numbers(keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
    """Key → index; of equal keys the first counts."""
    numbers: dict[Hashable, int] = {}
    for number, key in enumerate(keys):
        numbers.setdefault(key, number)
    return numbers


def _calls(calls: Calls, row: Int64, whole: ScopeActivity) -> EventRows:
    table, number = calls.table, _numbers(call.name for call in whole.calls)
    of_name = np.array([number.get(name, 0) for name in calls.names], np.int32)
    start = table.start_ns[row]
    return EventRows.of(
        len(row),
        group=of_name[calls.name[row]],
        start_ns=start,
        end_ns=table.end_ns[row],
        scope_ns=start,
        pid=table.pid[row],
        tid=table.tid[row],
        size_bytes=np.maximum(calls.size_bytes[row], 0),
    )


def _copies(calls: Calls, copies: Copies, whole: ScopeActivity) -> EventRows:
    number = _numbers((copy.direction, copy.memory, copy.asynchronous) for copy in whole.copies)
    kinds = group(copies.direction, copies.memory, copies.asynchronous.astype(np.int64))
    of_kind = [
        number[DIRECTIONS[direction], memory_name(memory), bool(asynchronous)]
        for direction, memory, asynchronous in zip(*(key.tolist() for key in kinds.keys), strict=True)
    ]
    return EventRows(
        group=np.array(of_kind, np.int32)[kinds.of],
        start_ns=copies.start_ns,
        end_ns=copies.end_ns,
        scope_ns=copies.scope_time_ns,
        pid=copies.pid,
        tid=np.where(copies.call >= 0, np.append(calls.table.tid, np.int32(-1))[copies.call], -1).astype(np.int32),
        size_bytes=copies.size_bytes,
        extra=copies.host_ns,
    )


def _migrations(moved: Migrations, whole: ScopeActivity) -> EventRows:
    number = _numbers((entry.direction, entry.cause) for entry in whole.migrations)
    kinds = group(moved.direction, moved.cause)
    of_kind = [
        number[DIRECTIONS[direction], cause_name(cause)]
        for direction, cause in zip(*(key.tolist() for key in kinds.keys), strict=True)
    ]
    return EventRows.of(
        len(moved),
        group=np.array(of_kind, np.int32)[kinds.of],
        start_ns=moved.start_ns,
        end_ns=moved.end_ns,
        scope_ns=moved.start_ns,
        pid=moved.pid,
        tid=-1,
        size_bytes=moved.size_bytes,
        extra=moved.in_kernel,
    )


def _times(samples: Samples | None, ordinary: Int64, calls: int) -> CallTime:
    if samples is None:
        none = np.zeros(0, np.int64)
        return CallTime(none, none.astype(np.int32), none)
    place = np.full(calls, -1, np.int64)
    place[ordinary] = np.arange(len(ordinary))
    known = place[samples.call] >= 0
    leaf: Int32 = samples.leaf[known].astype(np.int32)
    return CallTime(place[samples.call[known]], leaf, samples.weight[known])
