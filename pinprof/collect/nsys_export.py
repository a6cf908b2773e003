"""An export of nsys without what is private: captures get shared.

An export holds the environment of nsys and of the program, every process of the machine, its name, and more.
So nothing is deleted from it; what is known to be needed is copied into a new file, and no byte of the rest is in that.
Kept are events of the traced processes, the strings that these name, and single facts about machine and session.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CollectError

EVENT_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "CUDA_UM_", "CUDA_GPU_MEMORY_", "NVTX_EVENTS", "OSRT_API", "COMPOSITE_EVENTS")
"""Tables whose rows make their process a traced one."""
OF_TRACED = ("SCHED_EVENTS", "ThreadNames", "PROCESSES")
"""Tables that name all processes of the machine: the rows of traced ones are kept."""
WHOLE_PREFIXES = ("ENUM_", "TARGET_INFO_CUDA_", "TARGET_INFO_GPU", "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS")
CHAINS, SAMPLES, STRINGS = "SAMPLING_CALLCHAINS", "COMPOSITE_EVENTS", "StringIds"
FACTS = {
    "META_DATA_CAPTURE": ("LINUX_PERF_OPTIONS:*", "PROCESS_0:COLLECT_*"),
    "META_DATA_EXPORT": ("EXPORT_PRODUCT_*", "EXPORT_SCHEMA_VERSION*", "EXPORT_PLATFORM", "EXPORT_ARCH"),
    "EXPORT_META_DATA": ("EXPORT_PRODUCT_*", "EXPORT_SCHEMA_VERSION*", "EXPORT_PLATFORM", "EXPORT_ARCH"),
    "TARGET_INFO_SYSTEM_ENV": (
        "CpuCores", "CpuArchitecture", "CpuDescription", "NvDriverVersion", "OsDescription", "CudaDriverVersion",
        "SoftwareReleaseVersion", "LinuxParanoidLevel",
    ),
}  # fmt: skip
"""Tables of facts → names (GLOB) of those that are kept."""
STRING_COLUMNS = frozenset({
    "nameId", "textId", "jsonTextId", "demangledName", "shortName", "mangledName", "symbol", "module", "sourceFile",
    "CpuInstruction", "name",
})  # fmt: skip
"""Columns that hold ids of strings, where they hold integers."""
_BLANKED = {"TARGET_INFO_GPU": ("uuid",)}
_PID = "({} >> 24) & 0xFFFFFF"


def scrub(export: Path, target: Path, *, left_out: Collection[int] = ()) -> None:
    """Write what is not private of an export into a new file; processes `left_out` are pinprof's own.

    CollectError when the export is none, or the new file cannot be written.
    """
    target.unlink(missing_ok=True)
    try:
        os.close(files.create(target))
        with closing(sqlite3.connect(target, isolation_level=None)) as base:
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("PRAGMA synchronous = OFF")
            base.execute("ATTACH ? AS source", (f"{export.absolute().as_uri()}?mode=ro",))
            base.execute("BEGIN")
            _copy(base, left_out)
            base.execute("COMMIT")
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise CollectError(
            f"nsys's export cannot be copied: {error}.", "Free some disk space, and record again.", "nsys-failed"
        ) from error


def _copy(base: sqlite3.Connection, left_out: Collection[int]) -> None:
    columns = _create(base)
    events = [table for table in columns if table.startswith(EVENT_PREFIXES)]
    base.execute("CREATE TEMP TABLE traced (pid INTEGER PRIMARY KEY)")
    for table in events:
        if owner := _owner(columns[table]):
            base.execute(f"INSERT OR IGNORE INTO traced SELECT DISTINCT {owner} FROM source.{_quoted(table)}")
    base.executemany("DELETE FROM traced WHERE pid = ?", [(pid,) for pid in left_out])
    for table in columns:
        owner = _owner(columns[table])
        if table in FACTS:
            where = " OR ".join("name GLOB ?" for _ in FACTS[table])
            _insert(base, table, f"WHERE {where}", FACTS[table])
        elif table == CHAINS and SAMPLES in columns:
            continue
        elif owner and (table in events or table in OF_TRACED):
            _insert(base, table, f"WHERE {owner} IN (SELECT pid FROM traced)")
        elif table != STRINGS and table not in OF_TRACED:
            _insert(base, table)
    if {CHAINS, SAMPLES} <= columns.keys():
        _insert(base, CHAINS, f"WHERE id IN (SELECT id FROM main.{SAMPLES})")
    for table, names in _BLANKED.items():
        for name in names:
            if name in columns.get(table, ()):
                base.execute(f"UPDATE main.{_quoted(table)} SET {_quoted(name)} = ''")
    if STRINGS in columns:
        base.execute("CREATE TEMP TABLE used (id INTEGER PRIMARY KEY)")
        for table, column in _string_columns(columns):
            base.execute(
                f"INSERT OR IGNORE INTO used SELECT DISTINCT {_quoted(column)} FROM main.{_quoted(table)} "
                f"WHERE typeof({_quoted(column)}) = 'integer'"
            )
        _insert(base, STRINGS, "WHERE id IN (SELECT id FROM used)")


def _create(base: sqlite3.Connection) -> dict[str, list[str]]:
    """Make the kept tables, still empty; table → its columns."""
    kept = {}
    made = base.execute("SELECT name, sql FROM source.sqlite_master WHERE type = 'table'").fetchall()
    for table, statement in made:
        if table.startswith((*EVENT_PREFIXES, *WHOLE_PREFIXES)) or table in (*OF_TRACED, *FACTS, CHAINS, STRINGS):
            base.execute(statement)
            kept[table] = [row[1] for row in base.execute(f"PRAGMA main.table_info({_quoted(table)})")]
    return kept


def _owner(columns: Collection[str]) -> str:
    """SQL for the pid of a row; empty for a table whose rows belong to no process."""
    column = next((name for name in ("globalTid", "globalPid") if name in columns), "")
    return _PID.format(column) if column else ""


def _string_columns(columns: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for table, names in columns.items():
        if not table.startswith(WHOLE_PREFIXES) and table not in (*FACTS, STRINGS):
            yield from ((table, name) for name in names if name in STRING_COLUMNS)


def _insert(base: sqlite3.Connection, table: str, where: str = "", values: Collection[str] = ()) -> None:
    base.execute(
        f"INSERT INTO main.{_quoted(table)} SELECT * FROM source.{_quoted(table)} {where}",
        tuple(values),
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
