"""One analysed capture as rows of the fleet's tables: cause × phase × range × line × call, and all around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import PurePath
from typing import Any

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.course.results import PHASE_NAMES, Course
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.ranges.membership import Events, Membership
from pinprof.analyze.recorder import RECORDER_EVENT
from pinprof.analyze.results import Analysis
from pinprof.analyze.sites import Sites
from pinprof.base.columns import Int32, Int64
from pinprof.compare.runs import event_name
from pinprof.compare.surroundings import surroundings_of
from pinprof.compare.units import work_of
from pinprof.data.model import Capture, Losses
from pinprof.data.rate_book import RateBook
from pinprof.fleet.dimensions import facts_of
from pinprof.fleet.tables import MOST_ROWS, Row, Rows, clean

_NONE = -1
_MOST_WORK = 50
"""Units of work of one capture: a program may name each range anew."""
_MOST_OPPORTUNITIES = 50
_MOST_CALLS = 500


def rows_of(analysis: Analysis, capture: str, size_bytes: int) -> Rows:
    """Every table's rows of one capture, which the fleet calls `capture`."""
    costs = list(_costs(analysis))
    tables: dict[str, list[Row]] = {
        "captures": [_capture(analysis, size_bytes)],
        "facts": [{"dimension": name, "value": value} for name, value in facts_of(analysis, surroundings_of(analysis))],
        "work": [{"unit": unit, "count": count} for unit, count in list(work_of(analysis).items())[:_MOST_WORK]],
        "costs": bounded(costs, MOST_ROWS),
        "calls": _calls(analysis),
        "opportunities": _opportunities(analysis),
        "losses": _losses(analysis.capture.losses),
    }
    return {name: [{"capture": capture, **row} for row in rows] for name, rows in tables.items()}


def program_of(analysis: Analysis) -> str:
    """What captures are compared within: the program's name, of an interpreter that of its script; else empty."""
    capture, course = analysis.capture, analysis.course
    if name := capture.manifest.scenario.get("name"):
        return str(name)
    command = capture.manifest.command
    name = PurePath(command[0]).name if command else ""
    if name in ("", "perf", "nsys"):
        # Whoever recorded it is no program to compare.
        return capture.threads.get((course.pid, course.pid), "") if course else ""
    if name.startswith(("python", "pypy")):
        script = next((word for word in command[1:] if not word.startswith("-")), "")
        name = PurePath(script).name or name
    return name


def _capture(analysis: Analysis, size_bytes: int) -> Row:
    capture, course = analysis.capture, analysis.course
    outcome = capture.manifest.outcome
    rank = outcome.get("rank")
    rank = rank if isinstance(rank, dict) else {}
    work = course.phase("work") if course else None
    return {
        "state": "read",
        "reason": "",
        "again": False,
        "program": program_of(analysis),
        "command": " ".join(capture.manifest.command),
        "launch": str(rank.get("launch") or ""),
        "rank": _whole(rank.get("number")),
        "ranks": _whole(rank.get("size")),
        "started_utc": str(outcome.get("started_utc") or ""),
        "duration_ns": _whole(outcome.get("duration_ns")),
        "critical_ns": course.end_ns - course.start_ns if course else None,
        "work_ns": work.wall_ns if work else None,
        "samples": len(capture.samples),
        "exit_status": _whole(outcome.get("exit_status")),
        "outcome": str(outcome.get("state") or ""),
        "answer": analysis.answer,
        "pinprof": capture.manifest.tool_version,
        "bytes": size_bytes,
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None


def _costs(analysis: Analysis) -> Iterator[Row]:
    if analysis.course is not None:
        yield from _wall(analysis, analysis.course)
    yield from _events(analysis)


def _wall(analysis: Analysis, course: Course) -> Iterator[Row]:
    """The critical thread's time."""
    capture, wall = analysis.capture, course.wall
    scene = Scene(capture, analysis.attribution, course, None, None, RateBook.of(capture))
    process = np.full(len(wall), course.pid, np.int32)
    call, calls = _call_at(capture, course, wall.time_ns)
    keys = (
        analysis.attribution.leaf[wall.sample],
        wall.phase,
        scene.place,
        innermost_ranges(analysis.members, Events(wall.time_ns, process)),
        call,
    )
    for (leaf, phase, place, path, number), weight, samples in _grouped(keys, wall.ns):
        yield {
            "measure": "wall",
            "unit": "ns",
            "phase": PHASE_NAMES[phase],
            "call": calls[number] if number != _NONE else "",
            **_where(analysis, scene.sites, leaf, place, path),
            "weight": weight,
            "samples": samples,
        }


def _events(analysis: Analysis) -> Iterator[Row]:
    """What events count over all threads, by cause, range and line."""
    capture, samples = analysis.capture, analysis.capture.samples
    if not len(samples):
        return
    sites = Sites(capture)
    ranges = innermost_ranges(analysis.members, analysis.members.samples)
    place = sites.frames(samples.stack)
    keys = (samples.event, analysis.attribution.leaf, place, ranges)
    for (event, leaf, frame, path), weight, count in _grouped(keys, samples.weight):
        name = capture.events[event].name
        if name != RECORDER_EVENT:
            yield {
                "measure": event_name(name),
                "unit": capture.events[event].unit,
                "phase": "",
                "call": "",
                **_where(analysis, sites, leaf, frame, path),
                "weight": weight,
                "samples": count,
            }


def _where(analysis: Analysis, sites: Sites, leaf: int, place: int, path: int) -> Row:
    site = sites.site(place, "") if place != NOTHING else None
    return {
        "cause": CATEGORIES[leaf].name,
        "range": str(analysis.members.paths[path]) if path != _NONE else "",
        "file": site.file if site else "",
        "line": site.line if site else 0,
        "function": site.function if site else "",
    }


def _grouped(keys: tuple[Any, ...], weight: Int64) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """(keys, sum of the weights, rows) of every combination of keys that there is."""
    if not len(weight):
        return
    columns = [np.asarray(key, np.int64) for key in keys]
    code = np.zeros(len(weight), np.int64)
    for column in columns:
        _, number = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(number.max()) + 1) + number, return_inverse=True)
    first = np.full(int(code.max()) + 1, len(weight), np.int64)
    np.minimum.at(first, code, np.arange(len(weight)))
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, code, weight)
    counts = np.bincount(code)
    names = np.stack([column[first] for column in columns], axis=1).tolist()
    for key, total, rows in zip(names, sums.tolist(), counts.tolist(), strict=True):
        yield tuple(key), total, rows


def innermost_ranges(members: Membership, events: Events) -> Int64:
    """Per event the path of the innermost range around it, -1 outside of all."""
    best = np.full(len(events), _NONE, np.int64)
    if not members.paths or not len(events):
        return best
    count = len(members.paths)
    depth = np.array([path.depth for path in members.paths], np.int64)
    for path, row in members.among(events.pid).inside(events):
        np.maximum.at(best, row, depth[path] * count + path)
    return np.where(best == _NONE, _NONE, best % count)


def _call_at(capture: Capture, course: Course, time_ns: Int64) -> tuple[Int32, tuple[str, ...]]:
    """Per time the name of the critical thread's CUDA call around it, -1 outside of all; and the names."""
    nowhere = np.full(len(time_ns), _NONE, np.int32)
    if capture.activity is None:
        return nowhere, ()
    table = capture.activity.calls
    mine = table.take((table.pid == course.pid) & (table.tid == course.tid))
    if not len(mine):
        return nowhere, ()
    order = np.argsort(mine.start_ns, kind="stable")
    at = np.searchsorted(mine.start_ns[order], time_ns, "right") - 1
    row = order[np.maximum(at, 0)]
    inside = (at >= 0) & (time_ns < mine.end_ns[row])
    return np.where(inside, mine.name[row], _NONE).astype(np.int32), table.names


def bounded(rows: list[Row], most: int) -> list[Row]:
    """The heaviest rows; what is left of each measure, phase and cause is one row without a place."""
    if len(rows) <= most:
        return rows
    units: dict[str, int] = {}
    for row in rows:
        units[row["measure"]] = units.get(row["measure"], 0) + row["weight"]
    ordered = sorted(rows, key=lambda row: -row["weight"] / max(units[row["measure"]], 1))
    rest: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in ordered[most:]:
        key = (row["measure"], row["phase"], row["cause"])
        empty = {**row, "range": "", "file": "", "line": 0, "function": "", "call": "", "weight": 0, "samples": 0}
        kept = rest.setdefault(key, empty)
        kept["weight"] += row["weight"]
        kept["samples"] += row["samples"]
    return [*ordered[:most], *rest.values()]


def _calls(analysis: Analysis) -> list[Row]:
    if analysis.activity is None:
        return []
    calls = sorted(analysis.activity.whole.calls, key=lambda call: -call.time_ns.total)[:_MOST_CALLS]
    return [
        {
            "call": call.name,
            "purpose": call.purpose,
            "count": call.count,
            "total_ns": call.time_ns.total,
            "median_ns": call.time_ns.median,
            "most_ns": call.time_ns.most,
            "bytes": call.size_bytes,
            "failures": call.failures,
        }
        for call in calls
    ]


def _opportunities(analysis: Analysis) -> list[Row]:
    found = analysis.opportunities.found if analysis.opportunities else ()
    return [
        {
            "rank": one.rank,
            "title": one.title,
            "place": one.site.place,
            "function": one.site.function,
            "phase": one.phase,
            "cure": one.cure.id,
            "advice": one.cure.text,
            "causes": ", ".join(one.causes),
            "count": one.count,
            "bytes": one.bytes,
            "cost_ns": one.cost_ns,
            "saving_ns": one.saving.likely_ns,
            "saving_low_ns": one.saving.low_ns,
            "saving_high_ns": one.saving.high_ns,
        }
        for one in found[:_MOST_OPPORTUNITIES]
    ]


def _losses(losses: Losses) -> list[Row]:
    counted = [(entry.name, getattr(losses, entry.name)) for entry in fields(losses) if entry.name != "notes"]
    rows: list[Row] = [{"what": name, "count": count} for name, count in counted if count]
    return [*rows, *({"what": clean(note), "count": 1} for note in losses.notes[:20])]
