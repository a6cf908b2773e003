"""What the page of `pinprof try` draws: what each cure saved against what was predicted, and all runs, on one scale.

Nothing on it moves: its script does the theme and copying. Ratios are drawn on a logarithmic scale: half and twice as
much are equally far from no difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.names import printable
from pinprof.report.page.design import Design, change_colours
from pinprof.report.trial import words
from pinprof.trial.result import CureResult, Ratio, TrialResult, TrialSide

_MOST_DOTS = 200
"""Runs of one kind that are drawn one by one."""
_LEAST_SPAN = math.log(1.1)
"""The scale of ratios reaches at least so far to either side: small differences stay small."""
_MARGIN = 4.0
"""Percent of the width beside the outermost values."""
_TICKS = (0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """Where a value stands, in percent of the width."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Its place; values beyond the scale stand at its ends."""
        part = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(_MARGIN + (100 - 2 * _MARGIN) * min(max(part, 0.0), 1.0), 2)


@dataclass(frozen=True)
class DrawnRatio:
    """A ratio and its interval, as places."""

    low: float
    middle: float
    high: float


class Ratios:
    """The scale that all ratios share."""

    def __init__(self, ratios: Sequence[Ratio]) -> None:
        ends = [_log(end) for ratio in ratios for end in (ratio.low, ratio.high)]
        self.scale = Scale(min([-_LEAST_SPAN, *ends]), max([_LEAST_SPAN, *ends]))

    def drawn(self, ratio: Ratio) -> DrawnRatio:
        """Where it stands."""
        return DrawnRatio(*(self.scale.at(_log(value)) for value in (ratio.low, ratio.median, ratio.high)))

    @property
    def one(self) -> float:
        """Where no difference stands."""
        return self.scale.at(0.0)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(place, label) of round ratios that are far enough from each other, no difference among them."""
        chosen: list[tuple[float, str]] = [(self.one, "1")]
        for ratio in sorted(_TICKS, key=lambda ratio: abs(math.log(ratio))):
            place = self.scale.at(_log(ratio))
            inside = self.scale.low <= _log(ratio) <= self.scale.high
            if inside and all(abs(place - other) > 9 for other, _ in chosen):
                chosen.append((place, f"{ratio:g}"))
        return sorted(chosen)


@dataclass(frozen=True)
class Strip:
    """The runs of one kind: as is, or with one cure."""

    title: str
    dots: tuple[float, ...]
    median: float
    low: float
    high: float
    text: str
    cured: bool


def way(cure: CureResult) -> str:
    """The class of its colour; empty without significance."""
    if not cure.significant:
        return ""
    return "way-less" if cure.gain > 1 else "way-more"


def strips(result: TrialResult) -> list[Strip]:
    """The runs as they are, and those with each cure, on one scale."""
    sides = [("as it is", result.as_is, False)]
    sides += [(cure.title, cure.side, True) for cure in result.measured if cure.side is not None]
    scale = Scale(min(side.least for _, side, _ in sides), max(side.most for _, side, _ in sides))
    return [_strip(title, side, scale, result, cured=cured) for title, side, cured in sides]


def _strip(title: str, side: TrialSide, scale: Scale, result: TrialResult, *, cured: bool) -> Strip:
    low, middle, high = (words.amount(value, result.unit) for value in (side.least, side.median, side.most))
    return Strip(
        title=title,
        dots=tuple(map(scale.at, side.values[:_MOST_DOTS])),
        median=scale.at(side.median),
        low=scale.at(side.least),
        high=scale.at(side.most),
        text=f"median {middle}, {low} to {high}",
        cured=cured,
    )


def _log(ratio: float) -> float:
    return math.log(max(ratio, 1e-6))


def _title(result: TrialResult) -> str:
    title = printable(f"Try: {words.command_line(result)}")
    return title if len(title) <= 125 else f"{title[:117].rsplit(' ', 1)[0]}..."


DESIGN = Design(
    lambda answer: _title(answer.subject),
    ("styles/page.css", "styles/compare.css"),
    "trial.js",
    lambda _: change_colours(),
    folder="trial/",
    context=lambda _: {"words": words, "way": way},
)
