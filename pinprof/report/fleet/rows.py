"""The answer to a question in SQL: a table in the terminal, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pinprof.fleet.database import QueryResult
from pinprof.report.export.streams import text_output
from pinprof.report.names import printable


def write(asked: QueryResult, form: str, output: Path | None) -> None:
    """Write rows to a file or standard output as they come: columns apart by tabs with a head, or a list in JSON."""
    with text_output(output) as stream:
        if form == "json":
            before = "["
            for row in asked.rows:
                found = {name: _plain(value) for name, value in zip(asked.names, row, strict=True)}
                stream.write(f"{before}\n " + json.dumps(found, ensure_ascii=True, allow_nan=False))
                before = ","
            stream.write("\n]\n" if before == "," else "[]\n")
            return
        stream.write(_line(asked.names))
        for row in asked.rows:
            stream.write(_line(row))


def _line(cells: Iterable[Any]) -> str:
    return "\t".join("" if cell is None else printable(str(cell)) for cell in cells) + "\n"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
