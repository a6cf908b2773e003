"""What the page of `pinprof fleet` draws, however many captures it is about.

What there is once per capture travels as packed columns, from which the page's script makes the rows that are looked
at; drawings have a bounded number of points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import clipped, printable
from pinprof.base.units import format_count
from pinprof.fleet.results import Answer, Change, Member, Series
from pinprof.report.fleet import words
from pinprof.report.forms import Answered
from pinprof.report.names import without_home
from pinprof.report.page.design import BY_KEY, TAXONOMY, Design, change_colours, colour_rules

MOST_SERIES, _MOST_DOTS = 6, 1200
MOST_MEMBERS = 20_000
_LONGEST = 240
"""Letters of a text in the table of captures."""
_MOST_FACTS = 24
_LEAST_REACH = math.log(1.2)
SLUGS = {cause.key: cause.slug for cause in TAXONOMY}


@dataclass(frozen=True)
class DrawnSeries:
    """A series as points in percent of width and height."""

    title: str
    dots: tuple[tuple[float, float], ...]
    levels: tuple[tuple[float, float, float], ...]
    """(from, to, height) of the median between change points."""
    cuts: tuple[float, ...]
    changes: tuple[Change, ...]
    top: str
    bottom: str
    middle: float
    first: str
    last: str


def columns(members: Sequence[Member]) -> dict[str, Any]:
    """The captures as columns; those that stand furthest from what is expected first where there are too many."""
    kept = sorted(members, key=_distance)[:MOST_MEMBERS]
    values: dict[str, int] = {}

    def number(text: str) -> int:
        return values.setdefault(clipped(printable(text), _LONGEST), len(values))

    facts = [[number(f"{name} {value}") for name, value in list(one.facts.items())[:_MOST_FACTS]] for one in kept]
    causes = [[[number(name), SLUGS.get(name, ""), round(share, 4)] for name, share in one.causes] for one in kept]
    return {
        "path": [clipped(printable(without_home(one.path)), _LONGEST) for one in kept],
        "program": [number(one.program) for one in kept],
        "started": [one.started[:16] for one in kept],
        "work": [one.work_ns or 0 for one in kept],
        "ratio": [_ratio(one) for one in kept],
        "answer": [number(without_home(one.answer or one.reason)) for one in kept],
        "causes": causes,
        "facts": facts,
        "page": [one.page for one in kept],
        "bad": [int(one.state != "read") for one in kept],
        "values": list(values),
    }


def _ratio(one: Member) -> float | None:
    return round(one.work_ns / one.expected_ns, 4) if one.work_ns and one.expected_ns else None


def _distance(one: Member) -> float:
    ratio = _ratio(one)
    return -abs(math.log(ratio)) if ratio else (-1e9 if one.state != "read" else 0.0)


def drawn(series: Series) -> DrawnSeries:
    """A series with as many points as there is room for."""
    count = len(series.ratio)
    ordered = sorted(series.ratio)
    low, high = ordered[int(0.01 * (count - 1))], ordered[math.ceil(0.99 * (count - 1))]
    reach = max(_LEAST_REACH, abs(math.log(low)), abs(math.log(high)))
    step = max(1, -(-count // _MOST_DOTS))
    at = [100 * number / max(count - 1, 1) for number in range(count)]

    def height(ratio: float) -> float:
        return round(50 - 46 * min(max(math.log(ratio) / reach, -1.0), 1.0), 2)

    ends, edges = [0], []
    for change in series.changes:
        ends.append(ends[-1] + change.before)
        edges.append(round(at[min(ends[-1], count - 1)], 2))
    ends.append(count)
    levels = []
    for first, last in pairwise(ends):
        part = sorted(series.ratio[first:last])
        if part:
            levels.append((round(at[first], 2), round(at[last - 1], 2), height(part[len(part) // 2])))
    return DrawnSeries(
        title=series.program or "all programs",
        dots=tuple((round(at[number], 2), height(series.ratio[number])) for number in range(0, count, step)),
        levels=tuple(levels),
        cuts=tuple(edges),
        changes=series.changes,
        top=f"{math.exp(reach):.2f} ×",
        bottom=f"{math.exp(-reach):.2f} ×",
        middle=height(1.0),
        first=series.started[0][:10],
        last=series.started[-1][:10],
    )


def _context(answer: Answered[Answer]) -> Mapping[str, Any]:
    return {
        "words": words,
        "slugs": SLUGS,
        "causes": BY_KEY,
        "pages": {one.path: one.page for one in answer.subject.members if one.page},
        "shown_path": lambda path: printable(without_home(path)),
    }


DESIGN = Design(
    lambda answer: f"Fleet of {format_count(answer.subject.captures)} captures",
    ("styles/page.css", "styles/compare.css", "styles/fleet.css"),
    "fleet.js",
    lambda _: colour_rules(TAXONOMY) + change_colours(),
    folder="fleet/",
    context=_context,
    anonymous=False,
)
