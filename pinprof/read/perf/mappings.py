"""Which file lay where in which process, and since when.

An address space begins with a fork (a copy of the parent's) or an exec (empty). A later mapping replaces what it
overlaps. Unmapping is not recorded by the kernel, so a mapping lasts until something else takes its place. Samples
name the *version* of an address space: a new version begins only where a new mapping displaces a different one, so
that most processes have a single version, whatever they map in the course of time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping as Lookup
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import starmap
from typing import NamedTuple, Self

import numpy as np

from pinprof.base.columns import Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.numbering import Numbering
from pinprof.data.model import Bool, Dso, Int32, Int64, UInt64
from pinprof.read.perf import kernels
from pinprof.read.perf.records import CommRecord, ForkRecord, MapRecord

TaskRecord = MapRecord | CommRecord | ForkRecord

NO_DSO = -1
EMPTY = 0
"""The version without any mapping: kernel threads, processes nothing is known of."""

_DELETED = " (deleted)"
_ADDRESSED_BY_PROCESS = ("jit", "anon")
_NONE = np.zeros(0, np.int64)
_SPELL_BITS = 20
"""2^20 ns are about a millisecond."""


class Mapping(NamedTuple):
    """One mapped interval [start, end) of an address space."""

    start: int
    end: int
    shift: int
    """Added to an address to get the offset in the DSO's file; 0 for code made at run time."""
    dso: int

    def cut(self, start: int, end: int) -> Mapping:
        """The part of this mapping inside [start, end)."""
        return Mapping(max(self.start, start), min(self.end, end), self.shift, self.dso)


@dataclass
class Version:
    """One version of a process's address space: disjoint mappings in ascending order.

    The list is never altered, but replaced: forked processes and later versions share it until they map more.
    """

    pid: int
    mappings: list[Mapping] = field(default_factory=list)

    def overlapping(self, start: int, end: int) -> slice:
        """The mappings that share an address with [start, end)."""
        first = bisect_right(self.mappings, start, key=lambda mapping: mapping.end)
        return slice(first, max(first, bisect_left(self.mappings, end, key=lambda mapping: mapping.start)))

    def put(self, new: Mapping, place: slice) -> None:
        """Lay a mapping over what is there: what it overlaps is at `place`."""
        displaced = self.mappings[place]
        below = [old.cut(0, new.start) for old in displaced[:1] if old.start < new.start]
        above = [old.cut(new.end, old.end) for old in displaced[-1:] if old.end > new.end]
        self.mappings = [*self.mappings[: place.start], *below, new, *above, *self.mappings[place.stop :]]


@dataclass(frozen=True, eq=False, repr=False)
class MappingColumns(Table):
    """Mappings as columns, ascending."""

    start: UInt64
    end: UInt64
    shift: UInt64
    dso: Int32

    @classmethod
    def made_of(cls, mappings: Sequence[Mapping]) -> Self:
        """The columns of some mappings."""
        count = len(mappings)
        return cls(
            start=np.fromiter((mapping.start for mapping in mappings), np.uint64, count),
            end=np.fromiter((mapping.end for mapping in mappings), np.uint64, count),
            shift=np.fromiter((mapping.shift % 2**64 for mapping in mappings), np.uint64, count),
            dso=np.fromiter((mapping.dso for mapping in mappings), np.int32, count),
        )

    def find(self, addresses: UInt64) -> tuple[Int32, UInt64]:
        """Per address its DSO (NO_DSO where nothing is mapped) and its offset in that DSO."""
        if not len(self.start):
            return np.full(len(addresses), NO_DSO, np.int32), addresses
        index = np.maximum(np.searchsorted(self.start, addresses, side="right") - 1, 0)
        inside = (self.start[index] <= addresses) & (addresses < self.end[index])
        return np.where(inside, self.dso[index], NO_DSO).astype(np.int32), addresses + self.shift[index]


@dataclass(frozen=True)
class SpaceTable:
    """All address spaces of a recording as columns, so that a process can hand them to another."""

    pid: Int32
    """With `since` and `version`: which version each process has from when on, ascending."""
    since: Int64
    version: Int32
    first: Int64
    """Per version its rows of `mapped`, up to `last`."""
    last: Int64
    mapped: MappingColumns
    owner: Int32
    """Per version the first one of its process."""
    pid_of: Int32
    """Per version its process."""
    dsos: tuple[Dso, ...]
    forked_from: Lookup[int, int]
    """The parent of each process that executes what it was forked with: code made at run time is its too."""

    @cached_property
    def by_process(self) -> Bool:
        """Per DSO, and for none, whether it is memory of a process rather than a file."""
        return np.array([*(dso.kind in _ADDRESSED_BY_PROCESS for dso in self.dsos), False], np.bool_)

    @cached_property
    def for_library(self) -> kernels.SpaceColumns:
        """The columns of versions and mappings for `chains.c`."""
        made, mapped = kernels.SpaceColumns(versions=len(self.first)), self.mapped
        wide = {"first": self.first, "last": self.last, "start": mapped.start, "end": mapped.end, "shift": mapped.shift}
        narrow = {"owner": self.owner, "dso": mapped.dso}
        made.point(
            **{name: np.ascontiguousarray(column, np.uint64) for name, column in wide.items()},
            **{name: np.ascontiguousarray(column, np.int32) for name, column in narrow.items()},
            by_process=self.by_process,
        )
        return made

    def has_mappings(self, pid: int) -> bool:
        """Whether a process ever had user code mapped: kernel threads never do."""
        versions = self.version[slice(*np.searchsorted(self.pid, [pid, pid + 1]))]
        return bool((self.last[versions] > self.first[versions]).any())

    def version_of(self, pids: Int32, times: Int64) -> Int32:
        """Per sample, the version of its process's address space at its time."""
        versions = np.full(len(pids), EMPTY, np.int32)
        order = np.argsort(pids, kind="stable")
        distinct, starts = np.unique(pids[order], return_index=True)
        begins = np.searchsorted(self.pid, distinct).tolist()
        ends = np.searchsorted(self.pid, distinct, side="right").tolist()
        for begin, end, rows in zip(begins, ends, np.split(order, starts[1:]), strict=False):
            if begin < end:
                index = np.searchsorted(self.since[begin:end], times[rows], side="right") - 1
                versions[rows] = self.version[begin:end][np.maximum(index, 0)]
        return versions

    def find(self, version: int, addresses: UInt64) -> tuple[Int32, UInt64]:
        """`MappingColumns.find` in one version."""
        return self.mapped.take(slice(self.first[version], self.last[version])).find(addresses)


class AddressSpaces:
    """Replays task records in time order; `table()` afterwards tells what is mapped where and when."""

    def __init__(self, spells: Lookup[int, tuple[Int64, Int64]]) -> None:
        """`spells`: of each process (`joined_spells`); a version in none of which a sample may be is not kept."""
        self.versions: list[Version] = [Version(-1)]
        self._files = Numbering[tuple[str, str]]()
        """(path, build id) of each DSO."""
        self._history: dict[int, tuple[list[int], list[int]]] = {}
        self._spells = spells
        self.forked_from: dict[int, int] = {}

    def apply(self, time: int, record: TaskRecord, build_ids: Lookup[str, str]) -> None:
        """Take in one record; `build_ids` gives those that are not in the record itself."""
        if isinstance(record, MapRecord):
            self._map(time, record, record.build_id or build_ids.get(record.path, ""))
        elif isinstance(record, ForkRecord):
            if record.pid != record.parent_pid:
                parent = self._current(record.parent_pid) if record.clones else None
                if parent:
                    self.forked_from[record.pid] = record.parent_pid
                self._begin(time, record.pid, parent.mappings if parent else [])
        elif record.exec:
            self.forked_from.pop(record.pid, None)
            self._begin(time, record.pid, [])

    def table(self) -> SpaceTable:
        """All versions as columns."""
        blocks: dict[int, int] = {}
        for version in self.versions:
            blocks.setdefault(id(version.mappings), len(blocks))
        lists = list({id(version.mappings): version.mappings for version in self.versions}.values())
        ends = np.cumsum([0, *map(len, lists)])
        block = np.array([blocks[id(version.mappings)] for version in self.versions])
        history = sorted((pid, *row) for pid, rows in self._history.items() for row in zip(*rows, strict=True))
        pid, since, which = (list(column) for column in zip(*history, strict=True)) if history else ([], [], [])
        return SpaceTable(
            pid=np.array(pid, np.int32),
            since=np.array(since, np.int64),
            version=np.array(which, np.int32),
            first=ends[block],
            last=ends[block + 1],
            mapped=MappingColumns.made_of([mapping for each in lists for mapping in each]),
            owner=np.array([self._history.get(version.pid, ([], [0]))[1][0] for version in self.versions], np.int32),
            pid_of=np.array([version.pid for version in self.versions], np.int32),
            dsos=tuple(starmap(user_dso, self._files.items)),
            forked_from=self.forked_from,
        )

    def _map(self, time: int, record: MapRecord, build_id: str) -> None:
        dso = self._files.number((record.path, build_id))
        by_process = user_dso(record.path, build_id).kind in _ADDRESSED_BY_PROCESS
        shift = 0 if by_process else record.pgoff - record.start
        new = Mapping(record.start, record.end, shift, dso)
        version = self._current(record.pid) or self._begin(time, record.pid, [])
        place = version.overlapping(new.start, new.end)
        if place.start < place.stop:
            displaced = version.mappings[place]
            if any((old.dso, old.shift) != (new.dso, new.shift) for old in displaced) and self._seen(record.pid, time):
                version = self._begin(time, record.pid, version.mappings)
        version.put(new, place)

    def _seen(self, pid: int, time: int) -> bool:
        """Whether a sample of the process may fall between the start of its current version and `time`."""
        first, last = self._spells.get(pid, (_NONE, _NONE))
        next_ = int(last.searchsorted(self._history[pid][0][-1]))
        return next_ < len(first) and bool(first[next_] < time)

    def _current(self, pid: int) -> Version | None:
        history = self._history.get(pid)
        return self.versions[history[1][-1]] if history else None

    def _begin(self, time: int, pid: int, mappings: list[Mapping]) -> Version:
        """Start a new version, or reuse the current one if no sample has seen it."""
        since, which = self._history.setdefault(pid, ([], []))
        if which and not self._seen(pid, time):
            self.versions[which[-1]].mappings = mappings
            return self.versions[which[-1]]
        since.append(time)
        which.append(len(self.versions))
        self.versions.append(Version(pid, mappings))
        return self.versions[-1]


def spells_of(pid: Int32, time: Int64, *, timed: bool) -> tuple[Int32, Int64, Int64]:
    """Spells in which processes are sampled, of at most a millisecond: whose, their first and their last sample.

    A version of an address space that begins and ends within one is kept, whether a sample sees it or not: so few
    numbers suffice for millions of samples. Where these are not `timed`, each has a spell of its own.
    """
    order = np.argsort(pid, kind="stable")
    pid, time = pid[order], time[order]
    at = time >> (_SPELL_BITS if timed else 0)
    begins = np.flatnonzero(np.append(True, (pid[1:] != pid[:-1]) | (at[1:] != at[:-1])))
    return pid[begins], np.minimum.reduceat(time, begins), np.maximum.reduceat(time, begins)


def joined_spells(spells: Sequence[tuple[Int32, Int64, Int64]]) -> dict[int, tuple[Int64, Int64]]:
    """Process → when its spells begin and end, both ascending."""
    if not spells:
        return {}
    pid, first, last = (np.concatenate(column) for column in zip(*spells, strict=True))
    order = np.lexsort((first, pid))
    pid, first, last = pid[order], first[order], last[order]
    begins = np.flatnonzero(np.append(True, pid[1:] != pid[:-1]))
    ends = np.append(begins[1:], len(pid)).tolist()
    parts = map(slice, begins.tolist(), ends)
    return {int(pid[part.start]): (first[part], np.maximum.accumulate(last[part])) for part in parts}


@lru_cache(1024)
def user_dso(path: str, build_id: str) -> Dso:
    """The DSO that a mapping's file name stands for (names: `tools/perf/util/map.c`, `fs/proc/task_mmu.c`).

    A deleted file keeps its mark unless its build id is known: the file that now has its name may be another one.
    """
    if path.startswith(("[vdso", "[vsyscall")):
        return Dso(path, build_id, "vdso")
    if path.startswith(("//anon", "/anon_hugepage", "/dev/zero", "/memfd:", "/SYSV")) or not path:
        # Executable memory without a file of its own holds code made at run time.
        name = path.removesuffix(_DELETED).rsplit("/", 1)[-1]
        return Dso("[anon]" if name in ("", "anon", "zero", "anon_hugepage") else f"[{name}]", "", "jit")
    if not path.startswith("/"):
        return Dso(path if path.startswith("[") else f"[{path}]", "", "anon")
    return Dso(path.removesuffix(_DELETED) if build_id else path, build_id, "file")
