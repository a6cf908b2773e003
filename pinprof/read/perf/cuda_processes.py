"""What is known of a process's memory at some time: what it has mapped, and what CUDA granted or registered.

A recording that is a part of a longer one (portions/) begins with processes that hold memory already. What is known of
them by then is next to it as JSON: `calls-before.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import COUNT, MOST, PID, ColumnShape, Each, OneOf, Record, RowShape, Unfit, Whole, read
from pinprof.data.activity import Location, MemoryKind
from pinprof.read.perf.places import Places
from pinprof.read.perf.records import DataArea

ANONYMOUS = ("//anon", "/dev/zero", "/anon_hugepage")
_NOT_A_FILE = ("//", "/dev/", "/memfd:", "/SYSV", "/anon_hugepage", "[")
"""Names of mappings that are no files of data (fs/proc/task_mmu.c); /dev/shm is memory, /dev/nvidia* the driver's."""


class MappingKind(IntEnum):
    """What a mapping is; the driver's own are `DRIVERS` or of a kind."""

    HOST = 0
    FILE = 1
    DRIVERS = 2
    PINNED = 3
    MANAGED = 4


class Held(NamedTuple):
    """Memory that was granted, and not given back."""

    size: int
    """That was asked for; -1 where that is not known."""
    length: int
    """Bytes that its range has; 0 where nobody knows where it lies."""
    before: bool
    """Since before the recording."""


@dataclass
class Process:
    """One process as it is at some time."""

    mapped: Places = field(default_factory=Places)
    """`MappingKind`."""
    owned: Places = field(default_factory=Places)
    """`MemoryKind` of what CUDA granted or registered."""
    whole: bool = False
    """Whether everything is known from its beginning."""
    live: dict[tuple[MemoryKind, int], Held] = field(default_factory=dict)
    """By kind and address."""
    adrift: dict[MemoryKind, list[Held]] = field(default_factory=lambda: defaultdict(list))
    """What was allocated at unknown addresses."""
    hosted: list[Held] = field(default_factory=list)
    """The host's memory that comes from pools or has handles; functions of the device's memory free it."""
    pools: set[int] = field(default_factory=set)
    """`Location` of the pools that it made."""

    def forked(self) -> Process:
        """Its child: with the same mappings, but nothing is page-locked for it."""
        return Process(self.mapped.copy(), whole=self.whole)

    def doubtful(self) -> Process:
        """The same where records of it may be missing: registered memory may have been given back, and any other may
        have been granted. What the driver mapped is its own until something else is mapped there.
        """
        return Process(self.mapped, live=self.live, adrift=self.adrift, hosted=self.hosted, pools=self.pools)

    def before(self) -> Process:
        """The same as a recording begins with it."""
        return Process(
            self.mapped.copy(),
            self.owned.copy(),
            self.whole,
            {key: held._replace(before=True) for key, held in self.live.items()},
            defaultdict(list, {kind: _before(mine) for kind, mine in self.adrift.items()}),
            _before(self.hosted),
            set(self.pools),
        )


def _before(held: Iterable[Held]) -> list[Held]:
    return [each._replace(before=True) for each in held]


@dataclass(frozen=True)
class Known:
    """What is known of processes at a time."""

    time_ns: int = -1
    """All that records up to then say about processes is in `processes`; before all records by default."""
    processes: Mapping[int, Process] = field(default_factory=dict)
    """By pid."""


def place_of(area: DataArea, *, program: bool) -> MappingKind:
    """What a mapping is; `program`: its file has code, too."""
    if area.path.startswith("/dev/nvidia") or (area.protection == 0 and area.path.startswith(ANONYMOUS)):
        return MappingKind.DRIVERS
    if area.path.startswith(_NOT_A_FILE) or not area.path or program:
        return MappingKind.HOST
    return MappingKind.FILE


def running(pid: int, maps: str, *, whole: bool) -> Process:
    """A process that runs already, by its `/proc/PID/maps`; `whole`: CUDA has granted nothing so far."""
    rows = [line.split(maxsplit=5) for line in maps.splitlines()]
    programs = {row[5] for row in rows if len(row) > 5 and "x" in row[1]}
    process = Process(whole=whole)
    for row in rows:
        start, _, end = row[0].partition("-")
        path = row[5] if len(row) > 5 else "//anon"
        protection = sum(bit for bit, letter in ((1, "r"), (2, "w"), (4, "x")) if letter in row[1])
        area = DataArea(0, pid, pid, int(start, 16), int(end, 16), protection, 0, path)
        if area.end > MOST:  # [vsyscall] lies beyond all that a program maps
            continue
        process.mapped.put(area.start, area.end, place_of(area, program=path in programs))
    return process


_SIZE = Whole(-1)
_KIND = OneOf(tuple(kind.value for kind in MemoryKind))
_PROCESSES = Each(
    Record(
        {
            "pid": PID,
            "whole": OneOf((True, False)),
            "mapped": RowShape((ColumnShape(), ColumnShape(), ColumnShape(most=1 << 40))),
            "owned": RowShape((ColumnShape(), ColumnShape(), ColumnShape(most=1 << 40))),
            "live": Each(RowShape((_KIND, COUNT, _SIZE, COUNT))),
            "adrift": Each(RowShape((_KIND, _SIZE))),
            "hosted": Each(_SIZE),
            "pools": Each(OneOf(tuple(place.value for place in Location))),
        }
    )
)


_SHAPE = Record({"time_ns": COUNT, "processes": _PROCESSES})


def written(known: Known) -> str:
    """The file's text."""
    processes = [_facts(pid, process) for pid, process in known.processes.items()]
    return json.dumps({"time_ns": known.time_ns, "processes": processes}, separators=(",", ":"))


def _facts(pid: int, process: Process) -> dict[str, Any]:
    return {
        "pid": pid,
        "whole": process.whole,
        "mapped": process.mapped.columns,
        "owned": process.owned.columns,
        "live": [(kind, address, held.size, held.length) for (kind, address), held in process.live.items()],
        "adrift": [(kind, held.size) for kind, mine in process.adrift.items() for held in mine],
        "hosted": [held.size for held in process.hosted],
        "pools": sorted(process.pools),
    }


def load(path: Path) -> Known:
    """What `written` told; nothing of a file that is damaged, as of processes that were attached to late."""
    try:
        found = _SHAPE.fit(read(path))
    except (OSError, Unfit):
        return Known()
    return Known(found["time_ns"], {facts["pid"]: _process(facts) for facts in found["processes"]})


def _process(facts: Mapping[str, Any]) -> Process:
    process = Process(whole=facts["whole"], pools=set(facts["pools"]))
    for places, known, name in ((process.mapped, MappingKind, "mapped"), (process.owned, MemoryKind, "owned")):
        values = {member.value for member in known}
        for start, end, value in zip(*facts[name], strict=False):
            if value in values:
                places.put(start, end, value)
    for kind, address, size, length in facts["live"]:
        process.live[MemoryKind(kind), address] = Held(size, length, before=True)
    for kind, size in facts["adrift"]:
        process.adrift[MemoryKind(kind)].append(Held(size, 0, before=True))
    process.hosted = [Held(size, 0, before=True) for size in facts["hosted"]]
    return process
