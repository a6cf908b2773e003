"""The tables of a fleet in DuckDB: views over the Parquet of its store, of the captures of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from pinprof.base.errors import CaptureError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet import tables
from pinprof.fleet.packages import package
from pinprof.fleet.store import FAILED, PLACES, batches, is_table

_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}
_EMPTY = {"string": "''", "int64": "0", "float64": "0", "bool": "false"}
_NULLABLE = ("bytes",)
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_PLAIN = frozenset((*_WHOLE, *(f"U{name}" for name in _WHOLE), "BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR"))
"""Types of DuckDB whose values are Python's own; those of all others come as DuckDB writes them."""
_AT_ONCE = 1000
"""Rows that are fetched together."""


def connect(folder: Path) -> Any:
    """A connection with the views `places` and those of `tables.COLUMNS`; CaptureError where there is no fleet.

    A recording that is there twice is in the other views once; `captures` has its first path.
    """
    store = folder / tables.KEY
    if not (store / PLACES).exists():
        raise CaptureError(
            f"{folder} has no fleet of pinprof {tables.KEY.partition('-')[2]}.",
            "Create one: pinprof fleet CAPTURES --store FOLDER",
            "fleet-none",
        )
    whole, damaged = batches(store)
    if not is_table(store / PLACES, tables.PLACES):
        damaged.append(store / PLACES)
    failed = [store / FAILED] if (store / FAILED).exists() else []
    damaged += [file for file in failed if not is_table(file, tables.COLUMNS["captures"])]
    if damaged:
        raise _damaged(f"{damaged[0]} has no tables of a fleet")
    connection = package("duckdb", "A fleet").connect(":memory:")
    with undamaged():
        # A damaged list may have a capture twice.
        connection.execute(
            f"CREATE TABLE places AS SELECT * FROM read_parquet({_quoted(store / PLACES)}) WHERE capture IS NOT NULL "
            "AND path IS NOT NULL QUALIFY copy_of <> '' OR row_number() OVER (PARTITION BY capture, copy_of) = 1"
        )
        for table in tables.COLUMNS:
            parts = [batch / f"{table}.parquet" for batch in whole]
            connection.execute(_view(table, [*parts, *failed] if table == "captures" else parts))
    return connection


def _view(table: str, parts: list[Path]) -> str:
    """The statement that makes the view of a table, each of whose captures is at its place."""
    columns = tables.COLUMNS[table]
    if parts:
        rows = f"read_parquet([{', '.join(map(_quoted, parts))}])"
    else:
        fields = ", ".join(f'NULL::{_TYPES[kind]} AS "{name}"' for name, kind in columns.items())
        rows = f"(SELECT {fields} WHERE false)"
    path, once = "", ""
    if table == "captures":
        path, once = "path, ", " QUALIFY row_number() OVER (PARTITION BY capture) = 1"
        wanted = ", ".join(f'"{name}"' for name in columns if name != "capture")
    else:
        # Where pinprof writes no NULL, there is some by damage alone.
        wanted = ", ".join(
            f'"{name}"' if name in _NULLABLE else f'coalesce("{name}", {_EMPTY[kind]}) AS "{name}"'
            for name, kind in columns.items()
            if name != "capture"
        )
    return (
        f"CREATE VIEW {table} AS SELECT {path}capture, {wanted} FROM {rows} "
        f"JOIN (SELECT capture, path FROM places WHERE copy_of = '') USING (capture){once}"
    )


@contextmanager
def undamaged() -> Iterator[None]:
    """Ask the tables inside: CaptureError where what DuckDB reads is damaged."""
    duckdb = package("duckdb", "A fleet")
    try:
        yield
    except duckdb.Error as error:
        raise _damaged(f"The tables of the fleet cannot be read: {_first_line(error)}") from error


def _damaged(problem: str) -> CaptureError:
    return CaptureError(
        f"{problem}.", "Run pinprof fleet again. If that does not help, remove the store first.", "fleet-store"
    )


@dataclass(frozen=True)
class QueryResult:
    """The result of a query."""

    names: tuple[str, ...]
    """Columns, each named once."""
    rows: Iterator[tuple[Any, ...]]
    """None, bool, int, float or text in each; UsageError where the query fails on the way."""


def query(connection: Any, sql: str) -> QueryResult:
    """What a question gives, a part of the rows at a time; UsageError where it is none."""
    with _meant():
        relation = _relation(connection, sql)
        # DuckDB finds `relation` by its name in this function.
        cursor = connection.execute(f"SELECT {_plain(relation)} FROM relation")
    return QueryResult(_distinct(relation.columns), _fetched(cursor))


def frame(connection: Any, sql: str) -> Any:
    """The same as a pandas DataFrame; where pandas cannot hold a column, all that are no numbers are text."""
    duckdb = package("duckdb", "A fleet")
    with _meant():
        relation = _relation(connection, sql)
        try:
            return relation.df()
        except duckdb.Error:
            return relation.project(_plain(relation)).df().set_axis(list(_distinct(relation.columns)), axis=1)


def _relation(connection: Any, sql: str) -> Any:
    found = connection.sql(sql.encode("utf-8", "replace").decode())
    if found is None:
        raise UsageError("The SQL query is empty.", "Begin it with SELECT.", "fleet-sql")
    return found


def _plain(relation: Any) -> str:
    """What to select of a relation for values that Python has without further packages, whatever their range is."""
    kinds = enumerate(map(str, relation.types), 1)
    return ", ".join(f"#{at}" if kind in _PLAIN else f"CAST(#{at} AS VARCHAR)" for at, kind in kinds)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names, those that come again with a number."""
    made: list[str] = []
    for name in names:
        free = (f"{name}_{number}" for number in count(1))
        made.append(name if name not in made else next(other for other in free if other not in (*made, *names)))
    return tuple(made)


def _fetched(cursor: Any) -> Iterator[tuple[Any, ...]]:
    with _meant():
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows


@contextmanager
def _meant() -> Iterator[None]:
    """Run what a user asks inside: UsageError where it cannot be meant."""
    duckdb = package("duckdb", "A fleet")
    try:
        yield
    except duckdb.Error as error:
        raise UsageError(
            f"The SQL query failed: {_first_line(error)}.", f"Tables: places, {', '.join(tables.COLUMNS)}.", "fleet-sql"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
