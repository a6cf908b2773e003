"""Managed memory: faults, migrations by cause and direction, and every migration over time and place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.activity.results import ActivityAnalysis, MigrationResult, ScopeActivity, UvmAnalysis
from pinprof.analyze.activity.uvm import SERVICE_NS, WARP_SERVICE_NS, at_most
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained, Tile
from pinprof.report.names import printable
from pinprof.report.section import ForScripts, Section
from pinprof.report.sections.uvm.migration_field import FIELD_STYLES, Marks, MigrationField, migration_field
from pinprof.report.styles import CAUSES, DIRECTIONS
from pinprof.report.terminal.layout import figures_table, sentence, style_colour, tiles_line, titled

_FUNCTIONS = 3
"""Functions that touched managed memory on the CPU, named in a note."""


@dataclass(frozen=True)
class ManagedMemory(Section[Explained]):
    """Managed memory in the whole recording."""

    key, title, short = "uvm", "Managed memory", "Managed"

    result: UvmAnalysis
    migrations: tuple[MigrationResult, ...]
    tiles: tuple[Tile, ...]
    notes: tuple[str, ...]
    field: MigrationField | None
    """None when no managed memory moved, or nobody draws it."""
    start_ns: int
    """As in `Shared`; 0 where there is none."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None when no managed memory moved or faulted."""
        activity = subject.shared.activity
        if activity is None or activity.uvm is None:
            return None
        field = migration_field(subject.run.capture, activity.uvm.blocks) if subject.shared.drawn else None
        tiles, notes = tuple(uvm_tiles(activity)), tuple(uvm_notes(activity.uvm))
        return cls(activity.uvm, activity.whole.migrations, tiles, notes, field, subject.shared.start_ns or 0)

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """What it did in a sentence, figures, migrations by cause and direction."""
        lines: list[RenderableType] = [sentence(printable(self.result.summary))]
        lines.append(tiles_line(self.tiles))
        if self.migrations:
            table = figures_table("cause", "direction", "count", "bytes", "median", "bandwidth")
            for moved in self.migrations:
                style = CAUSES[moved.cause]
                table.add_row(
                    Text(moved.cause, style_colour(style)),
                    DIRECTIONS[moved.direction],
                    units.format_count(moved.count),
                    Text(units.format_bytes(moved.size_bytes.total), "bold"),
                    units.format_bytes(moved.size_bytes.median),
                    units.format_rate(moved.size_bytes.total, moved.busy_ns),
                )
            lines.append(table)
        lines += [sentence(printable(note), "dim") for note in self.notes]
        yield from titled(self.title, Group(*lines))

    def for_scripts(self) -> ForScripts:
        """Every migration, to be drawn."""
        if self.field is None:
            return ForScripts()
        return ForScripts(drawings={"field": _drawn(self.field, self.field.start_ns - self.start_ns)})


def uvm_tiles(activity: ActivityAnalysis, scope: ScopeActivity | None = None) -> list[Tile]:
    """The figures that tell how managed memory behaved, in the whole recording or in a range: the same tiles."""
    uvm = activity.uvm
    if uvm is None:
        return []
    whole = scope or activity.whole
    kernel_ns, lost_ns = (scope.kernel_ns, scope.lost_ns) if scope else (uvm.kernel_ns, uvm.lost_ns)
    moves = whole.migrations
    down, up = (sum(m.size_bytes.total for m in moves if m.direction == way) for way in ("H2D", "D2H"))
    tiles = []
    if uvm.kernel_ns:
        tiles.append(
            Tile(
                f"of kernel time lost to faults ({at_most(uvm).lower()}{units.format_ns(lost_ns)})",
                units.format_share(lost_ns, kernel_ns),
                lost_ns > 0.1 * kernel_ns,
            )
        )
    if uvm.gpu_fault_groups is not None:
        label = f"groups of GPU faults, {units.format_count(whole.gpu_faults)} faults"
        tiles.append(Tile(label, units.format_count(whole.gpu_fault_groups), False))
    tiles += [
        Tile("moved to the device", units.format_bytes(down), False),
        Tile("moved to the host", units.format_bytes(up), False),
    ]
    if uvm.cpu_faults is not None:
        tiles.append(Tile("CPU faults on managed memory", units.format_count(whole.cpu_faults), False))
    moved = "–" if scope else f"{_few(uvm.moved_per_byte)} moves"
    tiles.append(Tile("per distinct byte", moved, False))
    return tiles


def _few(number: float) -> str:
    return f"{number:.2g}" if number < 10 else units.format_count(number)


def uvm_notes(uvm: UvmAnalysis) -> list[str]:
    """What the figures of managed memory rest on."""
    notes = []
    if uvm.lost_from == "migration causes" and uvm.kernel_ns:
        notes.append(
            f"GPU faults were not recorded. At most {units.format_ns(SERVICE_NS)} before each migration that a touch "
            f"caused count as waiting ({units.format_ns(WARP_SERVICE_NS)} in kernels with one warp). The rest of "
            "longer gaps counts as computing."
        )
    elif uvm.kernel_ns:
        notes.append("Lost kernel time is time in which the GPU waited for page faults while no data was copied.")
    if uvm.cpu_fault_functions:
        functions = ", ".join(
            f"{name} ({units.format_count(count)})" for name, count in uvm.cpu_fault_functions[:_FUNCTIONS]
        )
        notes.append(f"Touched on the CPU by {functions}.")
    return notes


def _drawn(field: MigrationField, start: int) -> dict[str, Any]:
    return {
        "span": field.span_ns,
        "extent": field.place_bytes,
        "count": field.count,
        "bySize": _marks(field.by_size),
        "byPlace": None if field.by_place is field.by_size else _marks(field.by_place),
        "kernels": field.kernels.columns(),
        "faults": field.faults.columns(),
        "styles": [asdict(style) for style in FIELD_STYLES],
        "start": start,
        "blocks": None
        if field.blocks is None
        else {name: column.tolist() for name, column in vars(field.blocks).items()},
    }


def _marks(marks: Marks) -> dict[str, list[int]]:
    return {**marks.spans.columns(), "place": marks.place.tolist()}
