"""The merged call tree of one event: what flamegraphs, folded stacks and the terminal's tree are drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.categories import CATEGORIES
from pinprof.analyze.ranges import belongs
from pinprof.analyze.results import Analysis
from pinprof.model import NO_NODE, FrameTable, Int16, Int32, Int64

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class CallTree:
    """Merged callchains as columns, parents before children; nodes without weight are left out.

    The sum of `self_weight` plus `no_stack` is the event's total.
    """

    parent: Int32
    """NO_NODE for roots (outermost frames)."""
    frame: Int32
    """Index into `frames`."""
    self_weight: Int64
    total_weight: Int64
    """Own weight and that of everything called."""
    leaf: Int16
    """The cause with most weight in the node's subtree, index into `CATEGORIES`."""
    self_leaf: Int16
    """The cause with most of the node's own weight; -1 for a node without any."""
    decided: Int32
    """The node whose frame decided the own cause; NO_NODE when unknown or no own weight."""
    frames: FrameTable
    no_stack: int
    """Weight of samples without callchain."""

    def __len__(self) -> int:
        return len(self.parent)

    def children(self) -> dict[int, list[int]]:
        """Node → its children, heaviest first; NO_NODE → the roots."""
        found: dict[int, list[int]] = {}
        for node in np.argsort(-self.total_weight, kind="stable").tolist():
            found.setdefault(int(self.parent[node]), []).append(node)
        return found

    def walk(self) -> Iterator[tuple[int, int]]:
        """(node, depth) in drawing order: callers before callees, heavier siblings first."""
        children = self.children()
        waiting = [(node, 0) for node in reversed(children.get(NO_NODE, []))]
        while waiting:
            node, depth = waiting.pop()
            yield node, depth
            waiting += [(child, depth + 1) for child in reversed(children.get(node, []))]


def build_tree(analysis: Analysis, event_index: int, mask: Bool | None = None) -> CallTree:
    """The call tree of one event, over all samples or those that `mask` selects (per sample)."""
    samples, stacks = analysis.capture.samples, analysis.capture.stacks
    chosen = samples.event == event_index
    if mask is not None:
        chosen &= mask
    node, leaf, weight = samples.stack[chosen], analysis.attribution.leaf[chosen], samples.weight[chosen]
    stacked = node != NO_NODE
    no_stack = int(weight[~stacked].sum())
    node, leaf, weight = node[stacked], leaf[stacked], weight[stacked]

    levels = list(stacks.levels())
    own = np.zeros(len(stacks), np.int64)
    np.add.at(own, node, weight)
    total = _subtree(own, levels, stacks.parent)
    dominant, heaviest = np.full(len(stacks), -1, np.int16), np.zeros(len(stacks), np.int64)
    self_leaf, own_heaviest = np.full(len(stacks), -1, np.int16), np.zeros(len(stacks), np.int64)
    for present in np.unique(leaf).tolist():
        of_leaf = np.zeros(len(stacks), np.int64)
        np.add.at(of_leaf, node[leaf == present], weight[leaf == present])
        more = of_leaf > own_heaviest
        self_leaf[more], own_heaviest[more] = present, of_leaf[more]
        below = _subtree(of_leaf, levels, stacks.parent)
        more = below > heaviest
        dominant[more], heaviest[more] = present, below[more]

    kept = np.flatnonzero(total > 0)
    number = np.full(len(stacks) + 1, NO_NODE, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    decided = np.where(self_leaf[kept] >= 0, number[analysis.attribution.decided[kept]], NO_NODE)
    return CallTree(
        parent=number[stacks.parent[kept]],
        frame=stacks.frame[kept],
        self_weight=own[kept],
        total_weight=total[kept],
        leaf=dominant[kept],
        self_leaf=self_leaf[kept],
        decided=decided.astype(np.int32),
        frames=stacks.frames,
        no_stack=no_stack,
    )


def in_range(analysis: Analysis, name: str, domain: str | None = None) -> Bool:
    """Samples inside any range of this name, counted as its range result counts them, as a mask for `build_tree`."""
    ranges, samples = analysis.capture.ranges, analysis.capture.samples
    named = np.array(
        [own == name and domain in (None, other) for own, other in zip(ranges.name, ranges.domain, strict=True)],
        np.bool_,
    )
    inside = np.zeros(len(samples), np.bool_)
    for pid in np.unique(ranges.pid[named]).tolist():
        mine = named & (ranges.pid == pid)
        edges = np.zeros(len(samples) + 1, np.int64)
        np.add.at(edges, np.searchsorted(samples.time_ns, ranges.start_ns[mine], "left"), 1)
        np.add.at(edges, np.searchsorted(samples.time_ns, ranges.end_ns[mine], "left"), -1)
        counted = belongs(analysis.capture, pid)
        inside |= (np.cumsum(edges[:-1]) > 0) & counted
    return inside


def cause(tree: CallTree, node: int) -> str:
    """Name of the dominant leaf of a node."""
    return CATEGORIES[int(tree.leaf[node])].name


def _subtree(own: Int64, levels: list[Int32], parent: Int32) -> Int64:
    total = own.copy()
    for nodes in reversed(levels[1:]):
        np.add.at(total, parent[nodes], total[nodes])
    return total
