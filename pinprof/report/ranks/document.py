"""The public JSON of `pinprof report NAME.ranks --format json`, documented in docs/ranks.md.

Schema history: 1 — first version.
"""

from __future__ import annotations

from typing import Any

from pinprof.ranks.results import Excess, Hold, Launch, RankFacts
from pinprof.ranks.spent import ProgramPlace
from pinprof.report.names import without_home
from pinprof.report.section import picked

SCHEMA = 1
MOST_LOSSES = 2000
"""Meetings of a hold that are listed one by one, the most expensive ones; all are in its figures."""


def to_json(launch: Launch) -> dict[str, Any]:
    """The whole launch; times in ns, of ranks' lives and meetings on the clock of the first machine."""
    document = {
        "schema": SCHEMA,
        "headline": launch.headline,
        "verdict": launch.verdict,
        "name": launch.name,
        "size": launch.size,
        "missing": list(launch.missing),
        "work_ns": launch.work_ns,
        "meetings": len(launch.meetings),
        "uneven_ns": launch.uneven_ns,
        "holds": [_hold(hold) for hold in launch.holds],
        "start": picked(launch.start, "rank late_ns waited_ns") if launch.start else None,
        "groups": [
            picked(group, "ranks own_ns waits_ns differs awaited") | {"causes": dict(group.causes)}
            for group in launch.groups
        ],
        "ranks": [_rank(rank) for rank in launch.ranks],
        "nodes": [
            picked(
                node,
                "machine ranks memory_bytes numa_nodes free_bytes page_cache_bytes huge_bytes numa_misses",
            )
            | {"together": dict(node.together)}
            for node in launch.nodes
        ],
        "clock": {"how": launch.clock, "uncertainty_ns": launch.uncertainty_ns},
        "notes": list(launch.notes),
    }
    return dict(without_home(document))


def _hold(hold: Hold) -> dict[str, Any]:
    costliest = sorted(range(len(hold.losses)), key=lambda row: -hold.losses[row])[:MOST_LOSSES]
    return {
        **picked(hold, "ranks how every held meetings unit first cost_ns share"),
        "cost_low_ns": hold.low_ns,
        "cost_high_ns": hold.high_ns,
        "p": hold.chance,
        **picked(hold, "tested phase"),
        "waits_at": _place(hold.place),
        **picked(hold, "shown gpu_more_ns cure"),
        "lines": [_line(line) for line in hold.lines],
        "causes": [picked(one, "cause ns others_ns") for one in hold.causes],
        "losses": [[int(hold.release_ns[row]), round(float(hold.losses[row]))] for row in sorted(costliest)],
    }


def _place(place: ProgramPlace | None) -> dict[str, Any] | None:
    return picked(place, "file function line") | {"place": place.text} if place else None


def _line(line: Excess) -> dict[str, Any]:
    place = _place(line.place) or {"file": "", "function": "", "line": 0, "place": ""}
    return {**place, **picked(line, "range ns others_ns"), "causes": dict(line.causes)}


def _rank(rank: RankFacts) -> dict[str, Any]:
    return {
        **picked(rank, "number name machine start_ns end_ns own_ns waits_ns last answer"),
        "phases": dict(rank.phases),
        "causes": dict(rank.causes),
    }
