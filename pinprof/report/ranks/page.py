"""The page of a launch: one self-contained file with the answer, why, lanes of ranks over time, groups, and memory.

It is made as the reports' pages are (report/page/html.py): nothing is requested from anywhere, and the policy admits
the page's own script only. Lanes are drawn as it is written: a few thousand pieces for any number of ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.ranks.results import WAITS, Hold, Launch, RankFacts, RankLane
from pinprof.report.data import Cause
from pinprof.report.page import html
from pinprof.report.page.bundle import asset, bundle, script_hash
from pinprof.report.ranks import words

_SHEETS = ("styles/page.css", "styles/compare.css", "styles/ranks.css")
_WIDTH, _HEIGHT = 1000, 10
"""The units that lanes are drawn in; they stretch to the page."""
_TICKS = 5
_MOST_BARS = 300
_MOST_GROUPS, _MOST_RANKS, _MOST_NODES = 64, 512, 64
_MOST_LEGEND = 14


@dataclass(frozen=True)
class Stretch:
    """All pieces of one cause in a lane, as one path."""

    slug: str
    """Its colour's; empty for waits for other ranks."""
    title: str
    path: str


@dataclass(frozen=True)
class DrawnLane:
    """One rank's lane."""

    rank: int
    stretches: tuple[Stretch, ...]
    awaited: bool


@dataclass(frozen=True)
class Lanes:
    """Lanes on one scale."""

    key: str
    title: str
    lanes: tuple[DrawnLane, ...]
    ticks: tuple[tuple[float, str], ...]
    """(place in percent, label)."""
    legend: tuple[Cause, ...]
    """Causes with most time here."""


@dataclass(frozen=True)
class Bars:
    """What the job loses at the meetings of one hold, in order of time."""

    bars: tuple[tuple[float, float, str], ...]
    """(place, height in percent, words)."""
    width: float
    most: str
    """The highest one, in words."""


def write_page(launch: Launch, path: Path, links: Mapping[int, str]) -> None:
    """Write the page to `path`; `links` has the ranks' own pages, as paths beside it. PinprofError if it cannot."""
    html.write_whole(render(launch, links), path)


def render(launch: Launch, links: Mapping[int, str]) -> str:
    """The page as text."""
    script = bundle("trial.js")
    causes = tuple(Cause(row.name, row.level, row.meaning, row.remedy) for row in CATEGORIES)
    return html.page(
        "ranks.html.j2",
        "".join(map(asset, _SHEETS)) + html.colour_rules(causes),
        script,
        script_hash(script),
        launch=launch,
        words=words,
        holds=[(hold, _bars(hold)) for hold in launch.holds],
        drawings=list(_drawings(launch, causes)),
        groups=launch.groups[:_MOST_GROUPS],
        more_groups=len(launch.groups) - _MOST_GROUPS,
        ranks=_ranks(launch),
        more_ranks=len(launch.ranks) - _MOST_RANKS,
        awaited={rank for hold in launch.holds for rank in hold.ranks},
        nodes=[(node, list(words.node_lines(node))) for node in launch.nodes[:_MOST_NODES]],
        more_nodes=len(launch.nodes) - _MOST_NODES,
        links={rank: quote(link) for rank, link in links.items()},
        causes={cause.key: cause for cause in causes},
        height=_HEIGHT,
        width=_WIDTH,
    )


def _ranks(launch: Launch) -> Sequence[RankFacts]:
    """The ranks of the table: the awaited ones first."""
    awaited = {rank for hold in launch.holds for rank in hold.ranks}
    return sorted(launch.ranks, key=lambda rank: (rank.number not in awaited, rank.number))[:_MOST_RANKS]


def _drawings(launch: Launch, causes: Sequence[Cause]) -> Iterator[Lanes]:
    if launch.closeup:
        title = "Around a typical delayed meeting"
        if launch.holds and launch.holds[0].how == "once":
            title = "Around the delayed meeting"
        yield _lanes("closeup", title, launch.closeup, launch, causes)
    if launch.lanes:
        yield _lanes("whole", "The whole launch", launch.lanes, launch, causes)


def _lanes(key: str, title: str, lanes: Mapping[int, RankLane], launch: Launch, causes: Sequence[Cause]) -> Lanes:
    filled = [lane for lane in lanes.values() if len(lane)]
    begin = min((int(lane.start_ns[0]) for lane in filled), default=0)
    end = max((int(lane.end_ns[-1]) for lane in filled), default=1)
    awaited = {rank for hold in launch.holds for rank in hold.ranks}
    drawn = tuple(
        DrawnLane(rank, tuple(_stretches(lane, begin, max(end - begin, 1), causes)), rank in awaited)
        for rank, lane in lanes.items()
    )
    ticks = tuple((100 * tick / _TICKS, format_ns((end - begin) * tick / _TICKS)) for tick in range(_TICKS + 1))
    return Lanes(key, title, drawn, ticks, _legend(filled, causes))


def _stretches(lane: RankLane, begin: int, length: int, causes: Sequence[Cause]) -> Iterator[Stretch]:
    """One path for each cause: `M12 0h5v10h-5z` for every piece."""
    paths: dict[int, list[str]] = defaultdict(list)
    time: dict[int, int] = defaultdict(int)
    for start, end, cause in zip(lane.start_ns.tolist(), lane.end_ns.tolist(), lane.cause.tolist(), strict=True):
        left = round(_WIDTH * (start - begin) / length, 1)
        wide = round(_WIDTH * (end - start) / length, 1) or 0.1
        paths[cause].append(f"M{left:g} 0h{wide:g}v{_HEIGHT}h-{wide:g}z")
        time[cause] += end - start
    for cause, parts in sorted(paths.items()):
        about = format_ns(time[cause])
        if cause == WAITS:
            yield Stretch("", f"waits for other ranks: {about}", "".join(parts))
        else:
            yield Stretch(causes[cause].slug, f"{causes[cause].key}: {about}", "".join(parts))


def _legend(lanes: Sequence[RankLane], causes: Sequence[Cause]) -> tuple[Cause, ...]:
    total = np.zeros(len(causes), np.int64)
    for lane in lanes:
        own = lane.cause >= 0
        np.add.at(total, lane.cause[own].astype(np.int64), (lane.end_ns - lane.start_ns)[own])
    order = np.argsort(-total, kind="stable")[:_MOST_LEGEND]
    return tuple(causes[number] for number in order.tolist() if total[number])


def _bars(hold: Hold) -> Bars:
    """The losses; of many meetings neighbours as one bar, which shows the largest of them."""
    most = float(hold.losses.max(initial=0.0))
    step = max(1, -(-len(hold.losses) // _MOST_BARS))
    parts = [hold.losses[first : first + step] for first in range(0, len(hold.losses), step)]
    wide = 100 / max(len(parts), 1)
    bars = []
    for number, part in enumerate(parts):
        high = float(part.max())
        of = (
            f"meeting {number * step + 1}" if step == 1 else f"meetings {number * step + 1}–{number * step + len(part)}"
        )
        height = 100 * high / most if most else 0.0
        bars.append((round(number * wide, 2), round(height, 1), f"{of}: {format_ns(high)}"))
    return Bars(tuple(bars), round(max(wide - 0.1, wide * 0.8), 3), format_ns(most))
