"""The answer to a question in SQL: a table in the terminal, or JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pinprof.report.export.streams import text_output
from pinprof.report.forms import write_json
from pinprof.report.names import printable


def write(relation: Any, form: str, output: Path | None) -> None:
    """Write a relation of DuckDB to a file or standard output: columns apart by tabs with a head, or a list of rows."""
    names, rows = relation.columns, relation.fetchall()
    with text_output(output) as stream:
        if form == "json":
            found = [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]
            write_json(found, stream)
            return
        for row in (names, *rows):
            stream.write("\t".join("" if cell is None else printable(str(cell)) for cell in row) + "\n")


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
