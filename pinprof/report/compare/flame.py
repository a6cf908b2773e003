"""A comparison's stacks as the columns of the page's flamegraph.

The engine takes runs for threads and adds up a side's runs itself (`assets/engine/change.js`), so every view of the
page, filtered or turned round, knows both weights of what it shows and how much runs vary there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.columns import Float64, Int32, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import threshold
from pinprof.compare.results import ComparedFrames, ComparedStacks, Difference, Side
from pinprof.compare.rows import FROM_RECORDING, LEAST_SAMPLES
from pinprof.compare.stacks import NO_FRAMES, summed
from pinprof.compare.surroundings import RECORDERS, SAMPLING
from pinprof.data.model import KERNEL, NO_NODE, StackTable
from pinprof.report.flame import KERNEL_CODE, MODULE_CODE, ROOT, USER_CODE, FlameData, Layout, Thread, pack_columns
from pinprof.report.flame_tables import Numbered, preorder

MOST_ROWS = 400_000
"""What a page carries; above it, the lightest stacks end in their callers."""
_LIGHT = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Shares of an event below which a node is light, tried one after the other."""
_PROGRAM = "the program"
"""Stands for the program's own file, whose name may differ from side to side."""


@dataclass(frozen=True)
class ComparedFlame:
    """Everything that the flamegraph of a comparison shows."""

    data: FlameData
    """Its threads are the runs: those before, then those after."""
    count: Int64
    """Per sample of `data`, how many samples were recorded for it."""
    events: tuple[tuple[str, str], ...]
    """(name, unit), in the order of `FlameData.event`."""
    formerly: dict[int, str]
    """Function → its name before, where both sides call it by different ones."""
    sides: tuple[int, ...]
    """Per run 0 before, 1 after."""
    scales: tuple[tuple[float, ...], ...]
    """Per event and run, what makes weights those of a unit of work."""
    tests: tuple[dict[str, float | None], ...]
    """Per event `critical`, `least` and `ratio`; `critical` is None where a side has one run."""
    light: float
    """The share of an event below which stacks end in their callers; 0 where all are whole."""

    def packed(self) -> tuple[Layout, str]:
        """As `pack_columns`."""
        return pack_columns([*self.data.columns(), ("count", self.count)])

    def facts(self) -> dict[str, Any]:
        """What the engine needs to know of the columns."""
        return {
            "causes": len(CATEGORIES),
            "dsos": len(self.data.dsos),
            "frames": len(self.data.frame_name),
            "threads": len(self.sides),
            "timed": False,
            "sides": self.sides,
            "scales": self.scales,
            "tests": self.tests,
        }


def compared_flame(difference: Difference) -> ComparedFlame | None:
    """The columns of a comparison; None where no event has stacks on both sides."""
    parts = [stacks for stacks in difference.stacks if len(stacks.weights)]
    if not parts:
        return None
    sides = (0,) * difference.before.runs + (1,) * difference.after.runs
    scale = tuple(1 / units for units in (*difference.before.units, *difference.after.units))
    light, parts = _within(parts, MOST_ROWS)
    names, functions = _Functions(), []
    trees = []
    offset = 0
    for stacks in parts:
        tree = StackTable(stacks.parent, stacks.frame, NO_FRAMES)
        depth, place, order = preorder(tree, stacks.weights.node)
        functions.append(names.of(stacks.frames)[stacks.frame[order]])
        trees.append((depth, place[stacks.weights.node] + offset))
        offset += len(depth)
    weights = parts[0].weights.joined(*(stacks.weights for stacks in parts[1:]))
    node = np.concatenate([nodes for _, nodes in trees]).astype(np.int32)
    data = FlameData(
        frame_name=np.array(names.name, np.int32),
        frame_dso=np.array(names.dso, np.int32),
        frame_kind=np.array(names.kind, np.uint8),
        depth=np.concatenate([depth for depth, _ in trees]),
        node_frame=np.concatenate(functions),
        decided=np.full(offset, -1, np.int16),
        node=node,
        event=np.repeat(np.arange(len(parts)), [len(stacks.weights) for stacks in parts]).astype(np.uint8),
        cause=weights.cause,
        likely=weights.likely,
        thread=weights.run,
        weight=weights.weight,
        time_ns=np.zeros(len(node), np.int64),
        threads=tuple(_runs(difference.before, "before") + _runs(difference.after, "after")),
        timed=False,
        names=tuple(names.names.index),
        dsos=tuple(names.dsos.index),
    )
    ratio = FROM_RECORDING if {one.what for one in difference.surroundings} & {SAMPLING, RECORDERS} else 0.0
    return ComparedFlame(
        data=data,
        count=weights.samples,
        events=tuple((stacks.event, stacks.unit) for stacks in parts),
        formerly=names.formerly,
        sides=sides,
        scales=tuple(scale for _ in parts),
        tests=tuple(_test(stacks, sides, ratio) for stacks in parts),
        light=light,
    )


def _runs(side: Side, name: str) -> list[Thread]:
    return [Thread(0, number, f"{name} {number}") for number in range(1, side.runs + 1)]


class _Functions:
    """The functions of all events, each key once."""

    def __init__(self) -> None:
        self.names, self.dsos = Numbered(ROOT), Numbered("")
        self.name: list[int] = []
        self.dso: list[int] = []
        self.kind: list[int] = []
        self.formerly: dict[int, str] = {}
        self._number: dict[str, int] = {}

    def of(self, frames: ComparedFrames) -> Int32:
        """Per function of one event its number here."""
        numbers = np.zeros(len(frames), np.int32)
        for row, (key, before, after) in enumerate(zip(frames.key, frames.before, frames.after, strict=True)):
            number = self._number.setdefault(key, len(self.name))
            numbers[row] = number
            if number < len(self.name):
                continue
            kind = frames.kind[row]
            self.name.append(self.names.add(after or before))
            self.dso.append(self.dsos.add(frames.library[row] or (_PROGRAM if kind == "file" else "")))
            inside = MODULE_CODE if kind == "module" else KERNEL_CODE
            self.kind.append(inside if int(frames.mode[row]) == KERNEL else USER_CODE)
            if before and after and before != after:
                self.formerly[number] = before
        return numbers


def _test(stacks: ComparedStacks, sides: Sequence[int], ratio: float) -> dict[str, float | None]:
    """What parts chance from more; one test for each node that has enough samples and others than its caller."""
    known: dict[str, float | None] = {"critical": None, "least": LEAST_SAMPLES, "ratio": ratio}
    if min(sides.count(0), sides.count(1)) < 2:
        return known
    counts = np.zeros((2, len(stacks)), np.float64)
    for side in (0, 1):
        mine = np.array(sides)[stacks.weights.run] == side
        own = np.bincount(stacks.weights.node[mine], weights=stacks.weights.samples[mine], minlength=len(stacks))
        counts[side] = _inclusive(stacks.parent, own.astype(np.float64))
    above = np.append(counts, np.zeros((2, 1)), axis=1)[:, stacks.parent]
    tested = (counts.max(axis=0) >= LEAST_SAMPLES) & (counts != above).any(axis=0)
    return known | {"critical": threshold(len(sides) - 2, max(int(tested.sum()), 1))}


def _inclusive(parent: Int32, own: Float64) -> Float64:
    """Per node its own and all below it; parents precede their children."""
    total = np.append(own, 0.0)
    for nodes in reversed(list(StackTable(parent, parent, NO_FRAMES).levels())):
        np.add.at(total, parent[nodes], total[nodes])
    return total[:-1]


def _within(parts: Sequence[ComparedStacks], most: int) -> tuple[float, list[ComparedStacks]]:
    """The stacks, light ones ending in their callers where there are too many rows, and what was light."""
    folded = list(parts)
    for share in (0.0, *_LIGHT):
        if share:
            folded = [_folded(stacks, share) for stacks in parts]
        if sum(len(stacks.weights) for stacks in folded) <= most:
            return share, folded
    return _LIGHT[-1], folded


def _folded(stacks: ComparedStacks, share: float) -> ComparedStacks:
    """The same weights; of nodes with less than a share of either side's, they count for the next caller with more."""
    heavy = np.zeros(len(stacks), np.bool_)
    for own in (stacks.before, stacks.after):
        heavy |= _inclusive(stacks.parent, own) >= share * max(float(own.sum()), 1e-300)
    heavy |= stacks.parent == NO_NODE
    to = np.arange(len(stacks), dtype=np.int32)
    for nodes in StackTable(stacks.parent, stacks.parent, NO_FRAMES).levels():
        light = nodes[~heavy[nodes]]
        to[light] = to[stacks.parent[light]]
    return replace(stacks, weights=summed(replace(stacks.weights, node=to[stacks.weights.node])))
