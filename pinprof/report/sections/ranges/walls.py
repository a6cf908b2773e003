"""Wall time of ranges: where the time of the threads that opened them went.

On the page it stands among the ranges (`ranges_wall.html.j2`), in the terminal in a section of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.results import RangeResult, RangeWall
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.section import Section, picked
from pinprof.report.terminal.layout import cause, leaf_style, range_name, ranges_table, titled

REMAINDER = "unexplained"
_MOST, _NAME_WIDTH = 3, 24
_ERRORS = 5
"""A range of fewer standard errors of sampling is too short for shares."""
_SMALLEST = 0.002
"""Parts below this share of the wall time are drawn together."""


@dataclass(frozen=True)
class WallPart:
    """One part of a time."""

    leaf: str
    """A leaf of the taxonomy; empty for small parts together, and for what nothing explains."""
    label: str
    ns: int
    share: float
    """Part of all parts, 0 to 1."""


def parts_of(causes: Sequence[tuple[str, int]], left_ns: int, left: str, smallest: float) -> list[WallPart]:
    """As a bar shows them: (leaf, ns) of `causes`, those below `smallest` together, what is left; shares sum to 1."""
    explained = sum(ns for _, ns in causes)
    whole = explained + max(left_ns, 0)
    large = [(leaf, leaf, ns) for leaf, ns in causes if whole and ns >= smallest * whole]
    rest = explained - sum(ns for _, _, ns in large)
    parts = [*large, *([("", "others", rest)] if rest else []), *([("", left, left_ns)] if left_ns > 0 else [])]
    return [WallPart(leaf, label, ns, ns / whole) for leaf, label, ns in parts]


@dataclass(frozen=True)
class Wall:
    """The wall time of one row of ranges as people read it."""

    result: RangeWall

    @property
    def sampled_enough(self) -> bool:
        """Whether the range is long against the error of sampling; shares of a shorter one are chance."""
        return self.result.wall_ns >= _ERRORS * self.result.error_ns

    def parts(self) -> list[WallPart]:
        """CPU time by cause, waits, small parts, the remainder."""
        causes = [*self.result.on_cpu.items(), *self.result.off_cpu.items()]
        return parts_of(causes, self.result.remainder_ns, REMAINDER, _SMALLEST)

    def most(self, count: int = 4, share: float = 0.02) -> list[WallPart]:
        """The heaviest causes and waits."""
        large = [part for part in self.parts() if part.leaf and part.share >= share]
        return sorted(large, key=lambda part: -part.ns)[:count]


def wall_json(wall: RangeWall) -> dict[str, Any]:
    """As documented."""
    figures = picked(wall, "wall_ns on_cpu_ns off_cpu_ns gpu_ns remainder_ns error_ns")
    return figures | {"on_cpu": dict(wall.on_cpu), "off_cpu": dict(wall.off_cpu)}


@dataclass(frozen=True)
class Walls(Section[Explained]):
    """The ranges whose wall time is explained."""

    key = "walls"
    after = (("text", "lines"),)

    rows: tuple[tuple[RangeResult, Wall], ...]

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where waits were not recorded."""
        shown = (subject.shared.ranges[index] for index in subject.shared.shown.index.tolist())
        rows = tuple((entry, Wall(entry.wall)) for entry in shown if entry.wall)
        return cls(rows) if rows else None

    def on_page(self) -> bool:
        """The template of the ranges includes it."""
        return False

    def to_text(self, _: Console) -> Iterator[RenderableType]:
        """How much of each range its thread ran, waited, or neither."""
        gpu = any(wall.result.gpu_ns for _, wall in self.rows)
        table = ranges_table(_NAME_WIDTH, "wall each", "on CPU", *(("GPU",) if gpu else ()), "waits", "rest")
        table.add_column("main causes", overflow="fold")
        for entry, wall in self.rows:
            parts, result = Text(), wall.result
            for part in wall.most(_MOST):
                parts += cause(part.leaf, units.format_share(part.share, 1), leaf_style(part.leaf))

            def share(ns: int, known: bool = wall.sampled_enough, whole_ns: int = result.wall_ns) -> str:
                return units.format_share(ns, whole_ns) if known else "–"

            table.add_row(
                range_name(entry),
                units.format_ns(result.wall_ns / entry.count),
                share(result.on_cpu_ns),
                *((share(result.gpu_ns),) if gpu else ()),
                units.format_share(result.off_cpu_ns, result.wall_ns),
                share(result.remainder_ns),
                parts if wall.sampled_enough else Text("too short for the sampling rate", "dim"),
            )
        notes = [Text("GPU: waiting for the GPU, on or off the CPU; part of both columns.", "dim")] if gpu else []
        yield from titled("Wall time of the threads that opened the ranges", Group(table, *notes))
