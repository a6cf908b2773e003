"""Live bytes at the moments that the program names: edges of its NVTX ranges, and marks."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.results import KINDS, Allocations, AllocationTable
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.results import OTHERS, Checkpoint
from pinprof.base.columns import Int64, ascending
from pinprof.data.activity import MarkTable
from pinprof.data.gpu_functions import Allocated
from pinprof.data.model import RangeTable

MOST_CHECKPOINTS = 1_000
MOST_LINES = 64
"""Lines that are separate at a checkpoint."""
Key = TypeVar("Key", bound=str)
Edge = Literal["start", "end", "mark"]
EDGES: tuple[Edge, Edge] = ("start", "end")


def checkpoints_of(
    allocations: Allocations, ranges: RangeTable, marks: tuple[MarkTable, ...]
) -> tuple[tuple[Checkpoint, ...], int]:
    """The checkpoints in order of time, and how many more there are: of those the outermost ranges' come first."""
    moments: list[tuple[int, int, str, Edge, int]] = []
    if not len(allocations.table):
        return (), 0
    for table in marks:
        named = zip(table.time_ns.tolist(), table.name.tolist(), table.pid.tolist(), strict=True)
        moments += [(-1, time, table.names[name] if name >= 0 else "", "mark", pid) for time, name, pid in named]
    # Edges of the outermost ranges, as many as can be shown: each range's start, and then its end.
    edges = np.stack([ranges.start_ns, ranges.end_ns], axis=1).reshape(-1)
    known = np.flatnonzero(np.stack([np.ones(len(ranges), np.bool_), ranges.closed], axis=1).reshape(-1))
    for edge in known[np.lexsort((edges[known], ranges.depth[known // 2]))][:MOST_CHECKPOINTS].tolist():
        row, side = edge // 2, EDGES[edge % 2]
        moments.append((int(ranges.depth[row]), int(edges[edge]), ranges.name[row], side, int(ranges.pid[row])))
    left_out = len(known) + sum(map(len, marks)) - MOST_CHECKPOINTS
    moments.sort(key=lambda moment: (moment[0], moment[1]))
    chosen = sorted(moments[:MOST_CHECKPOINTS], key=lambda moment: moment[1])
    return _levels(allocations, chosen), max(left_out, 0)


def _levels(allocations: Allocations, moments: list[tuple[int, int, str, Edge, int]]) -> tuple[Checkpoint, ...]:
    time = np.array([moment[1] for moment in moments], np.int64)
    pid = np.array([moment[4] for moment in moments], np.int64)
    by_kind: list[dict[Allocated, int]] = [{} for _ in moments]
    by_line: list[dict[str, int]] = [{} for _ in moments]
    known = set(allocations.table.pid.tolist())
    for process in ascending(pid).tolist():
        at = np.flatnonzero(pid == process)
        # Memory of a process that the source of a range does not name is that of all.
        mine = allocations.table
        if process in known:
            mine = mine.take(mine.pid == process)
        elif process >= 0:
            continue
        for number, kind in enumerate(KINDS):
            _add(by_kind, kind, mine.take(mine.kind == number), time, at)
        lines = group(mine.site.astype(np.int64))
        heaviest = np.argsort(-lines.sum(mine.size_bytes), kind="stable")
        place = np.full(len(lines), MOST_LINES, np.int64)
        place[heaviest[:MOST_LINES]] = np.arange(min(len(lines), MOST_LINES))
        for number in ascending(place).tolist():
            line = OTHERS
            if number < MOST_LINES:
                site = int(lines.keys[0][heaviest[number]])
                line = allocations.sites[site] if site >= 0 else ""
            _add(by_line, line, mine.take(place[lines.of] == number), time, at)
    return tuple(
        Checkpoint(name, edge, moment, process, by_kind[row], by_line[row])
        for row, (_, moment, name, edge, process) in enumerate(moments)
    )


def _add(to: list[dict[Key, int]], key: Key, table: AllocationTable, time: Int64, at: Int64) -> None:
    """Note what lives of these allocations at the moments `at`, where that is any."""
    live = StepFunction.of(table, table.size_bytes).at(time[at])
    for row in np.flatnonzero(live).tolist():
        entry = to[int(at[row])]
        entry[key] = entry.get(key, 0) + int(live[row])
