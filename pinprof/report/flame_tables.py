"""Run → FlameData: the capture's stacks in preorder, its samples, threads and the samples of each range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from pinprof.analyze import Run
from pinprof.analyze.ranges.spans import across
from pinprof.base.columns import distinct, looked_up, put_together, slices, uniform
from pinprof.data.model import KERNEL, NO_NODE, Bool, FrameTable, Int16, Int32, StackTable
from pinprof.report.flame import (
    EVERY_RANGE,
    KERNEL_CODE,
    MODULE_CODE,
    NO_ACROSS,
    NO_RANGES,
    ROOT,
    USER_CODE,
    AcrossRows,
    FlameData,
    RangeRows,
)  # fmt: skip
from pinprof.report.joined_frames import JoinedFrames
from pinprof.report.names import NO_CALLCHAIN
from pinprof.report.threads import numbered_threads, thread_numbers

_Value = TypeVar("_Value")
_MOST_RUNS = 20_000_000
"""Runs of samples in ranges that memory shall hold."""
MOST_ACROSS = 100_000
"""With more waits that reach across edges of ranges, or more intervals of these, each counts where it begins."""


class Numbered(Generic[_Value]):
    """Values that are each kept once, in the order of their numbers (`index`)."""

    def __init__(self, *first: _Value) -> None:
        self.index: dict[_Value, int] = {}
        for value in first:
            self.add(value)

    def add(self, value: _Value) -> int:
        """The number of a value, a new one for a new value."""
        return self.index.setdefault(value, len(self.index))


def flame_data(analysis: Run, shown: JoinedFrames, row_of: Int32) -> FlameData | None:
    """The flamegraph's columns; None for a capture without samples. `row_of` is `ShownRanges.place`."""
    capture = shown.capture
    samples, stacks = capture.samples, capture.stacks
    if not samples.weight.any():
        return None
    names, dsos = Numbered(ROOT), Numbered("")
    depth, place, order = preorder(stacks, samples.stack)
    kept = np.flatnonzero(np.bincount(stacks.frame[order], minlength=1)) if len(order) else np.zeros(0, np.int64)
    number = np.zeros(len(stacks.frames) + 1, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    name, dso, kind = _frames(stacks.frames, kept.tolist(), names, dsos)
    node = looked_up(place, samples.stack)
    node_frame, decided = (
        number[stacks.frame[order]],
        _callers_up(shown.carried(analysis.attribution.decided), depth, place, order),
    )
    if any(bool((samples.stack[part] == NO_NODE).any()) for part in slices(len(node), samples.stack)):
        # Samples without callchain end in a function of their own, after all others.
        node = looked_up(np.append(place[:-1], np.int32(len(depth))), samples.stack)
        depth, decided = np.append(depth, np.int16(0)), np.append(decided, np.int16(-1))
        node_frame = np.append(node_frame, np.int32(len(name)))
        name, dso, kind = [*name, names.add(NO_CALLCHAIN)], [*dso, 0], [*kind, USER_CODE]
    threads, thread = numbered_threads(capture, sampled=True), capture.thread
    if len(threads) < len(capture.sampled_threads):
        numbers = thread_numbers(capture)
        thread = looked_up(np.array([numbers[pair] for pair in capture.sampled_threads], np.int32), thread)
    timed = capture.clock.source != "none"
    start = int(samples.time_ns[0]) if timed else 0
    times = (samples.time_ns[part] - start for part in slices(len(samples), samples.time_ns))
    data = FlameData(
        frame_name=np.array(name, np.int32),
        frame_dso=np.array(dso, np.int32),
        frame_kind=np.array(kind, np.uint8),
        depth=depth,
        node_frame=node_frame,
        decided=decided,
        node=node,
        event=put_together((samples.event[part] for part in slices(len(node), samples.event)), len(node), np.uint8),
        cause=analysis.attribution.leaf,
        likely=analysis.attribution.heuristic.view(np.uint8),
        thread=thread,
        weight=samples.weight,
        time_ns=put_together(times, len(node), np.int64) if timed else uniform(0, len(node), np.int64),
        threads=threads,
        timed=timed,
        ranges=_range_rows(analysis, row_of),
        across=_across_rows(analysis, row_of, start),
        start_ns=start,
        names=tuple(names.index),
        dsos=tuple(dsos.index),
        opportunities=tuple(_opportunity_nodes(analysis, shown, place)),
    )
    return data if timed else data.merged()


def _opportunity_nodes(analysis: Run, shown: JoinedFrames, place: Int32) -> Iterator[Int32]:
    for opportunity in analysis.opportunities.found if analysis.opportunities else ():
        nodes = place[shown.nodes(np.fromiter(opportunity.samples, np.int32, len(opportunity.samples)))]
        yield np.sort(nodes[nodes != NO_NODE])


def preorder(stacks: StackTable, used: Int32) -> tuple[Int16, Int32, Int32]:
    """The nodes that `used` nodes and their callers are, in preorder: (depth, old node → place, place → old node).

    `place` has one more element, read by NO_NODE; nodes left out have NO_NODE there.
    """
    parent = stacks.parent
    kept = np.zeros(len(stacks) + 1, np.bool_)
    kept[NO_NODE] = True
    front = distinct(used)
    while (front := front[~kept[front]]).size:
        kept[front] = True
        front = parent[front]
    nodes = np.flatnonzero(kept[:-1]).astype(np.int32)
    depth = _depth(parent, kept[:-1])
    order = nodes[np.argsort(depth[nodes], kind="stable")]
    bounds = np.searchsorted(depth[order], np.arange(int(depth[nodes].max(initial=-1)) + 2))
    levels = [order[first:last] for first, last in pairwise(bounds)]
    size = np.ones(len(stacks), np.int32)
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    place = np.full(len(stacks) + 1, NO_NODE, np.int32)
    for level in levels:
        level = level[np.lexsort((-size[level], parent[level]))]
        before = np.cumsum(size[level]) - size[level]
        eldest = np.flatnonzero(np.diff(parent[level], prepend=-2))
        family = np.repeat(before[eldest], np.diff(np.append(eldest, len(level))))
        place[level] = place[parent[level]] + 1 + before - family
    back = np.empty(len(nodes), np.int32)
    back[place[nodes]] = nodes
    return depth[back], place, back


def _depth(parent: Int32, kept: Bool) -> Int16:
    """Ancestors of each node, counted by jumps of doubling length."""
    depth: Int16 = (parent != NO_NODE).astype(np.int16)
    jump = np.where(kept, parent, NO_NODE)
    while (far := np.flatnonzero(jump != NO_NODE)).size:
        depth[far] += depth[jump[far]]
        jump[far] = jump[jump[far]]
    return depth


def _frames(
    frames: FrameTable, kept: list[int], names: Numbered[str], dsos: Numbered[str]
) -> tuple[list[int], list[int], list[int]]:
    name, dso, kind = [], [], []
    for index in kept:
        origin = frames.dsos[int(frames.dso[index])]
        name.append(names.add(frames.symbol[index]))
        dso.append(dsos.add(origin.name))
        code = MODULE_CODE if origin.kind == "module" else KERNEL_CODE
        kind.append(code if int(frames.mode[index]) == KERNEL else USER_CODE)
    return name, dso, kind


def _callers_up(decided: Int32, depth: Int16, place: Int32, order: Int32) -> Int16:
    where = np.where(decided[order] == NO_NODE, NO_NODE, place[decided[order]])
    callers: Int16 = np.where(where == NO_NODE, -1, depth - depth[where]).astype(np.int16)
    return callers


def _range_rows(analysis: Run, row_of: Int32) -> RangeRows:
    capture = analysis.capture
    if not len(capture.ranges) or not len(capture.samples):
        return NO_RANGES
    runs: list[tuple[Int32, ...]] = []
    shown = analysis.members.of_samples.only(row_of >= 0)
    for inside, row in shown.inside(analysis.members.samples):
        fresh = np.flatnonzero(np.append(len(row) > 0, (np.diff(inside) != 0) | (np.diff(row) != 1))[: len(row)])
        last = np.append(fresh[1:], len(row))[: len(fresh)] - 1
        runs.append((row_of[inside[fresh]], row[fresh].astype(np.int32), (row[last] + 1).astype(np.int32)))
        if sum(len(run[0]) for run in runs) > _MOST_RUNS:
            return NO_RANGES
    path, first, end = (np.concatenate(column) for column in zip(*runs, strict=True))
    return RangeRows(path, first, end)


def _across_rows(analysis: Run, row_of: Int32, start: int) -> AcrossRows:
    samples, events = analysis.capture.samples, analysis.members.samples
    sample = np.flatnonzero(across(analysis.capture)) if (row_of >= 0).any() else np.zeros(0, np.int64)
    if not len(sample):
        return NO_ACROSS
    scopes = analysis.members.of_samples.only(row_of >= 0)
    if max(len(sample), len(scopes.path)) > MOST_ACROSS:
        return replace(NO_ACROSS, whole=False)
    process = samples.pid[sample]
    if events.kernel_thread is not None:
        process = np.where(events.kernel_thread[sample], EVERY_RANGE, process)
    return AcrossRows(
        sample.astype(np.int32), samples.time_ns[sample] - start, process.astype(np.int32),
        row_of[scopes.path], scopes.start_ns - start, scopes.end_ns - scopes.start_ns, scopes.owner.astype(np.int32),
    )  # fmt: skip
