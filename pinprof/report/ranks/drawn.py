"""What the page of a launch draws: lanes of ranks over time, and what each meeting costs.

Lanes are drawn as the page is written: a few thousand pieces for any number of ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.ranks.results import WAITS, Hold, Launch, RankLane
from pinprof.report.data import Cause
from pinprof.report.names import printable
from pinprof.report.page.design import BY_KEY, TAXONOMY, Design, colour_rules
from pinprof.report.ranks import words

WIDTH, HEIGHT = 1000, 10
"""The units that lanes are drawn in; they stretch to the page."""
_TICKS = 5
_MOST_BARS = 300
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


def awaited_ranks(launch: Launch) -> set[int]:
    """Those that others wait for."""
    return {rank for hold in launch.holds for rank in hold.ranks}


def drawings(launch: Launch) -> Iterator[Lanes]:
    """The lanes around a meeting, and those of all of it."""
    if launch.closeup:
        title = "Around a typical delayed meeting"
        if launch.holds and launch.holds[0].how == "once":
            title = "Around the delayed meeting"
        yield _lanes("closeup", title, launch.closeup, launch)
    if launch.lanes:
        yield _lanes("whole", "The whole launch", launch.lanes, launch)


def _lanes(key: str, title: str, lanes: Mapping[int, RankLane], launch: Launch) -> Lanes:
    filled = [lane for lane in lanes.values() if len(lane)]
    begin = min((int(lane.start_ns[0]) for lane in filled), default=0)
    end = max((int(lane.end_ns[-1]) for lane in filled), default=1)
    awaited = awaited_ranks(launch)
    drawn = tuple(
        DrawnLane(rank, tuple(_stretches(lane, begin, max(end - begin, 1))), rank in awaited)
        for rank, lane in lanes.items()
    )
    ticks = tuple((100 * tick / _TICKS, format_ns((end - begin) * tick / _TICKS)) for tick in range(_TICKS + 1))
    return Lanes(key, title, drawn, ticks, _legend(filled))


def _stretches(lane: RankLane, begin: int, length: int) -> Iterator[Stretch]:
    """One path for each cause: `M12 0h5v10h-5z` for every piece."""
    paths: dict[int, list[str]] = defaultdict(list)
    time: dict[int, int] = defaultdict(int)
    for start, end, cause in zip(lane.start_ns.tolist(), lane.end_ns.tolist(), lane.cause.tolist(), strict=True):
        left = round(WIDTH * (start - begin) / length, 1)
        wide = round(WIDTH * (end - start) / length, 1) or 0.1
        paths[cause].append(f"M{left:g} 0h{wide:g}v{HEIGHT}h-{wide:g}z")
        time[cause] += end - start
    for cause, parts in sorted(paths.items()):
        about = format_ns(time[cause])
        if cause == WAITS:
            yield Stretch("", f"waits for other ranks: {about}", "".join(parts))
        else:
            yield Stretch(TAXONOMY[cause].slug, f"{TAXONOMY[cause].key}: {about}", "".join(parts))


def _legend(lanes: Sequence[RankLane]) -> tuple[Cause, ...]:
    total = np.zeros(len(TAXONOMY), np.int64)
    for lane in lanes:
        own = lane.cause >= 0
        np.add.at(total, lane.cause[own].astype(np.int64), (lane.end_ns - lane.start_ns)[own])
    order = np.argsort(-total, kind="stable")[:_MOST_LEGEND]
    return tuple(TAXONOMY[number] for number in order.tolist() if total[number])


def bars(hold: Hold) -> Bars:
    """The losses; of many meetings neighbours as one bar, which shows the largest of them."""
    most = float(hold.losses.max(initial=0.0))
    step = max(1, -(-len(hold.losses) // _MOST_BARS))
    parts = [hold.losses[first : first + step] for first in range(0, len(hold.losses), step)]
    wide = 100 / max(len(parts), 1)
    drawn = []
    for number, part in enumerate(parts):
        high = float(part.max())
        of = (
            f"meeting {number * step + 1}" if step == 1 else f"meetings {number * step + 1}–{number * step + len(part)}"
        )
        height = 100 * high / most if most else 0.0
        drawn.append((round(number * wide, 2), round(height, 1), f"{of}: {format_ns(high)}"))
    return Bars(tuple(drawn), round(max(wide - 0.1, wide * 0.8), 3), format_ns(most))


DESIGN = Design(
    lambda answer: printable(answer.subject.name),
    ("styles/page.css", "styles/compare.css", "styles/ranks.css"),
    "trial.js",
    lambda _: colour_rules(TAXONOMY),
    folder="ranks/",
    context=lambda answer: {
        "words": words,
        "awaited": awaited_ranks(answer.subject),
        "links": {rank.number: quote(rank.page) for rank in answer.subject.ranks if rank.page},
        "causes": BY_KEY,
        "height": HEIGHT,
        "width": WIDTH,
    },
)
