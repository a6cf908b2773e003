"""A table of results, as Markdown and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under a heading; a program that could not be measured has a note instead."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: list[dict[str, Any]] = field(default_factory=list)
    """What the rows were made of, one entry for each."""

    def add(self, row: Sequence[str], **data: Any) -> None:
        """A row, and the figures behind it."""
        assert len(row) == len(self.columns)
        self.rows.append(tuple(row))
        self.data.append(data)

    def markdown(self) -> str:
        """The table under its title, with its notes."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            head = [self.columns, tuple("---" for _ in self.columns)]
            lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (*head, *self.rows)]
        else:
            lines.append("Nothing was measured.")
        lines += ["", *(f"- {note}" for note in self.notes), *([""] if self.notes else [])]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"title": self.title, "rows": self.data, "notes": self.notes}
