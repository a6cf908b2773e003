"""What is known of a process's memory at some time: what it has mapped, and what CUDA granted or registered."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import MemoryKind
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


def place_of(area: DataArea, *, program: bool) -> MappingKind:
    """What a mapping is; `program`: its file has code, too."""
    if area.path.startswith("/dev/nvidia") or (area.protection == 0 and area.path.startswith(ANONYMOUS)):
        return MappingKind.DRIVERS
    if area.path.startswith(_NOT_A_FILE) or not area.path or program:
        return MappingKind.HOST
    return MappingKind.FILE
