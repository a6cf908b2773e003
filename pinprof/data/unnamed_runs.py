"""Runs of frames without a name: nine `[libcuda.so.1]` in a row, which reports show as `[libcuda.so.1] × 9`.

Where a library has no symbols, all its functions have the library's name. Analysis reads every frame (what polls shares
a caller with what reads the clock), so runs of a file that pinprof wrote are taken apart when it is read.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pinprof.base.columns import Int32, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Capture, StackTable

_COUNTED = re.compile(r"(\[[^\[\]]+\]) × (\d{1,4})")
_MOST_NODES, _DEEPEST = 1 << 24, 4096
"""Stack nodes, and frames of a stack, that runs of a file are taken apart to; a forged one would have more."""


@dataclass(frozen=True)
class UnnamedRuns:
    """The runs of a stack table, as columns of its length."""

    within: Int64
    """The nodes that go on with the run of their parent."""
    head: Int32
    """Per node the outermost node of its run."""
    length: Int32
    """Per node the frames from there to it."""


def runs_of(stacks: StackTable) -> UnnamedRuns | None:
    """Its runs, by jumps of doubling length; None where it has none."""
    parent, frames = stacks.parent, stacks.frames
    unnamed = np.array([symbol.startswith("[") and symbol.endswith("]") for symbol in frames.function], np.bool_)
    # Most tables have many nodes and few of them, or none, without a name.
    within = np.flatnonzero(unnamed[stacks.frame]) if unnamed.any() else np.zeros(0, np.int64)
    within = within[(parent[within] != NO_NODE) & (stacks.frame[within] == stacks.frame[parent[within]])]
    if not within.size:
        return None
    head = np.arange(len(parent), dtype=np.int32)
    length = np.ones(len(parent), np.int32)
    head[within] = parent[within]
    length[within] = 2
    ahead = within
    while ahead.size:
        # The node that was jumped to counts in both lengths.
        far = head[ahead]
        ahead, far = ahead[head[far] != far], far[head[far] != far]
        length[ahead] = length[ahead] + length[far] - 1
        head[ahead] = head[far]
    return UnnamedRuns(within, head, length)


def as_single_frames(stacks: StackTable, ends: Int32) -> tuple[StackTable, Int32]:
    """The table with the outermost frame of each run alone, and where stacks end in it that end at these nodes."""
    runs = runs_of(stacks)
    if runs is None:
        return stacks, ends
    outermost = runs.head == np.arange(len(stacks))
    node = np.append((np.cumsum(outermost, dtype=np.int32) - 1)[runs.head], np.int32(NO_NODE))
    return StackTable(node[stacks.parent[outermost]], stacks.frame[outermost], stacks.frames), node[ends]


def with_runs_apart(capture: Capture) -> Capture:
    """The capture with each frame of a run by itself, where an export of pinprof had them as one."""
    stacks, frames = capture.stacks, capture.stacks.frames
    counted = {number: match for number, name in enumerate(frames.function) if (match := _COUNTED.fullmatch(name))}
    if not counted:
        return capture
    count = np.ones(len(frames), np.int64)
    count[list(counted)] = [max(int(match[2]), 1) for match in counted.values()]
    many = count[stacks.frame]
    last = np.cumsum(many) - 1
    if not len(last) or last[-1] >= _MOST_NODES or _longest(stacks.parent, many) > _DEEPEST:
        return capture
    # The frames of a run follow each other: all but the first are called by the one before.
    parent = np.arange(-1, last[-1], dtype=np.int32)
    parent[last - many + 1] = np.append(last, NO_NODE)[stacks.parent]
    symbols = tuple(counted[number][1] if number in counted else name for number, name in enumerate(frames.function))
    first: dict[tuple[str, int, int, bool], int] = {}
    inlined = [number in frames.inlined for number in range(len(frames))]
    rows = zip(symbols, frames.dso.tolist(), frames.mode.tolist(), inlined, strict=True)
    same = np.array([first.setdefault(row, number) for number, row in enumerate(rows)], np.int32)
    table, node = StackTable(parent, same[np.repeat(stacks.frame, many)], replace(frames, function=symbols)).merged()
    stack = np.append(node[last], np.int32(NO_NODE))[capture.samples.stack]
    return replace(capture, samples=replace(capture.samples, stack=stack), stacks=table)


def _longest(parent: Int32, many: Int64) -> int:
    """The frames of the longest stack whose nodes stand for a number of frames each; by jumps of doubling length."""
    ancestor, length = np.append(parent, np.int32(NO_NODE)), np.append(many, 0)
    while (ancestor != NO_NODE).any():
        length += length[ancestor]
        ancestor = ancestor[ancestor]
    return int(length.max())
