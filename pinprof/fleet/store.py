"""What was mapped stays mapped: a folder of Parquet, which the next run adds to.

KEY/                schema and version of pinprof: tables of others are not mixed with these
batch-ID/         TABLE.parquet of some captures each; whole, or not there
failed.parquet    captures that could not be read for now: another run tries again
stamps.parquet    what was seen where it lay: stamp → capture
places.parquet    the captures of the last run: path → capture
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pinprof.base import files
from pinprof.base.errors import CaptureError, UsageError, unwritable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet import tables
from pinprof.fleet.mapping import Mapped
from pinprof.fleet.packages import package

FAILED, STAMPS, PLACES = "failed.parquet", "stamps.parquet", "places.parquet"
BATCH = "batch-"
_CAPTURES, _BYTES = 64, 32 << 20
"""The captures, or bytes of them, that become a batch."""
_LOCK = ".lock"


@dataclass(frozen=True)
class Place:
    """Where a capture of this run lies."""

    path: str
    capture: str
    stamp: str
    copy_of: str = ""
    """Path of another capture with the same content; empty for the first of them."""


class Store:
    """A folder being added to; `close()` ends that. One process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / tables.KEY
        self._waiting: list[Mapped] = []
        self._failed: list[Mapped] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, files.PRIVATE)
        except OSError as error:
            raise unwritable(f"The store {folder}", error, "Choose another place with --store.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UsageError(
                f"Another pinprof fleet is writing to {folder}.",
                "Wait for it, or choose another place with --store.",
                "fleet-busy",
            ) from error
        for left in self.folder.glob(f".{BATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        self.captures = frozenset(self._column("captures", "capture"))
        """Those that are mapped."""
        self.stamps = self._stamps()
        """Stamp → capture, of those that are mapped."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.flush()
        os.close(self._lock)

    def add(self, mapped: Mapped) -> None:
        """Keep what a capture became."""
        if mapped.again:
            self._failed.append(mapped)
            return
        self._waiting.append(mapped)
        size = sum(len(part) for one in self._waiting for part in one.parts.values())
        if len(self._waiting) >= _CAPTURES or size >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one batch."""
        unique = {one.capture: one for one in self._waiting}
        if not unique:
            return
        name = f"{BATCH}{os.urandom(8).hex()}"
        partial = self.folder / f".{name}"
        partial.mkdir(files.PRIVATE_FOLDER)
        for table in tables.COLUMNS:
            files.written(
                partial / f"{table}.parquet", _joined(table, [one.parts.get(table) for one in unique.values()])
            )
        partial.rename(self.folder / name)
        self._waiting = []

    def finish(self, places: Sequence[Place]) -> None:
        """Write what waits, and the list of this run's captures."""
        self.flush()
        failed = _joined("captures", [one.parts["captures"] for one in self._failed])
        files.written(self.folder / FAILED, failed)
        again = {one.capture for one in self._failed}
        known = self.stamps | {place.stamp: place.capture for place in places if place.capture not in again}
        _write(
            self.folder / STAMPS, _STAMPS, [{"stamp": stamp, "capture": capture} for stamp, capture in known.items()]
        )
        _write(self.folder / PLACES, tables.PLACES, [vars(place) for place in places])

    def _column(self, table: str, column: str) -> Iterator[str]:
        for file in self.folder.glob(f"{BATCH}*/{table}.parquet"):
            yield from read_table(file, [column]).column(column).to_pylist()

    def _stamps(self) -> dict[str, str]:
        file = self.folder / STAMPS
        rows = read_table(file).to_pylist() if file.exists() else []
        return {row["stamp"]: row["capture"] for row in rows if row["capture"] in self.captures}


_STAMPS: Mapping[str, str] = {"stamp": "string", "capture": "string"}


def read_table(file: Path, columns: Sequence[str] | None = None) -> Any:
    """A Parquet file; CaptureError if it is none."""
    arrow = package("pyarrow", "The tables of a fleet")
    parquet = package("pyarrow.parquet", "The tables of a fleet")
    try:
        with file.open("rb") as content:
            return parquet.ParquetFile(io.BytesIO(content.read())).read(columns and list(columns))
    except (OSError, arrow.ArrowException) as error:
        raise CaptureError(
            f"{file} cannot be read: {error}.",
            "Remove the store. The next run reads the captures again.",
            "fleet-store",
        ) from error


def _joined(table: str, parts: Sequence[bytes | None]) -> bytes:
    """The rows of several captures as one file."""
    arrow = package("pyarrow", "The tables of a fleet")
    parquet = package("pyarrow.parquet", "The tables of a fleet")
    schema = tables.schema_of(tables.COLUMNS[table])
    found = [parquet.ParquetFile(io.BytesIO(part)).read() for part in parts if part]
    return tables.to_parquet(arrow.concat_tables(found) if found else schema.empty_table())


def _write(file: Path, columns: Mapping[str, str], rows: Sequence[tables.Row]) -> None:
    files.written(file, tables.to_parquet(tables.table_of(columns, rows, tables.LONGEST_PATH)))
