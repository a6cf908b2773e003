"""Nsight Systems exports: real ones unpacked once per run, and small ones written table by table."""

from __future__ import annotations

import atexit
import lzma
import random
import shutil
import sqlite3
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

DATA = Path(__file__).parents[1] / "data"
PID, TID = 4242, 4243
GLOBAL_PID = 1 << 48 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID

Rows = Iterable[Mapping[str, Any]]


@cache
def _unpacked() -> Path:
    folder = mkdtemp(prefix="pinprof-test-nsys-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def real(name: str) -> Path:
    """An export of tests/data by its name there without .xz, or the folder of a parquetdir; unpacked until exit."""
    archive = next(path for path in DATA.glob(f"*/{name}*.xz") if path.name in (f"{name}.xz", f"{name}.tar.xz"))
    folder = _unpacked() / archive.parent.name
    folder.mkdir(exist_ok=True)
    if archive.name.endswith(".tar.xz"):
        (folder / name).mkdir()
        with tarfile.open(archive) as packed:
            for member in packed:
                if content := packed.extractfile(member):
                    (folder / name / Path(member.name).name).write_bytes(content.read())
        return folder / name
    with lzma.open(archive) as packed_file, (folder / name).open("wb") as plain:
        shutil.copyfileobj(packed_file, plain)
    return folder / name


def write_export(path: Path, tables: Mapping[str, Rows], *, strings: Mapping[int, Any] | None = None) -> Path:
    """An export with the columns that the first row of each table has; `strings` fills StringIds."""
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", (strings or {}).items())
        for table, rows in tables.items():
            rows = list(rows)
            columns = ", ".join(f'"{name}"' for name in rows[0])
            quoted = table.replace('"', '""')
            base.execute(f'CREATE TABLE "{quoted}" ({columns})')
            places = ", ".join("?" * len(rows[0]))
            base.executemany(f'INSERT INTO "{quoted}" VALUES ({places})', (tuple(row.values()) for row in rows))
    return path


def session() -> Rows:
    """TARGET_INFO_SESSION_START_TIME, which every export has."""
    return [{"utcEpochNs": 1_795_228_601_084_102_955, "utcTime": "", "localTime": ""}]


def call(
    start: int, end: int, name: int, correlation: int, *, driver: bool = False, tid: int = GLOBAL_TID
) -> dict[str, Any]:
    """A row of CUPTI_ACTIVITY_KIND_RUNTIME."""
    return {"start": start, "end": end, "eventClass": int(driver), "globalTid": tid, "correlationId": correlation,
            "nameId": name, "returnValue": 0, "callchainId": None}  # fmt: skip


def copy(start: int, end: int, correlation: int, **other: Any) -> dict[str, Any]:
    """A row of CUPTI_ACTIVITY_KIND_MEMCPY as schema 3.0.0 has it: a pinned copy of 4096 bytes to the device."""
    return {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation,
            "globalPid": GLOBAL_PID, "bytes": 4096, "copyKind": 1, "srcKind": 1, "dstKind": 2, "migrationCause": None,
            "virtualAddress": None} | other  # fmt: skip


def nvtx(start: int, end: int | None, text: str | bytes | None, **other: Any) -> dict[str, Any]:
    """A row of NVTX_EVENTS: a push/pop range in the default domain."""
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": GLOBAL_TID, "endGlobalTid": None,
            "textId": None, "domainId": 0} | other  # fmt: skip


def shuffled(export: Path, copy: Path, seed: int) -> Path:
    """A copy of an export whose tables hold the same rows in another order."""
    order = random.Random(seed)
    with closing(sqlite3.connect(export)) as source, closing(sqlite3.connect(copy)) as target:
        tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for name, definition in source.execute(tables).fetchall():
            target.execute(definition)
            rows = source.execute(f'SELECT * FROM "{name}"').fetchall()
            order.shuffle(rows)
            places = ", ".join("?" * len(rows[0])) if rows else ""
            target.executemany(f'INSERT INTO "{name}" VALUES ({places})', rows)
        target.commit()
    return copy
