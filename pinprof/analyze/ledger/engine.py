"""The ledger of a capture: allocations with their lifetimes, and all that is known about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.results import Allocations
from pinprof.analyze.course.copies import CopyTable
from pinprof.analyze.ledger.checkpoints import checkpoints_of
from pinprof.analyze.ledger.curves import curves_of
from pinprof.analyze.ledger.idle import idle_of
from pinprof.analyze.ledger.kernel import kernel_views
from pinprof.analyze.ledger.results import Ledger, Use
from pinprof.analyze.ledger.sites import sites_of, totals_of
from pinprof.analyze.ledger.use import use_of
from pinprof.analyze.ledger.wanted import wanted_of
from pinprof.analyze.memory import page_bytes
from pinprof.base.columns import Int64, UInt8
from pinprof.base.units import format_counted
from pinprof.data.activity import Activity
from pinprof.data.gpu_functions import MEMORY
from pinprof.data.memory_log import MemoryLog, PageTable
from pinprof.data.model import Capture


def ledger_of(
    capture: Capture, calls: Calls, allocations: Allocations, copies: CopyTable | None, steps_ns: Int64
) -> Ledger:
    """What is known of the allocations of a capture; `copies` are its own, `steps_ns` tells when its steps begin."""
    activity = capture.activity
    assert activity is not None
    use = _use(activity, allocations, copies)
    allocations, basis = _with_wanted(capture, calls, allocations, use)
    checkpoints, left_out = checkpoints_of(allocations, capture.ranges, (capture.marks, activity.marks))
    return Ledger(
        allocations=allocations,
        sites=sites_of(allocations, use, capture.threads, steps_ns, basis, _pages(capture.memory), page_bytes(capture)),
        totals=totals_of(allocations.table),
        checkpoints=checkpoints,
        checkpoints_left_out=left_out,
        kernel=kernel_views(allocations.table, calls, capture, page_bytes(capture)),
        curves=curves_of(allocations, int(calls.table.end_ns.max(initial=0))),
        unplaced_copies=use.unplaced if use else 0,
        notes=tuple(_notes(activity, allocations)),
        use=use,
        idle=idle_of(allocations.table, allocations.sites, use, copies) if use and copies is not None else (),
    )


def _pages(log: MemoryLog | None) -> PageTable:
    return PageTable.empty() if log is None else log.pages


def _use(activity: Activity, allocations: Allocations, copies: CopyTable | None) -> Use | None:
    """None where copies are not all known."""
    if copies is None or activity.may_lack():
        return None
    return use_of(allocations.table, copies)


def _with_wanted(
    capture: Capture, calls: Calls, allocations: Allocations, use: Use | None
) -> tuple[Allocations, UInt8]:
    table, call = allocations.table, allocations.table.call
    stack = np.full(len(table), -1, np.int64)
    if calls.table.stack is not None:
        stack = np.where(call >= 0, np.append(calls.table.stack, -1)[call], -1).astype(np.int64)
    wanted, basis = wanted_of(table, use, stack, capture.call_stacks)
    return replace(allocations, table=replace(table, wanted_bytes=wanted)), basis


def _notes(activity: Activity, allocations: Allocations) -> Iterator[str]:
    """What makes the ledger uncertain, as sentences."""
    if activity.untraced(MEMORY):
        yield (
            "From time to time, calls that allocate or free were not traced, because tracing them would have cost too "
            "much. The ledger lacks them."
        )
    if activity.lost_calls:
        yield (
            f"{format_counted(activity.lost_calls, 'record of a call was', 'records of calls were')} lost. The ledger "
            "lacks them."
        )
    if allocations.undecided_frees:
        yield (
            f"The recording lacks the address of {format_counted(allocations.undecided_frees, 'free', 'frees')}, so "
            "the ledger counts that memory as live."
        )
    if allocations.unknown_frees:
        yield (
            f"{format_counted(allocations.unknown_frees, 'free releases', 'frees release')} memory that was allocated "
            "before the recording, or whose allocation was not traced."
        )
    if allocations.unsized:
        yield (
            f"The size of {format_counted(allocations.unsized, 'allocation is', 'allocations is')} unknown and counts "
            "as 0."
        )
