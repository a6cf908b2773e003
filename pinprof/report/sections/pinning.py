"""Time to pinned memory by threads, as a scenario measured it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze import Run
from pinprof.analyze.costs.results import PinningCurve, PinningTime, threads_text
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report import palette
from pinprof.report.data import ReportData, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section, picked
from pinprof.report.terminal.layout import plain_table, sentence, titled

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 220, 52, 12, 12, 34
"""Measures of the drawn curve, in its own units."""
_TICKS = 4
_BAR = 24
"""Cells of the longest bar in the terminal."""


@dataclass(frozen=True)
class Mark:
    """A point of the drawn curve."""

    x: float
    y: float
    least_y: float
    most_y: float
    label: str
    title: str


@dataclass(frozen=True)
class CurveDrawing:
    """The curve in the units of its view box."""

    width: int
    height: int
    left: int
    right: int
    bottom: float
    path: str
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    baseline_y: float
    baseline_label: str


def _tick(most: float) -> float:
    """A round step of which `_TICKS` cover `most`."""
    size = 1.0
    while size * 10 * _TICKS <= most:
        size *= 10
    return next((size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * _TICKS >= most), size * 10)


@dataclass(frozen=True)
class Pinning(Section):
    """The measured curve."""

    key, title = "pinning", "Time to pinned memory"
    absent = (("pinning", None),)

    curve: PinningCurve

    @classmethod
    def build(cls, analysis: Run, _: Shared) -> Self | None:
        """None unless it was measured."""
        return cls(analysis.pinning) if analysis.pinning else None

    @property
    def rows(self) -> list[tuple[str, PinningTime]]:
        """(name, time) of the one call and of every number of threads."""
        points = [(threads_text(point.threads), point) for point in self.curve.points]
        return [(self.curve.call, self.curve.baseline), *points]

    @property
    def drawing(self) -> CurveDrawing:
        """Time per GiB over threads, equal steps from one number to the next, with the one call as a line."""
        curve = self.curve
        step = _tick(curve.per_gib(max(curve.baseline.most_ns, *(point.most_ns for point in curve.points))))
        top = step * _TICKS
        bottom = _HEIGHT - _BOTTOM
        between = (_WIDTH - _LEFT - _RIGHT) / max(len(curve.points), 1)

        def y(ns: float) -> float:
            return round(bottom - (bottom - _TOP) * curve.per_gib(ns) / top, 2)

        marks = tuple(
            Mark(
                round(_LEFT + between * (number + 0.5), 2),
                y(point.median_ns),
                y(point.least_ns),
                y(point.most_ns),
                str(point.threads),
                f"{threads_text(point.threads)}: {units.format_ns(curve.per_gib(point.median_ns))}/GiB",
            )
            for number, point in enumerate(curve.points)
        )
        ticks = tuple(
            (round(bottom - (bottom - _TOP) * number / _TICKS, 2), units.format_ns(step * number) if number else "0")
            for number in range(_TICKS + 1)
        )
        label = f"{curve.call}: {units.format_ns(curve.per_gib(curve.baseline.median_ns))}/GiB"
        path = " ".join(f"{mark.x},{mark.y}" for mark in marks)
        return CurveDrawing(
            _WIDTH, _HEIGHT, _LEFT, _WIDTH - _RIGHT, bottom, path, marks, ticks, y(curve.baseline.median_ns), label
        )

    def to_json(self) -> dict[str, Any]:
        """Every point."""
        times = {"baseline": asdict(self.curve.baseline), "points": [asdict(point) for point in self.curve.points]}
        return {"pinning": picked(self.curve, "size_bytes call") | times}

    def to_text(self, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
        """Every way and how long it takes, with a bar."""
        curve, rows = self.curve, self.rows
        longest = max(time.median_ns for _, time in rows)
        colour = palette.level_colour("pin", dark=True)
        table = plain_table()
        table.add_column("", overflow="fold", max_width=40)
        for title in ("per GiB", "least", "most"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for name, time in rows:
            cells = round(_BAR * time.median_ns / longest) if longest else 0
            table.add_row(
                Text(printable(name)),
                Text(units.format_ns(curve.per_gib(time.median_ns)), "bold"),
                units.format_ns(curve.per_gib(time.least_ns)),
                units.format_ns(curve.per_gib(time.most_ns)),
                Text("█" * cells, colour if time.threads else "dim"),
            )
        runs = units.format_counted(curve.baseline.runs, "run", "runs")
        what = f"{units.format_bytes(curve.size_bytes)}, {runs}: median, minimum and maximum."
        yield from titled(self.title, Group(sentence(printable(curve.sentence())), table, sentence(what, "dim")))
