"""The tables that captures become: their columns with types, and as Parquet.

Times are nanoseconds, sizes bytes. `capture` names a capture by its content in every table. Strings are UTF-8 of at
most `LONGEST` characters: what a name cannot say in UTF-8 is replaced.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from pinprof import __version__
from pinprof.base.terminal import clipped
from pinprof.fleet.packages import package

SCHEMA = 1
"""The version of the tables. Schema history: 1 — first version."""
KEY = f"{SCHEMA}-{__version__}"
"""What a capture was mapped by: tables of another schema or version of pinprof are not mixed with these."""
MOST_BYTES = 2_000_000
"""Of one capture's tables together."""
MOST_ROWS = 20_000
"""Of one capture's largest table."""
LONGEST, LONGEST_PATH = 300, 1 << 16

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Table → its rows."""

_TEXT, _INT, _FLOAT, _BOOL = "string", "int64", "float64", "bool"
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "captures": {
        "capture": _TEXT,
        "state": _TEXT,  # `read`, or `unreadable`
        "reason": _TEXT,  # why it could not be read; empty otherwise
        "again": _BOOL,  # whether another try may end differently: a tool was missing, a store did not answer
        "program": _TEXT,  # name of the program, which captures are compared within
        "command": _TEXT,
        "launch": _TEXT,
        "rank": _INT,
        "ranks": _INT,
        "started_utc": _TEXT,  # ISO 8601
        "duration_ns": _INT,  # of the run
        "critical_ns": _INT,  # of the critical thread's life
        "work_ns": _INT,  # of its work
        "samples": _INT,
        "exit_status": _INT,
        "outcome": _TEXT,  # `complete`, `interrupted`, `failed`, or what of the run is missing
        "answer": _TEXT,  # the report's first sentence
        "pinprof": _TEXT,  # version that recorded
        "bytes": _INT,  # of the capture
    },
    "facts": {"capture": _TEXT, "dimension": _TEXT, "value": _TEXT},
    "work": {"capture": _TEXT, "unit": _TEXT, "count": _FLOAT},
    "costs": {
        "capture": _TEXT,
        "measure": _TEXT,  # `wall`: the critical thread's time; else an event, over all threads
        "unit": _TEXT,
        "phase": _TEXT,
        "cause": _TEXT,
        "range": _TEXT,
        "file": _TEXT,
        "line": _INT,
        "function": _TEXT,
        "call": _TEXT,  # the CUDA call in which the time passed
        "weight": _INT,  # in the unit
        "samples": _INT,
    },
    "calls": {
        "capture": _TEXT,
        "call": _TEXT,
        "purpose": _TEXT,
        "count": _INT,
        "total_ns": _INT,
        "median_ns": _INT,
        "most_ns": _INT,
        "bytes": _INT,
        "failures": _INT,
    },
    "opportunities": {
        "capture": _TEXT,
        "rank": _INT,
        "title": _TEXT,
        "place": _TEXT,
        "function": _TEXT,
        "phase": _TEXT,
        "cure": _TEXT,
        "advice": _TEXT,
        "causes": _TEXT,
        "count": _INT,
        "bytes": _INT,
        "cost_ns": _INT,
        "saving_ns": _INT,
        "saving_low_ns": _INT,
        "saving_high_ns": _INT,
    },
    "losses": {"capture": _TEXT, "what": _TEXT, "count": _INT},
}
"""Table → column → type."""
PLACES = {"path": _TEXT, "capture": _TEXT, "stamp": _TEXT, "copy_of": _TEXT}
"""Columns of the list of captures of the last run: where each is, and whether it is a copy of another."""


def clean(text: str, longest: int = LONGEST) -> str:
    """A text as a table holds it, of limited length."""
    return clipped(text, longest).encode("utf-8", "replace").decode("utf-8")


def schema_of(columns: Mapping[str, str]) -> Any:
    """Columns as Arrow's schema."""
    arrow = package("pyarrow", "The tables of a fleet")
    return arrow.schema([(name, arrow.type_for_alias(kind)) for name, kind in columns.items()])


def table_of(columns: Mapping[str, str], rows: Sequence[Row], longest: int = LONGEST) -> Any:
    """Rows as an Arrow table; what a row does not have is null."""
    arrow = package("pyarrow", "The tables of a fleet")
    values = {name: [_value(row.get(name), longest) for row in rows] for name in columns}
    return arrow.table(values, schema=schema_of(columns))


def _value(value: Any, longest: int) -> Any:
    return clean(value, longest) if isinstance(value, str) else value


def to_parquet(table: Any) -> bytes:
    """An Arrow table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    package("pyarrow.parquet", "The tables of a fleet").write_table(table, sink, compression="zstd")
    return sink.getvalue()


def packed(rows: Rows) -> dict[str, bytes]:
    """Table → Parquet, of the tables that have rows."""
    return {name: to_parquet(table_of(COLUMNS[name], found)) for name, found in rows.items() if found}
