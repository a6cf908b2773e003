"""Runs of frames without a name are shown as one frame: nine `[libcuda.so.1]` in a row read `[libcuda.so.1] × 9`.

A stack of nine of them says no more than one and their number. Analysis reads every frame; what shows or writes stacks
joins them here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

from pinprof.base.columns import Int32, looked_up, numbered_pairs, pairs_of, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Capture, FrameTable, StackTable
from pinprof.data.unnamed_runs import UnnamedRuns, runs_of

_MOST_NAMED = 40


@dataclass(frozen=True)
class JoinedFrames:
    """A capture's stacks whose runs are one frame each."""

    capture: Capture
    """The one with such stacks; as it was recorded where it has no runs, or all frames are wanted."""
    _origin: StackTable
    _head: Int32
    _kept: Int32
    _node: Int32

    def nodes(self, recorded: Int32) -> Int32:
        """The nodes of `capture` for recorded ones at which samples end, or that woke a thread."""
        return self._node[recorded] if len(self._node) else recorded

    def names(self, node: int) -> list[str]:
        """The functions of a recorded stack, innermost first."""
        stacks = self.capture.stacks
        chain = stacks.chain(int(self.nodes(np.array([node], np.int32))[0]))
        return [stacks.frames.symbol[int(stacks.frame[one])] for one in islice(chain, _MOST_NAMED)]

    def carried(self, ancestor: Int32) -> Int32:
        """Per node the place of what `ancestor` says of its old one: a node between it and its root."""
        if not len(self._node):
            return ancestor
        here, wanted = self._kept.copy(), ancestor[self._kept]
        head = np.append(self._head, np.int32(NO_NODE))
        away = np.flatnonzero((wanted != NO_NODE) & (head[here] != head[wanted]))
        while away.size:
            here[away] = self._origin.parent[head[here[away]]]
            away = away[head[here[away]] != head[wanted[away]]]
        return np.where(wanted == NO_NODE, np.int32(NO_NODE), self._node[here])


def with_frames_joined(capture: Capture, *, all_frames: bool = False) -> JoinedFrames:
    """The capture's stacks as reports show them; every frame by itself if `all_frames`."""
    runs = None if all_frames else runs_of(capture.stacks)
    if runs is None:
        none = np.zeros(0, np.int32)
        return JoinedFrames(capture, capture.stacks, none, none, none)
    ends = [capture.samples.stack, *([capture.wakeups.stack] if capture.wakeups is not None else [])]
    kept = _kept(capture.stacks, runs, ends)
    node = np.full(len(capture.stacks) + 1, NO_NODE, np.int32)
    node[kept] = np.arange(len(kept), dtype=np.int32)
    joined = replace(
        capture,
        samples=replace(capture.samples, stack=looked_up(node, capture.samples.stack)),
        stacks=_joined(capture.stacks, runs, kept, node),
        wakeups=capture.wakeups and replace(capture.wakeups, stack=node[capture.wakeups.stack]),
    )
    return JoinedFrames(joined, capture.stacks, runs.head, kept, node)


def as_shown(capture: Capture, *, all_frames: bool = False) -> Capture:
    """The capture with its stacks as reports show them."""
    return with_frames_joined(capture, all_frames=all_frames).capture


def _kept(stacks: StackTable, runs: UnnamedRuns, ends: list[Int32]) -> Int32:
    """The nodes that remain: a run goes on from all others, no sample ends there and nothing else is called."""
    goes_on, inside = np.zeros(len(stacks), np.bool_), np.zeros(len(stacks) + 1, np.bool_)
    goes_on[runs.within] = True
    inside[stacks.parent[runs.within]] = True
    inside[stacks.parent[~goes_on]] = False
    for nodes in ends:
        for part in slices(len(nodes), nodes):
            inside[nodes[part]] = False
    return np.flatnonzero(~inside[:-1]).astype(np.int32)


def _joined(stacks: StackTable, runs: UnnamedRuns, kept: Int32, node: Int32) -> StackTable:
    frames, frame, many = stacks.frames, stacks.frame[kept], runs.length[kept]
    ended = np.flatnonzero(many > 1)
    counted, which = numbered_pairs(frame[ended], many[ended])
    pairs = pairs_of(counted)
    of_run, names = [own for own, _ in pairs], [f"{frames.function[own]} × {count}" for own, count in pairs]
    frame[ended] = len(frames) + which
    return StackTable(
        node[stacks.parent[runs.head[kept]]],
        frame,
        FrameTable(
            (*frames.function, *names),
            np.append(frames.dso, frames.dso[of_run]),
            np.append(frames.mode, frames.mode[of_run]),
            frames.dsos,
            (*frames.source, *[""] * len(pairs)) if frames.source else (),
            frames.inlined,
            (*frames.line, *[0] * len(pairs)) if frames.line else (),
        ),
    )
