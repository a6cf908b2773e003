"""Steps: a range, a pattern of calls, or large memory that a line makes, where it repeats through the work."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.results import Interval, Phase, Steps
from pinprof.analyze.groups import group
from pinprof.base.columns import Int64
from pinprof.data.activity import Caller
from pinprof.data.gpu_functions import PURPOSES, Purpose
from pinprof.data.host_memory import HostEvent, HostMemoryTable
from pinprof.data.model import Capture
from pinprof.data.spoken import spoken

LEAST_COUNT = 5
LEAST_NS = 1_000_000
"""A shorter pattern is a loop inside a step."""
COVERED = 0.5
"""The least part of the work that steps cover."""
WHOLE = 0.9
"""Ranges that cover this part of it are the program's own word for its steps; shorter ones are parts of them."""
ALIKE = 1.1
"""Calls are about equally rare up to this factor."""
SPREAD = 3
"""Regular: the time of the middle half of the steps differs at most by this factor."""

_TELLING: tuple[Purpose, ...] = ("sync", "copy")
_NUMBER = re.compile(r"[\s#_:.,=-]*\d+$")
"""What tells the steps of a range apart: `ProfilerStep#12`, `step 3`."""


def steps_of(capture: Capture, calls: Calls | None, critical: Critical, phases: tuple[Phase, ...]) -> Steps | None:
    """The steps of the work; None where nothing repeats regularly through most of it."""
    work = next((phase for phase in phases if phase.name == "work"), None)
    if work is None:
        return None
    within = Interval(work.intervals[0].start_ns, work.intervals[-1].end_ns)
    called = calls is not None and bool((calls.table.pid == critical.pid).any())
    return (
        _of_ranges(capture, critical, within, WHOLE * work.wall_ns)
        or (_of_calls(calls, critical, within, COVERED * work.wall_ns) if calls is not None and called else None)
        or _of_ranges(capture, critical, within, COVERED * work.wall_ns)
        or (None if called else _of_memory(capture, critical, within, COVERED * work.wall_ns))
    )


def _of_calls(calls: Calls, critical: Critical, within: Interval, least: float) -> Steps | None:
    """By the rarest call that repeats; of about equally rare ones by a synchronisation, a copy, or the first."""
    table = calls.table
    mine = (table.pid == critical.pid) & (table.tid == critical.tid) & ~calls.initial
    rows = np.flatnonzero(mine & (table.start_ns >= within.start_ns) & (table.start_ns < within.end_ns))
    if not len(rows):
        return None
    site = np.full(len(rows), -1, np.int64) if table.site is None else table.site[rows].astype(np.int64)
    places = group(calls.name[rows], site + 1)
    parts = [rows[part] for part in places.rows()]
    found: list[tuple[int, int, int]] = []
    for place, part in enumerate(parts):
        if len(part) >= LEAST_COUNT and _regular(np.diff(table.start_ns[part]), least):
            purpose = PURPOSES[calls.purpose[part[0]]]
            telling = _TELLING.index(purpose) if purpose in _TELLING else len(_TELLING)
            found.append((telling, int(table.start_ns[part[0]]), place))
    if not found:
        return None
    rarest = min(len(parts[place]) for _, _, place in found)
    _, _, place = min(entry for entry in found if len(parts[entry[2]]) <= ALIKE * rarest)
    name, number = calls.names[places.keys[0][place]], int(places.keys[1][place]) - 1
    what = f"{name} in {_named(table.sites[number])}" if number >= 0 else name
    return _begun("call", what, table.start_ns[parts[place]], within)


def _of_ranges(capture: Capture, critical: Critical, within: Interval, least: float) -> Steps | None:
    """By the range with the fewest instances that repeats, of several the one that covers most; a number at the end of
    its name counts its instances. A range is the program's own word, however much its instances differ.
    """
    ranges = capture.ranges
    mine = (ranges.pid == critical.pid) & (ranges.start_ns >= within.start_ns) & ranges.closed
    by_name: dict[tuple[str, str], list[int]] = {}
    plain = {name: _NUMBER.sub("", name) for name in set(ranges.name)}
    for row in np.flatnonzero(mine & (ranges.end_ns < within.end_ns)).tolist():
        by_name.setdefault((ranges.domain[row], plain[ranges.name[row]]), []).append(row)
    length = ranges.end_ns - ranges.start_ns
    named = sorted(
        (len(rows), -int(length[rows].sum()), name, rows)
        for (_, name), rows in by_name.items()
        if name and len(rows) >= LEAST_COUNT
    )
    return next(
        (
            _steps("range", name, ranges.start_ns[rows], ranges.end_ns[rows], length[rows])
            for _, total, name, rows in named
            if -total >= least and np.median(length[rows]) >= LEAST_NS
        ),
        None,
    )


def _of_memory(capture: Capture, critical: Critical, within: Interval, least: float) -> Steps | None:
    """By the line that makes large memory most rarely, of those that do so regularly, each time with a record; a line
    that makes several blocks in a step begins it with the first.
    """
    memory = capture.host_memory
    if memory is None:
        return None
    table = memory.table
    mine = (table.event == HostEvent.MADE) & (table.pid == critical.pid) & (table.tid == critical.tid)
    rows = np.flatnonzero(mine & (table.site >= 0) & (table.time_ns >= within.start_ns))
    rows = rows[table.time_ns[rows] < within.end_ns]
    parts = (rows[part] for part in group(table.site[rows].astype(np.int64)).rows())
    regular: list[Int64] = []
    for part in parts:
        if len(part) >= LEAST_COUNT and (table.count[part] == 1).all():
            begun = (_first_blocks(table, part), part)
            regular += [starts for starts in begun if _is_pattern(table.time_ns[starts], least)][:1]
    if not regular:
        return None
    rarest = min(regular, key=lambda part: (len(part), int(table.time_ns[part[0]])))
    maker = memory.sites[int(table.site[rarest[0]])].caller
    return _begun("memory", f"memory that {_named(maker)} makes", table.time_ns[rarest], within)


def _first_blocks(table: HostMemoryTable, made: Int64) -> Int64:
    """Rows, of those that one line made, at which least of what it made lives."""
    mine = (table.event == HostEvent.GIVEN) & (table.pid == table.pid[made[0]]) & (table.site == table.site[made[0]])
    given = np.flatnonzero(mine)
    before = np.searchsorted(table.time_ns[given], table.time_ns[made], side="right")
    live = np.arange(len(made)) - np.append(0, np.cumsum(table.count[given]))[before]
    first: Int64 = made[live <= live[1:].min()]
    return first


def _named(caller: Caller) -> str:
    return caller._replace(function=spoken(caller.function)).text


def _is_pattern(starts: Int64, least: float) -> bool:
    return len(starts) >= LEAST_COUNT and _regular(np.diff(starts), least)


def _regular(length: Int64, least: float) -> bool:
    """Whether lengths are much alike, and those that are add up to `least`."""
    low, middle, high = np.percentile(length, (25, 50, 75))
    # Pauses between bursts of calls are no steps.
    covered = length[length <= SPREAD * middle].sum()
    return bool(covered >= least and middle >= LEAST_NS and high <= SPREAD * low)


def _begun(by: Literal["call", "memory"], what: str, starts: Int64, within: Interval) -> Steps:
    """A step lasts until the next one begins; how long the last one took is not known: as long as most."""
    length = np.diff(starts)
    last = min(int(starts[-1] + np.median(length)), within.end_ns)
    return _steps(by, what, starts, np.append(starts[1:], last), length)


def _steps(by: Literal["range", "call", "memory"], what: str, starts: Int64, ends: Int64, length: Int64) -> Steps:
    slowest = int(np.argmax(length))
    return Steps(
        by, what, len(starts), int(np.median(length)), int(length[slowest]), int(starts[slowest]),
        tuple(starts.tolist()), tuple(ends.tolist()),
    )  # fmt: skip
