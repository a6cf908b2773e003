"""The heavy part of one event's call tree, for the terminal: few nodes, each with its leading cause."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.groups import add_at
from pinprof.base.columns import ascending, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Int16, Int32, Int64, UInt8
from pinprof.report.flame import FlameData

NO_CAUSE = -1
"""Leaf of a node without weight."""

SMALLEST_SHARE = 0.01
"""Functions below this part of the event are left out."""


@dataclass(frozen=True)
class HotTree:
    """Nodes of at least `SMALLEST_SHARE`, callers before callees, siblings by descending weight; node 0 holds all."""

    event: int
    """Index into `Shared.events`."""
    parent: Int32
    """-1 for node 0."""
    name: Int32
    """Index into `FlameData.names`; that of node 0 is the root's."""
    leaf: Int16
    """Index into `Shared.causes` of the cause of most of the node's total; NO_CAUSE for none."""
    purity: UInt8
    """Percentage of the total, rounded down, that this cause makes up."""
    total_weight: Int64

    def __len__(self) -> int:
        return len(self.parent)


def hot_trees(data: FlameData, events: int) -> tuple[HotTree, ...]:
    """One tree per event with weight. In preorder a subtree is a slice: every total is one difference of sums."""
    parent, ends = data.links()
    return tuple(tree for event in range(events) if (tree := _hot_tree(data, event, parent, ends)))


def _hot_tree(data: FlameData, event: int, parent: Int32, ends: Int32) -> HotTree | None:
    counted = (data.event == event) & (data.weight > 0)
    if not counted.any():
        return None
    size = len(data.depth)

    def running(cause: int | None = None) -> Int64:
        """The sums of the nodes before each, and of all."""
        own = np.zeros(size + 1, np.int64)
        for part in slices(len(counted)):
            chosen = counted[part] if cause is None else counted[part] & (data.cause[part] == cause)
            add_at(own, data.node[part][chosen] + 1, data.weight[part][chosen])
        return np.cumsum(own)

    sums = running()
    total, whole = sums[ends] - sums[:-1], int(sums[-1])
    hot = np.flatnonzero(total >= max(1, SMALLEST_SHARE * whole)).astype(np.int32)
    hot = hot[np.lexsort((hot, -total[hot], data.depth[hot]))]
    best, most = np.full(len(hot) + 1, NO_CAUSE, np.int16), np.zeros(len(hot) + 1, np.int64)
    for present in ascending(data.cause[counted]).tolist():
        sums = running(present)
        here = np.concatenate([sums[-1:], sums[ends[hot]] - sums[hot]])
        better = here > most
        best[better], most[better] = present, here[better]
    totals = np.concatenate([[whole], total[hot]]).astype(np.int64)
    number = np.zeros(size + 1, np.int32)
    number[hot] = np.arange(1, len(hot) + 1, dtype=np.int32)
    return HotTree(
        event=event,
        parent=np.concatenate([[-1], np.where(parent[hot] == NO_NODE, 0, number[parent[hot]])]).astype(np.int32),
        name=np.concatenate([[0], data.frame_name[data.node_frame[hot]]]).astype(np.int32),
        leaf=best,
        purity=np.floor(100.0 * most / np.maximum(totals, 1)).astype(np.uint8),
        total_weight=totals,
    )
