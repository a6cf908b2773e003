"""The page of `pinprof fleet`: one self-contained file, however many captures it is about.

It is made as the reports' pages are (report/page/html.py). What there is once per capture travels as packed columns,
from which the page's script makes the rows that are looked at; drawings have a bounded number of points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet.results import Answer, Change, Member, Series
from pinprof.report.compare.page import change_rules
from pinprof.report.data import Cause
from pinprof.report.flame import pack
from pinprof.report.fleet import words
from pinprof.report.names import printable, without_home
from pinprof.report.page import html
from pinprof.report.page.bundle import asset, bundle, script_hash

_SHEETS = ("styles/page.css", "styles/compare.css", "styles/fleet.css")
_MOST_SERIES, _MOST_DOTS = 6, 1200
_MOST_MEMBERS = 20_000
_LONGEST = 240
"""Letters of a text in the table of captures."""
_MOST_FACTS = 24
_LEAST_REACH = math.log(1.2)


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


def write_page(answer: Answer, path: Path) -> None:
    """Write the page to `path`; PinprofError if it cannot be written."""
    html.write_whole(render(answer), path)


def render(answer: Answer) -> str:
    """The page as text."""
    script = bundle("fleet.js")
    causes = tuple(Cause(row.name, row.level, row.meaning, row.remedy) for row in CATEGORIES)
    slugs = {cause.key: cause.slug for cause in causes}
    return html.page(
        "fleet.html.j2",
        "".join(map(asset, _SHEETS)) + html.colour_rules(causes) + change_rules(),
        script,
        script_hash(script),
        answer=answer,
        words=words,
        slugs=slugs,
        causes={cause.key: cause for cause in causes},
        pages={one.path: one.page for one in answer.members if one.page},
        series=[_drawn(one) for one in answer.series[:_MOST_SERIES]],
        reach=max((abs(one.ratio - 1) for one in answer.outliers), default=1.0) or 1.0,
        shown_path=lambda path: printable(without_home(path)),
        page_data=html.embed_json({"members": len(answer.members)}),
        members=pack(json.dumps(_columns(answer.members, slugs), ensure_ascii=True).encode()),
        left_out=max(len(answer.members) - _MOST_MEMBERS, 0),
    )


def _columns(members: Sequence[Member], slugs: dict[str, str]) -> dict[str, Any]:
    """The captures as columns; those that stand furthest from what is expected first where there are too many."""
    kept = sorted(members, key=_distance)[:_MOST_MEMBERS]
    values: dict[str, int] = {}

    def number(text: str) -> int:
        return values.setdefault(_text(text), len(values))

    facts = [[number(f"{name} {value}") for name, value in list(one.facts.items())[:_MOST_FACTS]] for one in kept]
    causes = [[[number(name), slugs.get(name, ""), round(share, 4)] for name, share in one.causes] for one in kept]
    return {
        "path": [_text(without_home(one.path)) for one in kept],
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


def _text(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _ratio(one: Member) -> float | None:
    return round(one.work_ns / one.expected_ns, 4) if one.work_ns and one.expected_ns else None


def _distance(one: Member) -> float:
    ratio = _ratio(one)
    return -abs(math.log(ratio)) if ratio else (-1e9 if one.state != "read" else 0.0)


def _drawn(series: Series) -> DrawnSeries:
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
