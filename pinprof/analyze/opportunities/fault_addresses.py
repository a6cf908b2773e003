"""What lies at the addresses of page faults: samples of time have none, but recorded faults from the same place do."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import ascending
from pinprof.base.units import format_counted
from pinprof.data.mapped import WORDS, Mapped
from pinprof.data.model import KERNEL, NO_NODE, Int32, Int64, StackTable

MOST = 0.5
"""From more than this share of the recorded faults on, a place's faults are of that kind."""

UNKNOWN = "The recording does not say what is mapped at the addresses of these faults"


def mapped_at(scene: Scene, rows: Int64) -> Mapping[Mapped, int]:
    """The recorded faults of some wall rows by what their addresses lie in, UNKNOWN included; the faults are those of
    the same callers in the program, or else of the same places. Empty where no address was recorded there.
    """
    samples = scene.capture.samples
    if samples.mapped is None:
        return {}
    addressed = np.flatnonzero(samples.address > 0)
    theirs, ours = samples.stack[addressed], ascending(scene.node[rows])
    stacks = scene.capture.stacks
    mine = np.isin(_in_program(stacks, theirs), np.setdiff1d(_in_program(stacks, ours), [NO_NODE]))
    if not mine.any():
        mine = np.isin(scene.sites.frames(theirs), ascending(scene.place[rows]))
    kinds, counts = np.unique(samples.mapped[addressed[mine]], return_counts=True)
    return {Mapped(kind): count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)}


def mostly(found: Mapping[Mapped, int], kinds: Collection[Mapped]) -> bool:
    """Whether most of these faults lie in mappings of some kinds."""
    return sum(found.get(kind, 0) for kind in kinds) > MOST * sum(found.values())


def sentence(found: Mapping[Mapped, int]) -> str:
    """What is known of the addresses; empty where none was recorded."""
    known = {kind: count for kind, count in found.items() if kind != Mapped.UNKNOWN}
    if not known:
        return ""
    kind = max(known, key=lambda one: known[one])
    faults = format_counted(sum(found.values()), "recorded page fault", "recorded page faults")
    return f"Of {faults} here, {known[kind]:,} lie in {WORDS[kind]}."


def _in_program(stacks: StackTable, nodes: Int32) -> Int32:
    """Per node the innermost one on its chain that is the program's; NO_NODE where all are the kernel's."""
    kernel = np.append(stacks.frames.mode[stacks.frame] == KERNEL, False)
    parent = np.append(stacks.parent, np.int32(NO_NODE))
    nodes = nodes.copy()
    while (inside := kernel[nodes]).any():
        nodes[inside] = parent[nodes[inside]]
    return nodes
