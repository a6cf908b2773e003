"""The tables of a fleet in DuckDB: views over the Parquet of its store, of the captures of the last run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinprof.base.errors import CaptureError, UsageError
from pinprof.fleet import tables
from pinprof.fleet.packages import package
from pinprof.fleet.store import BATCH, FAILED, PLACES


def connect(folder: Path, memory: str = "") -> Any:
    """A connection with the views `places` and those of `tables.COLUMNS`; CaptureError where there is no fleet.

    A recording that is there twice is in the other views once; `captures` has its first path.
    """
    store = folder / tables.KEY
    if not (store / PLACES).is_file():
        raise CaptureError(
            f"{folder} has no fleet of pinprof {tables.KEY.partition('-')[2]}.",
            "Create one: pinprof fleet CAPTURES --store FOLDER",
            "fleet-none",
        )
    duckdb = package("duckdb", "A fleet")
    connection = duckdb.connect(":memory:")
    if memory:
        connection.execute(f"SET memory_limit = {_quoted(memory)}")
    connection.execute(f"CREATE TABLE places AS SELECT * FROM read_parquet({_quoted(store / PLACES)})")
    batches = sorted(store.glob(f"{BATCH}*"))
    for table, columns in tables.COLUMNS.items():
        wanted = ", ".join(f'"{name}"' for name in columns if name != "capture")
        parts = [batch / f"{table}.parquet" for batch in batches]
        parts += [store / FAILED] if table == "captures" else []
        if not parts:
            fields = ", ".join(f'NULL::{_TYPES[kind]} AS "{name}"' for name, kind in columns.items())
            rows = f"(SELECT {fields} WHERE false)"
        else:
            rows = f"read_parquet([{', '.join(map(_quoted, parts))}])"
        path = "path, " if table == "captures" else ""
        connection.execute(
            f"CREATE VIEW {table} AS SELECT {path}capture, {wanted} FROM {rows} "
            "JOIN (SELECT capture, path FROM places WHERE copy_of = '') USING (capture)"
        )
    return connection


_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN"}


def query(connection: Any, sql: str) -> Any:
    """The relation that a question gives; UsageError where it is none."""
    duckdb = package("duckdb", "A fleet")
    try:
        found = connection.sql(sql)
    except duckdb.Error as error:
        raise UsageError(
            f"The SQL query failed: {error}.", f"Tables: places, {', '.join(tables.COLUMNS)}.", "fleet-sql"
        ) from error
    if found is None:
        raise UsageError("The SQL query is empty.", "Begin it with SELECT.", "fleet-sql")
    return found


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
