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
from pinprof.base.errors import UsageError, unwritable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet import tables
from pinprof.fleet.mapping import MappedCapture
from pinprof.fleet.packages import package

FAILED, STAMPS, PLACES = "failed.parquet", "stamps.parquet", "places.parquet"
BATCH = "batch-"
_CAPTURES, _BYTES = 64, 32 << 20
"""The captures, or bytes of them, that become a batch."""
_MOST_ROWS = 10_000_000
"""The rows that a file may have: some thousand for each capture of a batch, and one for each place."""
_LOCK = ".lock"


@dataclass(frozen=True)
class CapturePlace:
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
        self._waiting: list[MappedCapture] = []
        self._failed: list[MappedCapture] = []
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
        self.lost = self._without_damage()
        """Batches that were damaged, and are gone: their captures are mapped again."""
        self.captures = frozenset(self._captures())
        """Those that are mapped."""
        self.stamps = self._stamps()
        """Stamp → capture, of those that are mapped."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.flush()
        os.close(self._lock)

    def add(self, mapped: MappedCapture) -> None:
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
        with self._writing():
            partial.mkdir(files.PRIVATE_FOLDER)
            for table in tables.COLUMNS:
                files.written(
                    partial / f"{table}.parquet", _joined(table, [one.parts.get(table) for one in unique.values()])
                )
            partial.rename(self.folder / name)
        self._waiting = []

    def finish(self, places: Sequence[CapturePlace]) -> None:
        """Write what waits, and the list of this run's captures."""
        self.flush()
        failed = _joined("captures", [one.parts["captures"] for one in self._failed])
        again = {one.capture for one in self._failed}
        known = self.stamps | {place.stamp: place.capture for place in places if place.capture not in again}
        stamps = [{"stamp": stamp, "capture": capture} for stamp, capture in known.items()]
        with self._writing():
            files.written(self.folder / FAILED, failed)
            _write(self.folder / STAMPS, _STAMPS, stamps)
            _write(self.folder / PLACES, tables.PLACES, [vars(place) for place in places])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(f"The store {self.folder}", error, "Choose another place with --store.") from error

    def _without_damage(self) -> int:
        _, damaged = batches(self.folder)
        for batch in damaged:
            shutil.rmtree(batch, ignore_errors=True)
        return len(damaged)

    def _captures(self) -> Iterator[str]:
        for batch in batches(self.folder)[0]:
            rows = _rows(batch / "captures.parquet", ["capture"])
            if rows is not None:
                yield from (row["capture"] for row in rows if row["capture"] is not None)

    def _stamps(self) -> dict[str, str]:
        file = self.folder / STAMPS
        rows = (_rows(file) if is_table(file, _STAMPS) else None) or []
        return {row["stamp"]: row["capture"] for row in rows if row["capture"] in self.captures}


_STAMPS: Mapping[str, str] = {"stamp": "string", "capture": "string"}


def batches(folder: Path) -> tuple[list[Path], list[Path]]:
    """The batches of a store that are whole, as far as can be seen without reading them, and the damaged ones."""
    whole: list[Path] = []
    damaged: list[Path] = []
    for batch in sorted(folder.glob(f"{BATCH}*")):
        parts = tables.COLUMNS.items()
        good = all(is_table(batch / f"{name}.parquet", columns) for name, columns in parts)
        (whole if good else damaged).append(batch)
    return whole, damaged


def is_table(file: Path, columns: Mapping[str, str]) -> bool:
    """Whether a file is Parquet of these columns, and of no more rows than a store writes."""
    arrow = package("pyarrow", "The tables of a fleet")
    parquet = package("pyarrow.parquet", "The tables of a fleet")
    try:
        if not file.is_file():
            return False
        with parquet.ParquetFile(file) as found:
            fits = found.schema_arrow.equals(tables.schema_of(columns)) and found.metadata.num_rows <= _MOST_ROWS
            return bool(fits)
    except (OSError, arrow.ArrowException, ValueError, TypeError, KeyError):
        return False


def _rows(file: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]] | None:
    """The rows of a Parquet file; None if it is damaged."""
    arrow = package("pyarrow", "The tables of a fleet")
    parquet = package("pyarrow.parquet", "The tables of a fleet")
    try:
        with file.open("rb") as content:
            found = parquet.ParquetFile(io.BytesIO(content.read())).read(columns and list(columns))
        return list(found.to_pylist())
    except (OSError, arrow.ArrowException, ValueError):
        return None


def _joined(table: str, parts: Sequence[bytes | None]) -> bytes:
    """The rows of several captures as one file."""
    arrow = package("pyarrow", "The tables of a fleet")
    parquet = package("pyarrow.parquet", "The tables of a fleet")
    schema = tables.schema_of(tables.COLUMNS[table])
    found = [parquet.ParquetFile(io.BytesIO(part)).read(use_threads=False) for part in parts if part]
    return tables.to_parquet(arrow.concat_tables(found) if found else schema.empty_table())


def _write(file: Path, columns: Mapping[str, str], rows: Sequence[tables.Row]) -> None:
    files.written(file, tables.to_parquet(tables.table_of(columns, rows, tables.LONGEST_PATH)))
