"""The flamegraph's data as columns: functions, one prefix tree of all stacks, and the samples that point into it.

The page derives every view from these (`assets/engine/model.js`): events, ranges, threads and causes are filters over
the samples, so nothing is merged here that a reader might want apart. Nodes stand in preorder: a node's depth then says
who its parent is, and depths compress to almost nothing.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.groups import codes
from pinprof.base.columns import taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Int16, Int32, Int64, UInt8
from pinprof.report.moments import MomentSums, added_up

USER_CODE, KERNEL_CODE, MODULE_CODE = 0, 1, 2
"""Values of `FlameData.frame_kind`."""

Layout = list[tuple[str, str, int]]
"""[column, JavaScript type, length]."""

ROOT = "all"
"""Name of the node that holds all of an event."""

_KINDS = (("Uint8", "<u1"), ("Int16", "<i2"), ("Int32", "<i4"))
"""Column types of the page, narrowest first; what fits none of them travels as Float64."""


@dataclass(frozen=True)
class Thread:
    """A thread that has samples."""

    pid: int
    tid: int
    name: str
    several: bool = False
    """It stands for many, which the name counts."""

    @property
    def title(self) -> str:
        """The name and the number, as readers choose it."""
        return self.name if self.several else f"{self.name} {self.tid}".strip()


@dataclass(frozen=True)
class RangeRows:
    """The samples inside the ranges of one path: half-open runs of sample numbers, with the path they belong to."""

    path: Int32
    """Row of `Shared.shown`, ascending."""
    first: Int32
    last: Int32


NO_RANGES = RangeRows(*(np.zeros(0, np.int32) for _ in range(3)))

EVERY_RANGE = -2
"""Stands for the process of a kernel thread, which every range counts."""


@dataclass(frozen=True)
class AcrossRows:
    """Waits that reach across edges of ranges, which are in each range for as long as they overlap; and the ranges."""

    sample: Int32
    """Row of a wait, ascending; columns with the next two."""
    start_ns: Int64
    """Since the first sample."""
    process: Int32
    """Its process, or EVERY_RANGE."""
    path: Int32
    """Per merged interval of a path of ranges, row of `Shared.shown`, ascending; columns with the next three."""
    scope_start_ns: Int64
    scope_length_ns: Int64
    owner: Int32
    """The process whose waits count, -1 for all but idle processors."""
    whole: bool = True
    """Whether all such waits are here: others count in the ranges in which they begin."""

    def moved(self, kept: Int32) -> AcrossRows:
        """The same where samples have moved: `kept` is per row the index of its wait, -1 for others."""
        row = np.flatnonzero(kept >= 0).astype(np.int32)
        wait = kept[row]
        return replace(self, sample=row, start_ns=self.start_ns[wait], process=self.process[wait])


_NUMBERS, _TIMES = np.zeros(0, np.int32), np.zeros(0, np.int64)
NO_ACROSS = AcrossRows(_NUMBERS, _TIMES, _NUMBERS, _NUMBERS, _TIMES, _TIMES, _NUMBERS)


@dataclass(frozen=True)
class FlameData:
    """Everything the flamegraph shows, of all events."""

    frame_name: Int32
    """Index into `names`."""
    frame_dso: Int32
    """Index into `dsos`."""
    frame_kind: UInt8
    """USER_CODE, KERNEL_CODE or MODULE_CODE (a kernel module)."""
    depth: Int16
    """Per node in preorder; 0 for roots (outermost functions)."""
    node_frame: Int32
    decided: Int16
    """How many callers up the function stands that decides the cause of samples ending here; -1 where none does."""
    node: Int32
    """Per sample its innermost node. Samples are in the order of time where `timed`."""
    event: UInt8
    cause: Int16
    """Index into `Shared.causes`."""
    likely: UInt8
    """1 where a heuristic gave the cause, not a function's name."""
    thread: Int32
    """Index into `threads`."""
    weight: Int64
    time_ns: Int64
    """Since the first sample; zeros where not `timed`."""
    threads: tuple[Thread, ...]
    timed: bool
    ranges: RangeRows = NO_RANGES
    across: AcrossRows = NO_ACROSS
    start_ns: int = 0
    """The first sample's time on the capture's clock."""
    step_ns: int = 0
    """Where samples of a step of time were added up (`steps`), its length; their time is where it begins."""
    names: tuple[str, ...] = (ROOT,)
    """Function names; the first stands for all of an event."""
    dsos: tuple[str, ...] = ("",)
    opportunities: tuple[Int32, ...] = ()
    """Per opportunity the nodes in which its samples end, ascending."""

    def links(self) -> tuple[Int32, Int32]:
        """Per node the index of its caller (NO_NODE for roots), and one past the last node of its subtree."""
        size = len(self.depth)
        parent, ends = np.full(size + 1, NO_NODE, np.int32), np.full(size + 1, size, np.int32)
        order = np.argsort(self.depth, kind="stable").astype(np.int32)
        bounds = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=-1)) + 2)).tolist()
        above = np.array([NO_NODE], np.int32)
        for first, last in pairwise(bounds):
            here = order[first:last]
            parent[here] = above[np.searchsorted(above, here) - 1] if first else NO_NODE
            # A subtree ends where the next node of its level begins, or with its parent's.
            ends[here] = np.minimum(np.append(here[1:], size), ends[parent[here]])
            above = here
        return parent[:-1], ends[:-1]

    def merged(self) -> FlameData:
        """The same weights without times and ranges: samples that agree in everything else become one."""
        kind = codes(self.event, self.thread, self.node, self.cause, self.likely)
        sums = added_up(kind, uniform(0, len(self.node), np.int64), 1, self.weight)
        untimed = replace(self, timed=False, ranges=NO_RANGES, across=NO_ACROSS)
        return untimed.with_sums(sums, uniform(0, len(sums), np.int64))

    def with_sums(self, sums: MomentSums, time_ns: Int64) -> FlameData:
        """The same with sums of samples that agree in all but weight and time."""
        of_samples: dict[str, Any] = {
            name: taken(getattr(self, name), sums.row) for name in ("node", "event", "cause", "likely", "thread")
        }
        return replace(self, **of_samples, weight=sums.weight, time_ns=time_ns)

    def columns(self) -> list[tuple[str, NDArray[np.generic]]]:
        """(column, values) as the page reads them: times in µs, increasing ones as differences."""
        stacks, stack = np.unique(self.node, return_inverse=True)
        none = np.zeros(0, np.int32)
        return [
            ("frameName", self.frame_name),
            ("frameDso", self.frame_dso),
            ("frameKind", self.frame_kind),
            ("depth", np.diff(self.depth, prepend=np.int16(0))),
            ("frame", self.node_frame),
            ("decided", self.decided),
            ("leaf", np.diff(stacks, prepend=np.int32(0))),
            ("stack", stack.reshape(-1)),
            ("event", self.event),
            ("cause", self.cause),
            ("likely", self.likely),
            ("thread", self.thread),
            ("weight", self.weight),
            ("time", np.diff(self.time_ns // 1000, prepend=np.int64(0)) if self.timed else np.zeros(0, np.int64)),
            ("rangePath", self.ranges.path),
            ("rangeFirst", self.ranges.first),
            ("rangeLast", self.ranges.last),
            ("waitSample", np.diff(self.across.sample, prepend=np.int32(0))),
            ("waitStart", np.diff(self.across.start_ns, prepend=np.int64(0))),
            ("waitProcess", self.across.process),
            ("scopePath", self.across.path),
            ("scopeStart", np.diff(self.across.scope_start_ns, prepend=np.int64(0))),
            ("scopeLength", self.across.scope_length_ns),
            ("scopeOwner", self.across.owner),
            ("opportunity", np.repeat(np.arange(len(self.opportunities)), [len(one) for one in self.opportunities])),
            ("opportunityNode", np.diff(np.concatenate([none, *self.opportunities]), prepend=np.int32(0))),
        ]

    @cached_property
    def packed(self) -> tuple[Layout, str]:
        """As `pack_columns`."""
        return pack_columns(self.columns())


def pack_columns(columns: Iterable[tuple[str, NDArray[np.generic]]]) -> tuple[Layout, str]:
    """([column, JavaScript type, length], gzip + base64).

    Each column lies byte plane by byte plane: high bytes are mostly zeros, and zeros side by side compress best.
    """
    layout, planes = [], []
    for name, values in columns:
        kind, typed = _narrowed(values)
        layout.append((name, kind, len(values)))
        planes.append(typed.view(np.uint8).reshape(len(values), typed.itemsize).T.tobytes())
    return layout, pack(b"".join(planes))


def _narrowed(values: NDArray[np.generic]) -> tuple[str, NDArray[np.generic]]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind, code in _KINDS:
        limits = np.iinfo(code)
        if limits.min <= low and high <= limits.max:
            return kind, np.ascontiguousarray(values.astype(code))
    return "Float64", np.ascontiguousarray(values.astype("<f8"))


def pack(raw: bytes) -> str:
    """Compress and write as base64, without a timestamp so that the same report gives the same bytes."""
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")


def pack_strings(strings: Iterable[str]) -> str:
    """A JSON array, packed."""
    return pack(json.dumps(list(strings), ensure_ascii=False).encode("utf-8", "replace"))
