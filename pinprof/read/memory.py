"""Memory over time from `memory.jsonl` (collect/memory.py): one JSON object a line.

    {"t": ns, "machine": {"pgfault": 12, …}, "processes": [{"pid": 7, "name": "app", "rss": bytes, …,
                                                       "pages": [[address, node, huge], …],
                                                       "maps": [[start, end, Mapped], …]}]}

Lines that are no such object, times that run backwards and numbers outside 0 … 2^63-1 are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pinprof.base.errors import readable
from pinprof.base.shapes import COUNT, TEXT, Each, Facts, RowShape, Unfit, Whole, parsed
from pinprof.base.units import format_counted
from pinprof.data.mapped import Mapped
from pinprof.data.memory_log import MappingTable, MemoryLog, PageTable, ProcessMemory
from pinprof.data.model import Capture
from pinprof.read.directory import Reading
from pinprof.read.listed_mappings import with_mappings

_MOST_LINE = 1 << 20
_MOST_COUNTERS = 256
"""/proc/vmstat has fewer; each costs a number for every line."""
PROCESS_FIELDS = ("rss", "shmem", "pinned", "locked", "swap", "huge", "threads")
"""What is known of a process, in bytes but for the number of threads."""
_MOST_PAGES = 4096
"""The entries of a process in a line; pinprof writes a fifth of that at most."""
_PAGE = RowShape((COUNT, Whole(-2, (1 << 15) - 1), Whole(-1, 1)))
_MOST_MAPS = 1024
"""The same of what a process has mapped."""
_MAP = RowShape((COUNT, COUNT, Whole(0, max(Mapped))))
_PROCESS = Facts(
    {
        "pid": Whole(0, (1 << 31) - 1),
        "name": TEXT,
        "pages": Each(_PAGE, lenient=True),
        "maps": Each(_MAP, lenient=True),
        **dict.fromkeys(PROCESS_FIELDS, COUNT),
    }
)
_ENTRY = Facts({"t": COUNT, "machine": Facts(others=COUNT), "processes": Each(_PROCESS, lenient=True)})
"""What a line holds."""


def with_memory(capture: Capture, path: Path | None, _reading: Reading) -> Capture:
    """The capture with a file's log, and what must be said about it."""
    if path is None:
        return capture
    log = with_names(read_memory(path), capture.threads)
    # A process that records itself only lists what it has mapped.
    capture = replace(capture, memory=log if log is not None and _tells_amounts(log) else None)
    if log is not None and capture.samples.mapped is None and capture.clock.source == "monotonic":
        capture = replace(capture, samples=with_mappings(capture.samples, log.maps))
    if log is None or not log.bad_lines:
        return capture
    what = format_counted(log.bad_lines, "unreadable line", "unreadable lines")
    return capture.with_notes(f"{what} of the memory log left out.")


def _tells_amounts(log: MemoryLog) -> bool:
    return bool(log.machine) or any(one.values for one in log.processes)


def read_memory(path: Path) -> MemoryLog | None:
    """The log of a capture; None where it holds no line."""
    times: list[int] = []
    machine: dict[str, list[int]] = {}
    processes: dict[int, dict[str, list[int]]] = {}
    names: dict[int, str] = {}
    pages: list[tuple[int, ...]] = []
    maps: list[tuple[int, ...]] = []
    bad = 0
    with readable(path, slug="side-file"), path.open("rb") as stream:
        for line in stream:
            entry = _entry(line)
            if entry is None or (times and entry["t"] <= times[-1]):
                bad += 1
                continue
            known = {key: value for key, value in entry["machine"].items() if key in machine}
            room = _MOST_COUNTERS - len(machine)
            fresh = [item for item in entry["machine"].items() if item[0] not in machine][:room]
            _append(machine, known | dict(fresh), len(times))
            for process in entry["processes"]:
                pid = process.pop("pid")
                pages += [(entry["t"], pid, *page) for page in process.pop("pages", [])[:_MOST_PAGES]]
                maps += [(entry["t"], pid, *row) for row in process.pop("maps", [])[:_MOST_MAPS]]
                names[pid] = process.pop("name", "") or names.get(pid, "")
                columns = processes.setdefault(pid, {"t": []})
                _append(columns, process, len(columns["t"]))
                columns["t"].append(entry["t"])
            times.append(entry["t"])
    if not times:
        return None
    return MemoryLog(
        time_ns=np.array(times, np.int64),
        machine={name: _column(values, len(times)) for name, values in machine.items()},
        processes=tuple(
            ProcessMemory(
                pid=pid,
                name=names[pid],
                time_ns=np.array(columns["t"], np.int64),
                values={name: _column(columns[name], len(columns["t"])) for name in PROCESS_FIELDS if name in columns},
            )
            for pid, columns in processes.items()
        ),
        bad_lines=bad,
        pages=PageTable.of(len(pages), **_columns(pages, ("time_ns", "pid", "address", "node", "huge"))),
        maps=MappingTable.of(len(maps), **_columns(maps, ("time_ns", "pid", "start", "end", "kind"))),
    )


def _columns(rows: list[tuple[int, ...]], names: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return dict(zip(names, columns, strict=True))


def with_names(log: MemoryLog | None, threads: Mapping[tuple[int, int], str]) -> MemoryLog | None:
    """The log with each process called as its main thread is, where that is known."""
    if log is None:
        return None
    named = tuple(replace(one, name=threads.get((one.pid, one.pid)) or one.name) for one in log.processes)
    return replace(log, processes=named)


def _entry(line: bytes) -> dict[str, Any] | None:
    """One line with everything in it that is not as it should be left out; None when that is the line itself."""
    if len(line) > _MOST_LINE or not line.endswith(b"\n"):
        return None
    try:
        entry: dict[str, Any] = _ENTRY.fit(parsed(line))
    except Unfit:
        return None
    if entry.get("t") is None:
        return None
    return {
        "t": entry["t"],
        "machine": entry.get("machine") or {},
        "processes": [_known(one) for one in entry.get("processes") or () if one.get("pid") is not None],
    }


def _known(process: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in process.items() if value is not None}


def _append(columns: dict[str, list[int]], values: dict[str, int], row: int) -> None:
    """Add a row; what it does not say is as it was last said."""
    for name, value in values.items():
        column = columns.setdefault(name, [])
        column += [column[-1] if column else value] * (row - len(column))
        column.append(value)


def _column(values: list[int], rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values + values[-1:] * (rows - len(values)), np.int64)
