"""Columns of integers out of an Nsight Systems export, whichever way it is stored.

`SqliteSource` reads large tables from the file's pages (`pages`), the others by SQL, with the standard library alone.
There, fetching a Python integer for every cell is what costs: 4.75 million rows take 1.9 s of CPU from their pages, and
ten times that by SQL; ADBC and ConnectorX need half of what SQL takes, and a binary dependency of 100 MB.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from pinprof.base.errors import CaptureError, FormatError, ToolMissing
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32
from pinprof.read.nsys.numbers import DTYPES, ID_MASK, SHIFT, Numbers, cut, from_pages, missing
from pinprof.read.nsys.pages import PageLayout, TablePages, Unusual, Values
from pinprof.read.nsys.schema import Column, GlobalIdPart
from pinprof.read.reader import Progress, untold

MAGIC = b"SQLite format 3\0"
EXPORT_AGAIN = "Export it again: nsys export --type sqlite REPORT.nsys-rep."

_ROWS = 1 << 16
"""Rows fetched in one go."""
LEAST_BYTES = 1 << 20
"""The pages of smaller tables are left to SQLite."""


class OpenedExport(Protocol):
    """An opened export."""

    @property
    def path(self) -> str:
        """Where it lies."""

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Table → its columns."""

    def numbers(self, table: str, columns: Sequence[tuple[Column, str]]) -> Numbers:
        """Columns of a table, given with their names in the export, in the table's own order of rows."""

    def rows(self, table: str) -> int:
        """How many rows a table has."""

    def texts(self, table: str, column: str) -> tuple[Int32, list[str]]:
        """A column of text as indices into its distinct values, -1 for NULL."""

    def facts(self, table: str, keys: Collection[str]) -> dict[str, str]:
        """The rows of a table of (name, value) whose name is among `keys`; the first of several wins."""

    def strings(self, table: str, key: str, value: str, ids: Collection[int]) -> dict[int, str]:
        """Values of the rows whose key is among `ids`."""


@contextmanager
def open_source(path: Path, progress: Progress = untold) -> Iterator[OpenedExport]:
    """An SQLite file, whose reading tells its progress, or a folder of .parquet files.

    CaptureError or FormatError if it cannot be read.
    """
    if path.is_dir():
        yield ParquetSource(path)
        return
    check_whole(path)
    location = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with _readable(path), closing(sqlite3.connect(location, uri=True)) as base:
        base.text_factory = bytes
        yield SqliteSource(path, base, progress)


def check_whole(path: Path) -> None:
    """FormatError unless an SQLite file is as long as its header says and nobody is still writing it.

    Source: SQLite's "Database File Format", 1.3: page size at byte 16, number of pages at byte 28, which counts when
    the numbers at bytes 24 and 92 agree.
    """
    for suffix in ("-journal", "-wal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise CaptureError(
                f"{path} is half-written: {beside.name} is next to it.",
                f"Wait until nsys has finished. If it was interrupted, export again. {EXPORT_AGAIN}",
                "nsys-half-written",
            )
    with path.open("rb") as file:
        head = file.read(100)
    if head[:16] != MAGIC or len(head) < 100:
        raise _damaged(path, "a header of SQLite", f"{len(head)} bytes without one", 0)
    page = int.from_bytes(head[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    size = path.stat().st_size
    if head[24:28] == head[92:96] and size < expected:
        raise _damaged(path, f"{expected} bytes, as its header says,", "the end of the file", size)


def _damaged(path: Path, expected: str, found: str, offset: int) -> FormatError:
    return FormatError(
        str(path), expected=expected, found=found, offset=offset, remedy=EXPORT_AGAIN, slug="nsys-damaged"
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Messages of SQLite quote the damaged file, and Python takes them for UTF-8.
        reason = "its table definitions are not text" if isinstance(error, UnicodeDecodeError) else str(error)[:200]
        raise CaptureError(f"{path} is a damaged SQLite file: {reason}.", EXPORT_AGAIN, "nsys-damaged") from error


@dataclass(frozen=True)
class _Stored:
    """One table of an SQLite file."""

    root: int
    """Its first page."""
    columns: Mapping[str, int]
    """Name → place in its records."""
    never_null: frozenset[str]
    integers: frozenset[str]
    """Columns that SQLite gives as they are stored, where that is an integer."""
    plain: bool
    """Whether every column is in the records, at its place."""

    @classmethod
    def of(cls, root: int, described: Iterable[tuple[Any, ...]]) -> Self:
        """From the rows of table_xinfo: place, name, declared type, NOT NULL, default, place in the key, hidden."""
        rows = [(place, _decoded(name), _decoded(kind), *more) for place, name, kind, *more in described]
        return cls(
            root,
            {name: place for place, name, *_ in rows},
            frozenset(name for _, name, _, never_null, *_ in rows if never_null),
            # Other types may turn integers into floats or text; columns without one keep what they get.
            frozenset(name for _, name, kind, *_ in rows if not kind or "INT" in kind.upper()),
            # A key of one column may stand for the row id, and is then not in the record.
            not any(hidden for *_, hidden in rows) and sum(key > 0 for *_, key, _ in rows) != 1,
        )


class SqliteSource:
    """An export of type sqlite. Views and virtual tables are not looked at: nsys makes none."""

    def __init__(self, path: Path, base: sqlite3.Connection, progress: Progress = untold) -> None:
        self.path = str(path)
        self._progress = progress
        self._size_bytes, self._read_bytes = path.stat().st_size, 0
        self._base = base
        base.execute("PRAGMA trusted_schema = OFF")
        query = "SELECT name, rootpage FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        listed = [(_decoded(name), root) for name, root in base.execute(query).fetchall()]
        self._stored = {
            name: _Stored.of(root, base.execute(f"PRAGMA table_xinfo({_quoted(name)})")) for name, root in listed
        }
        self.tables = {name: frozenset(stored.columns) for name, stored in self._stored.items()}
        try:
            self._layout: PageLayout | None = PageLayout.of(path)
        except Unusual:
            self._layout = None

    def numbers(self, table: str, columns: Sequence[tuple[Column, str]]) -> Numbers:
        """See `OpenedExport`. Large tables are read from their pages, if these are as usual."""
        stored = self._stored[table]
        if self._layout is not None and stored.plain and stored.integers.issuperset(name for _, name in columns):
            with suppress(Unusual):
                pages = TablePages(Path(self.path), self._layout, stored.root, len(stored.columns))
                if pages.size_bytes >= LEAST_BYTES:
                    places = [(column, stored.columns[name], name in stored.never_null) for column, name in columns]
                    return from_pages(pages, places, self._count)
        return self._selected(table, columns)

    def _count(self, size_bytes: int) -> None:
        """Take in that so much more of the file was read; a table may be read twice."""
        self._read_bytes += size_bytes
        self._progress(min(self._read_bytes / self._size_bytes, 1))

    def _selected(self, table: str, columns: Sequence[tuple[Column, str]]) -> Numbers:
        """The columns by SQL."""
        never_null = self._stored[table].never_null
        selected = ", ".join(_expression(column, name, never_null=name in never_null) for column, name in columns)
        # NOT INDEXED keeps all reads of a table in the same order of rows.
        cursor = self._base.execute(f"SELECT {selected} FROM {_quoted(table)} NOT INDEXED")  # noqa: S608 - quoted
        cells = chain.from_iterable(cursor)
        pieces: dict[str, list[NDArray[Any]]] = {column.name: [] for column, _ in columns}
        while True:
            try:
                block = np.fromiter(islice(cells, _ROWS * len(columns)), np.int64).reshape(-1, len(columns))
            except (TypeError, ValueError, OverflowError) as error:
                raise CaptureError(
                    f"{self.path} has values that are not integers in {table}: {error}.", EXPORT_AGAIN, "nsys-damaged"
                ) from error
            for (column, _), value in zip(columns, block.T, strict=True):
                # Up to the sign bit and down again: its sign is kept.
                whole = value << (64 - column.bits) >> (64 - column.bits)
                pieces[column.name].append(whole.astype(DTYPES[column.bits]))
            if len(block) < _ROWS:
                return {column.name: np.concatenate(pieces.pop(column.name)) for column, _ in columns}

    def rows(self, table: str) -> int:
        """See `OpenedExport`."""
        return int(self._base.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])  # noqa: S608 - quoted

    def texts(self, table: str, column: str) -> tuple[Int32, list[str]]:
        """See `OpenedExport`."""
        query = f"SELECT CAST({_quoted(column)} AS TEXT) FROM {_quoted(table)} NOT INDEXED"  # noqa: S608 - quoted
        distinct: dict[bytes | None, int] = {None: -1}
        ids = np.fromiter((distinct.setdefault(v, len(distinct) - 1) for (v,) in self._base.execute(query)), np.int32)
        return ids, [_decoded(value) for value in distinct if value is not None]

    def facts(self, table: str, keys: Collection[str]) -> dict[str, str]:
        """See `OpenedExport`."""
        if not {"name", "value"} <= self.tables.get(table, frozenset()):
            return {}
        return dict(reversed(list(self._lookup(table, "name", "value", keys))))

    def strings(self, table: str, key: str, value: str, ids: Collection[int]) -> dict[int, str]:
        """See `OpenedExport`."""
        return dict(self._lookup(table, key, value, ids))

    def _lookup(self, table: str, key: str, value: str, keys: Collection[Any]) -> Iterator[tuple[Any, str]]:
        """(key, value) of the rows whose key is among `keys`."""
        wanted = iter(keys)
        while batch := list(islice(wanted, 500)):
            places = ", ".join("?" * len(batch))
            query = (
                f"SELECT {_quoted(key)}, CAST({_quoted(value)} AS TEXT) FROM {_quoted(table)} "  # noqa: S608 - quoted
                f"WHERE {_quoted(key)} IN ({places})"
            )
            for name, text in self._base.execute(query, batch):
                if text is not None:
                    yield _decoded(name) if isinstance(name, bytes) else name, _decoded(text)


class ParquetSource:
    """An export of type parquetdir: one TABLE.parquet for each table."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise ToolMissing(
                f"{path} holds Parquet files, which need the Python package pyarrow.",
                "Install it with: pip install 'pinprof[nsys]'; an export of type sqlite reads without it.",
                "pyarrow",
            ) from None
        self.path = str(path)
        self._parquet = parquet
        self._errors = (pa.ArrowException, OSError, ValueError)
        self._files = {file.stem: file for file in sorted(path.glob("*.parquet"))}
        with self._readable():
            said = {name: parquet.read_metadata(file) for name, file in self._files.items()}
            self.tables = {name: frozenset(one.schema.to_arrow_schema().names) for name, one in said.items()}
            self._rows = {name: int(one.num_rows) for name, one in said.items()}

    def numbers(self, table: str, columns: Sequence[tuple[Column, str]]) -> Numbers:
        """See `OpenedExport`."""
        with self._readable():
            stored = self._columns(table, {name for _, name in columns})
            return {column.name: _numbers(stored[name], column) for column, name in columns}

    def _columns(self, table: str, names: Collection[str]) -> dict[str, Any]:
        """Columns of a table; ValueError where a damaged file does not have as many values of each as it has rows."""
        stored, rows = self._parquet.read_table(self._files[table], columns=sorted(names)), self._rows[table]
        if any(stored.column_names.count(name) != 1 or len(stored[name]) != rows for name in names):
            raise ValueError(f"its columns do not have {rows} values each")
        return {name: stored[name] for name in names}

    def rows(self, table: str) -> int:
        """See `OpenedExport`."""
        return self._rows[table]

    def texts(self, table: str, column: str) -> tuple[Int32, list[str]]:
        """See `OpenedExport`."""
        with self._readable():
            values = self._columns(table, [column])[column]
            encoded = values.cast("large_binary").combine_chunks().dictionary_encode()
            ids = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            return ids, [_decoded(value) for value in encoded.dictionary.to_pylist()]

    def facts(self, table: str, keys: Collection[str]) -> dict[str, str]:
        """See `OpenedExport`."""
        if not {"name", "value"} <= self.tables.get(table, frozenset()):
            return {}
        (names, keyed), (values, shown) = self.texts(table, "name"), self.texts(table, "value")
        rows = reversed(list(zip(names.tolist(), values.tolist(), strict=True)))
        return {keyed[name]: shown[value] for name, value in rows if min(name, value) >= 0 and keyed[name] in keys}

    def strings(self, table: str, key: str, value: str, ids: Collection[int]) -> dict[int, str]:
        """See `OpenedExport`."""
        stored_ids = self.numbers(table, [(Column(key, (key,)), key)])[key]
        rows, values = self.texts(table, value)
        wanted = np.flatnonzero(np.isin(stored_ids, np.fromiter(ids, np.int64)) & (rows >= 0))
        return {int(stored_ids[row]): values[rows[row]] for row in wanted.tolist()}

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise CaptureError(
                f"{self.path} holds a damaged Parquet file: {next(iter(str(error).splitlines()), '')}.",
                "Export it again: nsys export --type parquetdir REPORT.nsys-rep.",
                "nsys-damaged",
            ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _decoded(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def _expression(column: Column, name: str, *, never_null: bool) -> str:
    """The SQL expression of a column, of no more bits than it has."""
    value = _quoted(name)
    if column.part is not GlobalIdPart.ALL:
        value = f"(({value} >> {SHIFT[column.part]}) & {ID_MASK})"
    if not never_null:
        value = f"ifnull({value}, {missing(column)})"
    return f"({value} & {(1 << column.bits) - 1})" if column.bits < 64 else value


def _numbers(stored: Any, column: Column) -> NDArray[Any]:
    """An Arrow column as integers of the wished width; unsigned 64-bit values keep their bits."""
    zero = False if str(stored.type) == "bool" else 0
    values = stored.fill_null(zero).to_numpy()
    if values.dtype.kind not in "biu":
        raise ValueError(f"column {column.of[0]} holds {stored.type} instead of integers")
    return cut(Values(values.astype(np.int64), stored.is_null().to_numpy()), column)
