"""Steps: a pattern of calls, or a range, that repeats through the work."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.results import Phase, Steps
from pinprof.analyze.groups import group
from pinprof.base.columns import Int64
from pinprof.data.gpu_functions import PURPOSES, Purpose
from pinprof.data.model import Capture

LEAST_COUNT = 5
LEAST_NS = 1_000_000
"""A shorter pattern is a loop inside a step."""
COVERED = 0.5
"""The least part of the work that steps cover."""
ALIKE = 1.1
"""Calls are about equally rare up to this factor."""
SPREAD = 3
"""Regular: the time of the middle half of the steps differs at most by this factor."""

_TELLING: tuple[Purpose, ...] = ("sync", "copy")


def steps_of(capture: Capture, calls: Calls | None, critical: Critical, phases: tuple[Phase, ...]) -> Steps | None:
    """The steps of the work; None where nothing repeats regularly through most of it."""
    work = next((phase for phase in phases if phase.name == "work"), None)
    if work is None:
        return None
    begin, end = work.intervals[0].start_ns, work.intervals[-1].end_ns
    least = COVERED * work.wall_ns
    if calls is not None and (calls.table.pid == critical.pid).any():
        return _of_calls(calls, critical, begin, end, least)
    return _of_ranges(capture, critical, begin, end, least)


def _of_calls(calls: Calls, critical: Critical, begin: int, end: int, least: float) -> Steps | None:
    """By the rarest call that repeats; of about equally rare ones by a synchronisation, a copy, or the first."""
    table = calls.table
    mine = (table.pid == critical.pid) & (table.tid == critical.tid) & ~calls.initial
    rows = np.flatnonzero(mine & (table.start_ns >= begin) & (table.start_ns < end))
    if not len(rows):
        return None
    site = np.full(len(rows), -1, np.int64) if table.site is None else table.site[rows].astype(np.int64)
    places = group(calls.name[rows], site + 1)
    order = np.argsort(places.of, kind="stable")
    first = np.cumsum(places.count) - places.count
    found: list[tuple[int, int, int]] = []
    for place in np.flatnonzero(places.count >= LEAST_COUNT).tolist():
        mine = rows[order[first[place] : first[place] + places.count[place]]]
        if _regular(np.diff(table.start_ns[mine]), least):
            purpose = PURPOSES[calls.purpose[mine[0]]]
            telling = _TELLING.index(purpose) if purpose in _TELLING else len(_TELLING)
            found.append((telling, int(table.start_ns[mine[0]]), place))
    if not found:
        return None
    rarest = min(int(places.count[place]) for _, _, place in found)
    _, _, place = min(entry for entry in found if places.count[entry[2]] <= ALIKE * rarest)
    name, number = calls.names[places.keys[0][place]], int(places.keys[1][place]) - 1
    starts = table.start_ns[rows[order[first[place] : first[place] + places.count[place]]]]
    return _steps(f"{name} in {table.sites[number].text}" if number >= 0 else name, starts)


def _of_ranges(capture: Capture, critical: Critical, begin: int, end: int, least: float) -> Steps | None:
    """By the range with the fewest instances that repeats."""
    ranges = capture.ranges
    mine = (ranges.pid == critical.pid) & (ranges.start_ns >= begin) & ranges.closed & (ranges.end_ns < end)
    by_name: dict[tuple[str, str], list[int]] = {}
    for row in np.flatnonzero(mine).tolist():
        by_name.setdefault((ranges.domain[row], ranges.name[row]), []).append(row)
    named = sorted((len(rows), name, rows) for (_, name), rows in by_name.items() if len(rows) >= LEAST_COUNT)
    for _, name, rows in named:
        starts, length = ranges.start_ns[rows], (ranges.end_ns - ranges.start_ns)[rows]
        if _regular(length, least):
            slowest = int(np.argmax(length))
            return Steps(
                name, len(rows), int(np.median(length)), int(length[slowest]), int(starts[slowest]),
                tuple(starts.tolist()),
            )  # fmt: skip
    return None


def _regular(length: Int64, least: float) -> bool:
    """Whether lengths are much alike, and those that are add up to `least`."""
    low, middle, high = np.percentile(length, (25, 50, 75))
    # Pauses between bursts of calls are no steps.
    covered = length[length <= SPREAD * middle].sum()
    return bool(covered >= least and middle >= LEAST_NS and high <= SPREAD * low)


def _steps(what: str, starts: Int64) -> Steps:
    """A step lasts until the next one begins; how long the last one took is not known."""
    length = np.diff(starts)
    slowest = int(np.argmax(length))
    return Steps(
        what, len(starts), int(np.median(length)), int(length[slowest]), int(starts[slowest]), tuple(starts.tolist())
    )
