"""Allocations of a capture, from traced calls, with the addresses that CUPTI reports where calls do not tell them.

A call says its size and its line; for page-locked and managed memory the driver's mapping says the address
(read/perf/cuda_memory.py). Memory from a pool or from a mapping of before has an address in CUPTI's records alone: the
n-th record of a size and kind in a process belongs to the n-th such call, where there are as many of both, else
the only one within a call to that call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.results import FOREVER, KINDS, UNKNOWN, AllocationTable
from pinprof.analyze.groups import group
from pinprof.base.columns import Int64, Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Activity, MemoryKind, MemoryOperation, MemoryUsageTable
from pinprof.data.gpu_functions import Allocated, Freed, allocates, frees, is_array
from pinprof.data.model import Int32

_FAMILY = {"pinned": "host", "registered": "registered", "managed": "device", "pool": "device", "device": "device"}
FAMILIES = get_args(Freed)
"""What one function frees another does not; addresses are compared within a family."""
FAMILY_OF_KIND = np.array([FAMILIES.index(_FAMILY[kind]) for kind in KINDS], np.uint8)
_REPORTED: dict[int, Allocated] = {
    MemoryKind.PINNED: "pinned",
    MemoryKind.MANAGED: "managed",
    MemoryKind.DEVICE: "device",
}


def families_of(kind: UInt8, names: tuple[str, ...], name: Int32) -> UInt8:
    """Which family gives back memory of these kinds, which calls of these names concern.

    Memory that lies where arguments say is a device's, on the host as well.
    """
    named = [FAMILIES.index("device" if " (" in text else "array") if " (" in text or is_array(text) else 255
             for text in names]  # fmt: skip
    by_name = np.array(named, np.uint8)[name]
    return np.where(by_name < len(FAMILIES), by_name, FAMILY_OF_KIND[kind]).astype(np.uint8)


@dataclass(frozen=True, eq=False, repr=False)
class FreeTable(Table):
    """What was given back, ordered by start."""

    start_ns: Int64
    pid: Int32
    family: UInt8
    """Index into `FAMILIES`."""
    address: UInt64
    """0 where not known."""
    call: Int64
    """Row of the calls' table, -1 where no call was recorded."""


def recorded(activity: Activity, calls: Calls) -> tuple[AllocationTable, FreeTable]:
    """What was allocated, still without ends, and what was given back.

    Where calls do not say it, what a tracing tool reports of memory does: it may see a process whose calls nobody
    traced. Calls say that there was what it does not report.
    """
    table = calls.table
    made, gone = _by_calls(calls), _frees_of(calls)
    if table.size_bytes is not None and table.address is not None and (len(made) or len(gone)):
        return _with_reported(made, activity.reported, table.start_ns), gone
    seen, back = _by_usage(activity.memory, calls)
    known = np.append(families_of(seen.kind, calls.names, seen.api), back.family)
    unseen = ~np.isin(families_of(made.kind, calls.names, made.api), known)
    return seen.joined(made.take(unseen)), back.joined(gone.take(~np.isin(gone.family, known)))


def _by_calls(calls: Calls) -> AllocationTable:
    table = calls.table
    kinds = [allocates(name) for name in calls.names]
    number = np.array([-1 if kind is None else KINDS.index(kind) for kind in kinds], np.int16)[calls.name]
    row = np.flatnonzero((number >= 0) & (table.status == 0))
    row = row[np.argsort(table.end_ns[row], kind="stable")]
    size = np.maximum(calls.size_bytes[row], UNKNOWN)
    granted = size if table.granted_bytes is None else np.maximum(table.granted_bytes[row], size)
    return AllocationTable(
        start_ns=table.end_ns[row],
        end_ns=np.full(len(row), FOREVER),
        pid=table.pid[row].astype(np.int32),
        tid=table.tid[row].astype(np.int32),
        kind=number[row].astype(np.uint8),
        api=calls.name[row].astype(np.int32),
        site=_sites(calls, row),
        size_bytes=size,
        wanted_bytes=size,
        granted_bytes=granted,
        address=_addresses(calls)[row],
        call=row,
        freed=np.zeros(len(row), np.uint8),
        free=np.full(len(row), -1),
    )


def _addresses(calls: Calls) -> UInt64:
    address = calls.table.address
    return np.zeros(len(calls.table), np.uint64) if address is None else address


def _sites(calls: Calls, row: Int64) -> Int32:
    site = calls.table.site
    none = np.full(len(row), -1, np.int32)
    return none if site is None else np.where(row >= 0, np.append(site, -1)[row], -1).astype(np.int32)


def _frees_of(calls: Calls) -> FreeTable:
    table, address = calls.table, _addresses(calls)
    families = [frees(name) for name in calls.names]
    number = np.array([-1 if family is None else FAMILIES.index(family) for family in families], np.int16)[calls.name]
    # Programs give back nothing, as cudaFree(0), above all to create a context.
    something = ~calls.initial if table.address is None else (address > 0) | (number == FAMILIES.index("array"))
    row = np.flatnonzero((number >= 0) & (table.status == 0) & something)
    row = row[np.argsort(table.start_ns[row], kind="stable")]
    return FreeTable(
        table.start_ns[row], table.pid[row].astype(np.int32), number[row].astype(np.uint8), address[row], row
    )


def _with_reported(made: AllocationTable, reported: MemoryUsageTable, called_ns: Int64) -> AllocationTable:
    """The allocations with CUPTI's addresses, where those are certain."""
    rows = np.flatnonzero(reported.operation == MemoryOperation.ALLOCATE)
    if not len(rows) or not len(made):
        return made
    # To CUPTI memory from pools is the device's; what is registered it does not report.
    of_kind = np.array([KINDS.index(_REPORTED[kind]) if kind in _REPORTED else 255 for kind in range(256)], np.uint8)
    mine = np.where(made.kind == KINDS.index("pool"), KINDS.index("device"), made.kind).astype(np.int64)
    theirs = of_kind[reported.memory_kind[rows]].astype(np.int64)
    cells = group(
        np.concatenate([made.pid, reported.pid[rows]]).astype(np.int64),
        np.concatenate([mine, theirs]),
        np.concatenate([made.size_bytes, reported.size_bytes[rows]]),
    ).of
    here, there = cells[: len(made)], cells[len(made) :]
    by_start = np.lexsort((made.start_ns, here))
    by_time = rows[np.lexsort((reported.time_ns[rows], there))]
    count = int(cells.max()) + 1
    many, freed = np.bincount(here, minlength=count), np.bincount(there, minlength=count)
    same = (many == freed) & (many > 0)
    matched, source = by_start[same[here[by_start]]], by_time[same[np.sort(there)]]
    address = made.address.copy()
    address[matched] = reported.address[source]
    for cell in np.flatnonzero((many > 0) & (freed > 0) & ~same).tolist():
        mine = by_start[np.searchsorted(here[by_start], cell) : np.searchsorted(here[by_start], cell, "right")]
        times = by_time[np.searchsorted(np.sort(there), cell) : np.searchsorted(np.sort(there), cell, "right")]
        first = np.searchsorted(reported.time_ns[times], called_ns[made.call[mine]])
        alone = np.searchsorted(reported.time_ns[times], made.start_ns[mine], "right") - first == 1
        address[mine[alone]] = reported.address[times[first[alone]]]
    return replace(made, address=address)


def _by_usage(usage: MemoryUsageTable, calls: Calls) -> tuple[AllocationTable, FreeTable]:
    """By what a tracing tool reports of memory, with the names and threads of the calls where they are joined."""
    of_kind = np.array([KINDS.index(_REPORTED[kind]) if kind in _REPORTED else 255 for kind in range(256)], np.uint8)
    kind = of_kind[usage.memory_kind]
    call = calls.launching(usage.pid, usage.correlation_id)
    name = np.append(calls.name, len(calls.names) - 1)[call].astype(np.int32)
    row = np.flatnonzero((usage.operation == MemoryOperation.ALLOCATE) & (kind < len(KINDS)))
    made = AllocationTable(
        start_ns=usage.time_ns[row],
        end_ns=np.full(len(row), FOREVER),
        pid=usage.pid[row].astype(np.int32),
        tid=np.where(call[row] >= 0, np.append(calls.table.tid, -1)[call[row]], -1).astype(np.int32),
        kind=kind[row],
        api=name[row],
        site=_sites(calls, call[row]),
        size_bytes=usage.size_bytes[row],
        wanted_bytes=usage.size_bytes[row],
        granted_bytes=usage.size_bytes[row],
        address=usage.address[row],
        call=call[row],
        freed=np.zeros(len(row), np.uint8),
        free=np.full(len(row), -1),
    )
    back = np.flatnonzero((usage.operation == MemoryOperation.FREE) & (kind < len(KINDS)))
    family = families_of(kind[back], calls.names, name[back])
    return made, FreeTable(
        usage.time_ns[back], usage.pid[back].astype(np.int32), family, usage.address[back], call[back]
    )
