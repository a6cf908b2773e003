"""What the critical thread does with data, call by call: what each copy takes, and what it waits for besides."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import Calls, size_class
from pinprof.analyze.course.copies import WAYS
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import Bool, Int32, Int64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import NO_STREAM, CopyKind, MemoryKind
from pinprof.data.gpu_functions import Purpose

UPLOAD, DOWNLOAD, WAIT, HOST_MEMORY, ELSE = range(5)
"""Kinds of calls; HOST_MEMORY makes page-locked memory or gives it back."""
SMALL_BYTES = 64 << 10
"""Copies up to this size are no data to work on."""
_FRESH = 2.0
"""What a pageable copy may take at most, in times of its price: it may make pages besides."""
_HOST_MEMORY: tuple[Purpose, ...] = ("alloc pinned", "free pinned", "register", "unregister")


@dataclass(frozen=True)
class ThreadLine:
    """The calls of the critical thread in order of time. Columns of its length, times in nanoseconds."""

    call: Int64
    """Rows of the calls' table, ascending."""
    start: Int64
    end: Int64
    kind: Int64
    size: Int64
    """Of uploads and downloads; 0 for other calls."""
    address: Int64
    """The host's side."""
    pinned: Bool
    """Whether the host's side is page-locked."""
    blocks: Bool
    """Whether the thread goes on only when the copy is done: by its name, or since the same line waits for it."""
    queued_alone: Bool
    """Whether it is queued on the one stream that all copies of the program are queued on."""
    moving: Int64
    """What the copy itself takes. Asynchronous copies share the wait that follows them."""
    waiting: Int64
    """What is waited for besides: kernels, above all."""
    inside: Int64
    """Time in calls before this one; one more element for all."""

    def outside(self, first: Int64, second: Int64) -> Int64:
        """Time outside all calls from the end of one call to the start of a later one; both by their place here."""
        gap: Int64 = self.start[second] - self.end[first] - (self.inside[second] - self.inside[first + 1])
        return gap

    def count(self, kind: int, first: Int64, second: Int64) -> Int64:
        """How many calls of a kind lie between two."""
        before = np.append(0, np.cumsum(self.kind == kind))
        counted: Int64 = before[second] - before[first + 1]
        return counted


def line_of(scene: Scene) -> ThreadLine | None:
    """None where the recording does not say what the thread copied, and from where."""
    calls, copies, course = scene.calls, scene.copies, scene.course
    if calls is None or copies is None or not copies.address.any():
        return None
    table = calls.table
    row = np.flatnonzero((table.pid == course.pid) & (table.tid == course.tid) & ~calls.initial)
    up, down = copies.direction == CopyKind.HOST_TO_DEVICE, copies.direction == CopyKind.DEVICE_TO_HOST
    known = np.flatnonzero((copies.call >= 0) & (up | down) & (copies.address > 0) & (copies.size_bytes > SMALL_BYTES))
    if not len(row) or not len(known):
        return None
    of_call = np.full(len(table), -1, np.int64)
    of_call[copies.call[known]] = known
    copy = of_call[row]
    copied = copy >= 0
    kind = np.full(len(row), ELSE)
    kind[calls.is_for("sync")[row]] = WAIT
    kind[calls.is_for(*_HOST_MEMORY)[row]] = HOST_MEMORY
    kind[copied] = np.where(up[copy[copied]], UPLOAD, DOWNLOAD)
    size = np.where(copied, copies.size_bytes[copy], 0)
    memory = np.where(up, copies.source, copies.target)[copy]
    # The driver stages copies of pageable memory before it returns.
    in_call = copied & (~copies.asynchronous[copy] | (memory == MemoryKind.PAGEABLE))
    duration = np.maximum(table.end_ns[row] - table.start_ns[row] - scene.overhead_ns, 0)
    price = _prices(scene, kind, size, memory)
    moving, waiting = _shared(kind, duration, price, in_call, memory == MemoryKind.PAGEABLE)
    return ThreadLine(
        call=row,
        start=table.start_ns[row],
        end=table.end_ns[row],
        kind=kind,
        size=size,
        address=np.where(copied, copies.address[copy].astype(np.int64), 0),
        pinned=copied & (memory == MemoryKind.PINNED),
        blocks=in_call | (copied & _waited_for_at_once(calls, row, kind)),
        queued_alone=copied & ~in_call & _one_stream(scene),
        moving=moving,
        waiting=waiting,
        inside=np.append(0, np.cumsum(table.end_ns[row] - table.start_ns[row])),
    )


def _prices(scene: Scene, kind: Int64, size: Int64, memory: Int32) -> Int64:
    """What each copy takes on this machine; 0 where nobody knows."""
    price = np.zeros(len(kind), np.int64)
    classes = size_class(size)
    for direction, (_, way, _) in zip((UPLOAD, DOWNLOAD), WAYS, strict=True):
        for name, mine in (("pinned", memory != MemoryKind.PAGEABLE), ("pageable", memory == MemoryKind.PAGEABLE)):
            mine = mine & (kind == direction)
            for number in ascending(classes[mine]).tolist():
                cost = scene.rates.cost(f"{way}.{name}", 1 << min(number, 62))
                alike = mine & (classes == number)
                price[alike] = size[alike] * (cost.ns / 2.0**number) if cost else 0
    return price


def _shared(kind: Int64, duration: Int64, price: Int64, in_call: Bool, pageable: Bool) -> tuple[Int64, Int64]:
    """What copies take, and what else is waited for."""
    most = np.where(price > 0, np.where(pageable, _FRESH, 1.0) * price, np.inf)
    queued = np.isin(kind, (UPLOAD, DOWNLOAD)) & ~in_call
    # A wait ends a stretch of calls: what was queued in it shares the wait.
    stretch = np.cumsum(kind == WAIT) - (kind == WAIT)
    length = int(stretch[-1]) + 1
    asked = np.bincount(stretch, np.where(queued, price, 0), length)
    there = np.bincount(stretch, np.where(queued | (kind == WAIT), duration, 0), length)
    there[np.bincount(stretch, kind == WAIT, length) == 0] = 0
    share = np.minimum(there / np.maximum(asked, 1), 1.0)
    moving = np.where(in_call, np.minimum(duration, most), np.where(queued, price * share[stretch], 0))
    left = np.maximum(there - asked, 0)
    waiting = np.where(kind == WAIT, left[stretch], np.where(in_call, duration - moving, 0))
    return moving.astype(np.int64), waiting.astype(np.int64)


def _one_stream(scene: Scene) -> bool:
    """Whether all copies of the process that are queued are queued on one stream."""
    calls, copies = scene.calls, scene.copies
    assert calls is not None
    assert copies is not None
    if calls.table.stream is None:
        return False
    queued = copies.call[(copies.call >= 0) & copies.asynchronous & (copies.pid == scene.course.pid)]
    streams = ascending(calls.table.stream[queued])
    return len(streams) == 1 and int(streams[0]) != NO_STREAM


def _waited_for_at_once(calls: Calls, row: Int64, kind: Int64) -> Bool:
    """Whether the next call is a wait in the same line, as in PyTorch's copies that are not `non_blocking`; where a
    line of the two is not known, whether the wait follows at once.
    """
    at_once = calls.waited_by[row] >= 0
    if calls.table.site is None:
        return at_once
    lines = np.array([*(bool(each.line) for each in calls.table.sites), False], np.bool_)
    of = calls.table.site[row]
    known = lines[of] & (of >= 0)
    both, same = known[:-1] & known[1:], (of[:-1] == of[1:]) & (kind[1:] == WAIT)
    return np.append(np.where(both, same, at_once[:-1]), False)
