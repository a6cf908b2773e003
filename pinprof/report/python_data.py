"""Python lines as a report shows them: cut to the heavy ones, what is left out summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pinprof.analyze import Analysis
from pinprof.analyze.python_lines import PythonEvent, PythonLine

MOST_LINES = 40
SMALLEST_SHARE = 0.002
"""Of the event's weight; lines below it are summed up."""


@dataclass(frozen=True, slots=True)
class PythonTable:
    """One event by line of Python (by function, where no line is known)."""

    event: str
    unit: str
    total: int
    """Of the event, with and without Python."""
    weight: int
    """Of the samples with Python functions."""
    undecided: int
    """Of these, what is at a line that is not known."""
    has_lines: bool
    rows: tuple[PythonLine, ...]
    """Heaviest first."""
    rest: int
    """How many lines are left out."""
    rest_weight: int

    @property
    def noun(self) -> str:
        """What a row is."""
        return "line" if self.has_lines else "function"

    def to_json(self) -> dict[str, Any]:
        """The documented JSON of one event."""
        return {
            "event": self.event,
            "total": self.total,
            "weight": self.weight,
            "undecided": self.undecided,
            "lines": [_line_json(row) for row in self.rows],
            "rest": self.rest,
            "rest_weight": self.rest_weight,
        }


def python_tables(analysis: Analysis) -> tuple[PythonTable, ...]:
    """The tables of a recording, in the order of its events; empty without Python functions."""
    return tuple(_table(analysis, found) for found in analysis.python)


def main_threads(threads: Mapping[str, int], most: int = 2) -> str:
    """Names of the threads that a line ran in, heaviest first: `pt_data_pin`, `main, worker + 3 more`."""
    names = [name for name in threads if name]
    more = f" + {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _table(analysis: Analysis, found: PythonEvent) -> PythonTable:
    event = analysis.capture.events[found.event]
    rows = [line for line in found.lines[:MOST_LINES] if line.weight >= SMALLEST_SHARE * found.total]
    return PythonTable(
        event=event.name,
        unit=event.unit,
        total=found.total,
        weight=found.weight,
        undecided=found.undecided,
        has_lines=found.has_lines,
        rows=tuple(rows),
        rest=len(found.lines) - len(rows),
        rest_weight=found.weight - found.undecided - sum(line.weight for line in rows),
    )


def _line_json(line: PythonLine) -> dict[str, Any]:
    return asdict(line) | {"leaves": dict(line.leaves), "threads": dict(line.threads)}
