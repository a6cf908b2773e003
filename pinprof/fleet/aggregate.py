"""One analysed capture as rows of the fleet's tables: cause × phase × range × line × call, and all around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import PurePath
from typing import Any

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.groups import group
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.recorder import RECORDER_EVENT
from pinprof.analyze.run import Run
from pinprof.analyze.sites import Sites
from pinprof.base.columns import Int64
from pinprof.compare.runs import event_name
from pinprof.compare.surroundings import surroundings_of
from pinprof.compare.units import work_of
from pinprof.data.model import Losses
from pinprof.fleet.dimensions import facts_of
from pinprof.fleet.tables import MOST_ROWS, Row, Rows, clean

_NONE = -1
_MOST_WORK = 50
"""Units of work of one capture: a program may name each range anew."""
_MOST_OPPORTUNITIES = 50
_MOST_CALLS = 500


def rows_of(analysis: Run, capture: str, size_bytes: int) -> Rows:
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


def program_of(analysis: Run) -> str:
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


def _capture(analysis: Run, size_bytes: int) -> Row:
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
        "outcome": next((gap.kind for gap in analysis.gaps if gap.hides), str(outcome.get("state") or "")),
        "answer": " ".join([*(gap.text for gap in analysis.gaps), analysis.answer]),
        "pinprof": capture.manifest.tool_version,
        "bytes": size_bytes,
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None


def _costs(analysis: Run) -> Iterator[Row]:
    if analysis.doing is not None:
        yield from _wall(analysis, analysis.doing)
    yield from _events(analysis)


def _wall(analysis: Run, doing: CourseTable) -> Iterator[Row]:
    """The critical thread's time."""
    activity = analysis.capture.activity
    calls = (*(activity.calls.names if activity else ()), "")
    keys = (doing.leaf, doing.phase, doing.place, doing.range, doing.call)
    for (leaf, phase, place, path, call), weight, samples in _grouped(keys, doing.course.wall.ns):
        yield {
            "measure": "wall",
            "unit": "ns",
            "phase": PHASE_NAMES[phase],
            "call": calls[call],
            **_where(analysis, doing.sites, leaf, place, path),
            "weight": weight,
            "samples": samples,
        }


def _events(analysis: Run) -> Iterator[Row]:
    """What events count over all threads, by cause, range and line."""
    analysis = analysis.in_pieces
    capture, samples = analysis.capture, analysis.capture.samples
    if not len(samples):
        return
    sites = analysis.sites
    ranges = analysis.members.innermost(analysis.members.samples)
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


def _where(analysis: Run, sites: Sites, leaf: int, place: int, path: int) -> Row:
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
    if len(weight):
        cells = group(*keys)
        names = zip(*(key.tolist() for key in cells.keys), strict=True)
        yield from zip(names, cells.sum(weight).tolist(), cells.count.tolist(), strict=True)


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


def _calls(analysis: Run) -> list[Row]:
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


def _opportunities(analysis: Run) -> list[Row]:
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
