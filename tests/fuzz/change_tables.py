"""Damage to Nsight Systems exports: the schema and the cells of SQLite, and of Parquet."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from random import Random
from typing import Any

from tests.fuzz.change_bytes import words
from tests.fuzz.hostile import REALS, number, text


def sqlite(random: Random, data: bytes) -> bytes:
    """A database with some statements run on it: cells, rows, columns and tables change."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.deserialize(data)
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(random.choice((1, 1, 2, 4))):
            _statement(random, base, random.choice(tables))
        return base.serialize()


def _statement(random: Random, base: sqlite3.Connection, table: str) -> None:
    quoted = '"' + table.replace('"', '""') + '"'
    try:
        columns = [f'"{row[1]}"' for row in base.execute(f"PRAGMA table_info({quoted})")]
        rows = [row for (row,) in base.execute(f"SELECT rowid FROM {quoted} LIMIT 200")]
        column, other = random.choice(columns), random.choice(columns)
        row = random.choice(rows) if rows else 0
        kind = random.randrange(13)
        if kind <= 5:
            base.execute(f"UPDATE {quoted} SET {column} = ? WHERE rowid = ?", (_cell(random), row))
        elif kind == 6:
            base.execute(f"UPDATE {quoted} SET {column} = ?", (_cell(random),))
        elif kind == 7:
            base.execute(f"UPDATE {quoted} SET {column} = {other}")
        elif kind == 8:
            base.execute(f"DELETE FROM {quoted} WHERE rowid >= ?", (row,))
        elif kind == 9:
            base.execute(f"ALTER TABLE {quoted} DROP COLUMN {column}")
        elif kind == 10:
            base.execute(
                f"ALTER TABLE {quoted} RENAME COLUMN {column} TO {random.choice(('x', 'id', 'value', 'start'))}"
            )
        elif kind == 11:
            base.execute(random.choice((f"DROP TABLE {quoted}", f"CREATE TABLE v AS SELECT * FROM {quoted}")))
        else:
            base.execute(f"INSERT INTO {quoted} SELECT * FROM {quoted} LIMIT 50")
    except (sqlite3.Error, OverflowError, IndexError, UnicodeError):
        return


def _cell(random: Random) -> Any:
    kind = random.randrange(8)
    if kind < 4:
        value = number(random)
        return value if -(2**63) <= value < 2**63 else str(value)
    if kind == 4:
        return None
    if kind == 5:
        return random.choice(REALS)
    if kind == 6:
        return random.randbytes(random.choice((0, 1, 9)))
    return text(random).encode("utf-8", "replace").decode()


def cells(random: Random, data: bytes) -> bytes:
    """A Parquet file with other values in its cells alone: what is checked first still fits."""
    return parquet(random, data, words_share=0.15, other_types=False)


def parquet(random: Random, data: bytes, *, words_share: float = 0.4, other_types: bool = True) -> bytes:
    """A Parquet file with other values, types, names or rows, or with words of its bytes changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if random.random() < words_share:
        return words(random, data)
    table = pq.read_table(pa.BufferReader(data))
    place = random.randrange(table.num_columns)
    kind = random.randrange(6) if other_types else random.randrange(2, 6)
    name, column = table.column_names[place], table.column(place).combine_chunks()
    if kind == 0:
        table = table.remove_column(place)
    elif kind == 1:
        table = table.rename_columns(["start" if at == place else other for at, other in enumerate(table.column_names)])
    elif kind == 2:
        table = table.slice(0, random.randrange(table.num_rows + 1))
    else:
        values = column.to_pylist()
        for at in random.sample(range(len(values)), min(len(values), random.choice((1, 3, 1000)))):
            values[at] = _cell(random)
        table = table.set_column(place, name, _array(random, values, column.type, other_types=other_types))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _array(random: Random, cells: list[Any], old: Any, *, other_types: bool) -> Any:
    """The cells in the old type or another one, those that do not fit as NULL."""
    import pyarrow as pa

    others = (pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date64())
    kind = random.choice((old, old, *others)) if other_types else old
    made = []
    for cell in cells:
        try:
            made.append(pa.scalar(cell, kind).as_py())
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            made.append(None)
    try:
        return pa.array(made, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(len(cells), kind)
