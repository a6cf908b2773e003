"""Live bytes at the moments that the program names: edges of its NVTX ranges, and marks."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np

from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.results import KINDS, Allocations, AllocationTable
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.results import OTHERS, Checkpoint
from pinprof.base.columns import Int64
from pinprof.data.activity import MarkTable
from pinprof.data.gpu_functions import Allocated
from pinprof.data.model import RangeTable

MOST_CHECKPOINTS = 1_000
MOST_LINES = 64
"""Lines that are separate at a checkpoint."""
Key = TypeVar("Key", bound=str)
Edge = Literal["start", "end", "mark"]


def checkpoints_of(
    allocations: Allocations, ranges: RangeTable, marks: tuple[MarkTable, ...]
) -> tuple[tuple[Checkpoint, ...], int]:
    """The checkpoints in order of time, and how many more there are: of those the outermost ranges' come first."""
    moments: list[tuple[int, int, str, Edge, int]] = []
    if not len(allocations.table):
        return (), 0
    closed = ranges.closed.tolist()
    columns = (ranges.depth.tolist(), ranges.start_ns.tolist(), ranges.end_ns.tolist(), ranges.pid.tolist())
    for table in marks:
        named = zip(table.time_ns.tolist(), table.name.tolist(), table.pid.tolist(), strict=True)
        moments += [(-1, time, table.names[name] if name >= 0 else "", "mark", pid) for time, name, pid in named]
    for name, ended, depth, start, end, pid in zip(ranges.name, closed, *columns, strict=True):
        moments.append((depth, start, name, "start", pid))
        if ended:
            moments.append((depth, end, name, "end", pid))
    moments.sort(key=lambda moment: (moment[0], moment[1]))
    chosen = sorted(moments[:MOST_CHECKPOINTS], key=lambda moment: moment[1])
    return _levels(allocations, chosen), max(len(moments) - MOST_CHECKPOINTS, 0)


def _levels(allocations: Allocations, moments: list[tuple[int, int, str, Edge, int]]) -> tuple[Checkpoint, ...]:
    time = np.array([moment[1] for moment in moments], np.int64)
    pid = np.array([moment[4] for moment in moments], np.int64)
    by_kind: list[dict[Allocated, int]] = [{} for _ in moments]
    by_line: list[dict[str, int]] = [{} for _ in moments]
    known = set(allocations.table.pid.tolist())
    for process in np.unique(pid).tolist():
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
        for number in np.unique(place).tolist():
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
