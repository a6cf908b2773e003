"""Runs of frames without a name as one frame: nine `[libcuda.so.1]` in a row read `[libcuda.so.1] × 9`.

Where a library has no symbols, all its functions have the library's name. A stack of nine of them says no more than one
and their number. Attribution reads every frame (what polls shares a caller with what reads the clock), so runs become
one frame behind it, and those of a file that pinprof wrote are taken apart before it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pinprof.base.columns import Bool, Int32, Int64, pack, pairs_of, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Capture, FrameTable, StackTable

_COUNTED = re.compile(r"(\[[^\[\]]+\]) × (\d{1,4})")
_MOST_NODES, _DEEPEST = 1 << 24, 4096
"""Stack nodes, and frames of a stack, that runs of a file are taken apart to; a forged one would have more."""


@dataclass(frozen=True)
class JoinedRuns:
    """A stack table whose runs are one frame each; columns of the length of the table that it comes from."""

    table: StackTable
    node: Int32
    """Old node → new node; NO_NODE inside a run, where no sample ends and nothing else is called."""
    _origin: StackTable
    _head: Int32
    _kept: Int32

    def carried(self, ancestor: Int32) -> Int32:
        """Per new node the new place of what `ancestor` says of its old one: a node between it and its root."""
        here, wanted = self._kept.copy(), ancestor[self._kept]
        head = np.append(self._head, np.int32(NO_NODE))
        away = np.flatnonzero((wanted != NO_NODE) & (head[here] != head[wanted]))
        while away.size:
            here[away] = self._origin.parent[head[here[away]]]
            away = away[head[here[away]] != head[wanted[away]]]
        return np.where(wanted == NO_NODE, np.int32(NO_NODE), self.node[here])


def are_runs(frames: FrameTable) -> Bool:
    """Per frame, whether it stands for a run."""
    return np.array([_COUNTED.fullmatch(symbol) is not None for symbol in frames.function], np.bool_)


def join_runs(stacks: StackTable, *ends: Int32) -> JoinedRuns | None:
    """The table with its runs as one frame; None where it has none. `ends` are the nodes at which samples end."""
    parent, frames = stacks.parent, stacks.frames
    unnamed = np.array([symbol.startswith("[") and symbol.endswith("]") for symbol in frames.function], np.bool_)
    # Most tables have many nodes and few of them, or none, without a name.
    within = np.flatnonzero(unnamed[stacks.frame]) if unnamed.any() else np.zeros(0, np.int64)
    within = within[(parent[within] != NO_NODE) & (stacks.frame[within] == stacks.frame[parent[within]])]
    if not within.size:
        return None
    head, length = _runs(parent, within)
    # Inside is what a run goes on from, unless something else is called there, or a sample ends.
    goes_on, inside = np.zeros(len(parent), np.bool_), np.zeros(len(parent) + 1, np.bool_)
    goes_on[within] = True
    inside[parent[within]] = True
    inside[parent[~goes_on]] = False
    for nodes in ends:
        for part in slices(len(nodes)):
            inside[nodes[part]] = False
    kept = np.flatnonzero(~inside[:-1]).astype(np.int32)
    node = np.full(len(parent) + 1, NO_NODE, np.int32)
    node[kept] = np.arange(len(kept), dtype=np.int32)
    frame, many = stacks.frame[kept], length[kept]
    ended = np.flatnonzero(many > 1)
    counted, which = np.unique(pack(frame[ended], many[ended]), return_inverse=True)
    runs = pairs_of(counted)
    of_run, names = [own for own, _ in runs], [f"{frames.function[own]} × {count}" for own, count in runs]
    frame[ended] = len(frames) + which.reshape(-1)
    table = StackTable(
        node[parent[head[kept]]],
        frame,
        FrameTable(
            (*frames.function, *names),
            np.append(frames.dso, frames.dso[of_run]),
            np.append(frames.mode, frames.mode[of_run]),
            frames.dsos,
            (*frames.source, *[""] * len(runs)) if frames.source else (),
            frames.inlined,
            (*frames.line, *[0] * len(runs)) if frames.line else (),
        ),
    )
    return JoinedRuns(table, node[:-1], stacks, head, kept)


def _runs(parent: Int32, within: Int64) -> tuple[Int32, Int32]:
    """Per node the outermost node of its run, and the frames from there to it; by jumps of doubling length.

    `within` are the nodes that go on with the run of their parent.
    """
    head = np.arange(len(parent), dtype=np.int32)
    length = np.ones(len(parent), np.int32)
    head[within] = parent[within]
    length[within] = 2
    while within.size:
        # The node that was jumped to counts in both lengths.
        far = head[within]
        within, far = within[head[far] != far], far[head[far] != far]
        length[within] = length[within] + length[far] - 1
        head[within] = head[far]
    return head, length


def with_runs_joined(capture: Capture) -> tuple[Capture, JoinedRuns | None]:
    """The capture with its runs as one frame, and how its nodes have moved; None where it has no runs."""
    ends = [capture.samples.stack, *([capture.wakeups.stack] if capture.wakeups is not None else [])]
    joined = join_runs(capture.stacks, *ends)
    if joined is None:
        return capture, None
    place = np.append(joined.node, np.int32(NO_NODE))
    node = place[capture.samples.stack]
    capture = replace(capture, samples=replace(capture.samples, stack=node), stacks=joined.table)
    if capture.wakeups is not None:
        capture = replace(capture, wakeups=replace(capture.wakeups, stack=place[capture.wakeups.stack]))
    return capture, joined


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
