"""What the page of a comparison shows of its rows: words, bars and colours; figures come from the comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_weight
from pinprof.compare.results import FAMILIES, Difference, Family, Fate, OpportunityChange, Row
from pinprof.report.compare import words

_FIRST, _MOST = 8, 100
"""Rows of a family that are open at first, and that the page has at all."""
_MOST_DOTS = 30
"""Runs of a side that are drawn one by one."""
_COLUMNS: Mapping[Family, str] = {
    "phase": "Phase", "range": "Range", "call": "Call", "cause": "Cause", "line": "Line", "event": "Event",
}  # fmt: skip
_CARDS: Mapping[Fate, str] = {"gone": "ok", "new": "warning", "stayed": "info"}
"""How the cards of opportunities look."""


@dataclass(frozen=True)
class ShownRow:
    """One row of a table. Bars and dots are percentages of the widest bar of its unit in the family."""

    row: Row
    before: float
    after: float
    runs_before: tuple[float, ...]
    runs_after: tuple[float, ...]

    @property
    def way(self) -> str:
        """The class of its colour; empty where chance may be all that it shows."""
        if not self.row.significant or not self.row.change:
            return ""
        return "way-less" if self.row.change < 0 else "way-more"

    @property
    def words(self) -> str:
        """The bars for readers who do not see them."""
        before, after = (format_weight(one, self.row.unit) for one in (self.row.mean_before, self.row.mean_after))
        return f"{before} before, {after} after"

    @property
    def place(self) -> str:
        """What to search the flamegraph for: a line ends its function's name."""
        return f"{self.row.name})" if re.search(r":\d+$", self.row.name) else self.row.name


@dataclass(frozen=True)
class ShownFamily:
    """One table."""

    key: Family
    title: str
    column: str
    first: tuple[ShownRow, ...]
    rest: tuple[ShownRow, ...]
    left_out: int

    @property
    def rows(self) -> tuple[Row, ...]:
        """All that the page has."""
        return tuple(one.row for one in (*self.first, *self.rest))

    @property
    def tested(self) -> bool:
        """Whether there is a column of intervals."""
        return any(not row.untested for row in self.rows)

    @property
    def known(self) -> bool:
        """Whether it is known of any row which change would have been found."""
        return any(row.detectable is not None for row in self.rows)


def shown_families(difference: Difference) -> list[ShownFamily]:
    """The tables, in the order of the families, those without rows left out."""
    return [_family(difference, key, rows) for key in FAMILIES if (rows := difference.family(key))]


def _family(difference: Difference, key: Family, rows: Sequence[Row]) -> ShownFamily:
    widest: dict[tuple[str, str], float] = {}
    for row in rows:
        scale = (row.unit, row.per)
        widest[scale] = max(widest.get(scale, 0.0), *row.before, *row.after)
    shown = tuple(_row(row, widest[row.unit, row.per]) for row in rows[:_MOST])
    first = _FIRST + 1 if len(shown) == _FIRST + 1 else _FIRST
    title = words.family_title(difference, key)
    return ShownFamily(key, title, _COLUMNS[key], shown[:first], shown[first:], len(rows) - len(shown))


def _row(row: Row, widest: float) -> ShownRow:
    def part(value: float) -> float:
        return round(100 * max(value, 0.0) / widest, 2) if widest else 0.0

    dots = [tuple(map(part, side)) if 1 < len(side) <= _MOST_DOTS else () for side in (row.before, row.after)]
    return ShownRow(row, part(row.mean_before), part(row.mean_after), *dots)


@dataclass(frozen=True)
class CausePart:
    """A cause in the bar of one side; `start` and `width` in percent of the longer bar."""

    cause: str
    start: float
    width: float
    text: str

    @property
    def label(self) -> str:
        """Its name, where there is room for it on a wide page."""
        return self.cause if self.width > 2 + 0.8 * len(self.cause) else ""


def stacked(difference: Difference) -> Iterator[tuple[str, str, list[CausePart]]]:
    """(side, its sum, its causes) of the causes' times, in the same order on both sides.

    Nothing where they have several units, or where one side's shares say nothing of the other's.
    """
    rows = difference.family("cause")
    units = {row.unit for row in rows}
    if len(units) != 1 or not difference.shares:
        return
    unit = units.pop()
    order = sorted(rows, key=lambda row: -max(row.mean_before, row.mean_after))
    sides = [[(row.name, getattr(row, f"mean_{side}")) for row in order] for side in ("before", "after")]
    longest = max(sum(value for _, value in side) for side in sides)
    if not longest:
        return
    for name, side in zip(("Before", "After"), sides, strict=True):
        parts, start = [], 0.0
        for cause, value in side:
            width = 100 * value / longest
            if value:
                parts.append(CausePart(cause, round(start, 3), round(width, 3), format_weight(value, unit)))
            start += width
        yield name, format_weight(sum(value for _, value in side), unit), parts


@dataclass(frozen=True)
class ShownFate:
    """What became of opportunities, those of one fate."""

    title: str
    card: str
    changes: tuple[OpportunityChange, ...]


def shown_fates(difference: Difference) -> list[ShownFate]:
    """Gone, new and stayed; those without any left out."""
    fates = []
    for fate, card in _CARDS.items():
        changes = tuple(one for one in difference.opportunities if one.fate == fate)
        if changes:
            fates.append(ShownFate(words.FATE_TITLES[fate], card, changes))
    return fates
