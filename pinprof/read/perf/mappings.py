"""Which file lay where in which process, and since when.

An address space begins with a fork (a copy of the parent's) or an exec (empty). A later mapping replaces what it
overlaps. Unmapping is not recorded by the kernel, so a mapping lasts until something else takes its place. Samples
name the *version* of an address space: a new version begins only where a new mapping displaces a different one, so
that most processes have a single version, whatever they map in the course of time.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping as Lookup
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import starmap

import numpy as np

from pinprof.base.columns import Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.numbering import Numbering
from pinprof.data.model import Bool, Dso, Int32, Int64, UInt64
from pinprof.read.perf import kernels
from pinprof.read.perf.places import Places
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


class Version:
    """One version of a process's address space."""

    __slots__ = ("mappings", "pid", "shared", "since")

    def __init__(self, pid: int, since: int, mappings: Places) -> None:
        self.pid = pid
        self.since = since
        self.mappings = mappings
        """Disjoint; their values are numbers of `AddressSpaces`."""
        self.shared = False
        """Whether another version has them, too: a forked process and a later version until they map more."""

    def put(self, start: int, end: int, number: int) -> None:
        """Lay a mapping over what is there."""
        if self.shared:
            self.mappings, self.shared = self.mappings.copy(), False
        self.mappings.put(start, end, number)


@dataclass(frozen=True, eq=False, repr=False)
class MappingColumns(Table):
    """Mappings as columns, ascending."""

    start: UInt64
    end: UInt64
    shift: UInt64
    dso: Int32

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

    def __init__(self, spells: Spells) -> None:
        """A version in none of whose process's `spells` a sample may be is not kept."""
        self.versions: list[Version] = [Version(-1, 0, Places())]
        self._files = Numbering[tuple[str, str]]()
        """(path, build id) of each DSO."""
        self._shifts, self._dsos = array("Q"), array("i")
        """By number of a mapping."""
        self._latest: dict[int, int] = {}
        """Per process the number of its version."""
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
                self._begin(time, record.pid, parent)
        elif record.exec:
            self.forked_from.pop(record.pid, None)
            self._begin(time, record.pid, None)

    def table(self) -> SpaceTable:
        """All versions as columns."""
        blocks: dict[int, int] = {}
        block = np.array([blocks.setdefault(id(version.mappings), len(blocks)) for version in self.versions])
        lists = list({id(version.mappings): version.mappings for version in self.versions}.values())
        starts, ends, numbers = array("Q"), array("Q"), array("q")
        for mappings in lists:
            for column, more in zip((starts, ends, numbers), mappings.columns, strict=True):
                column.extend(more)
        last = np.cumsum([0, *(len(mappings.columns[0]) for mappings in lists)])
        number = np.array(numbers, np.int64)
        pid_of = np.array([version.pid for version in self.versions], np.int32)
        since = np.array([version.since for version in self.versions], np.int64)
        order = np.lexsort((since[1:], pid_of[1:])) + 1
        # A process's versions stand in the order of time.
        _, first, process = np.unique(pid_of, return_index=True, return_inverse=True)
        return SpaceTable(
            pid=pid_of[order],
            since=since[order],
            version=order.astype(np.int32),
            first=last[block],
            last=last[block + 1],
            mapped=MappingColumns(
                start=np.array(starts, np.uint64),
                end=np.array(ends, np.uint64),
                shift=np.array(self._shifts, np.uint64)[number],
                dso=np.array(self._dsos, np.int32)[number],
            ),
            owner=first[process.reshape(-1)].astype(np.int32),
            pid_of=pid_of,
            dsos=tuple(starmap(user_dso, self._files.items)),
            forked_from=self.forked_from,
        )

    def _map(self, time: int, record: MapRecord, build_id: str) -> None:
        dso = self._files.number((record.path, build_id))
        by_process = user_dso(record.path, build_id).kind in _ADDRESSED_BY_PROCESS
        shift = 0 if by_process else (record.pgoff - record.start) % 2**64
        version = self._current(record.pid) or self._begin(time, record.pid, None)
        displaced = version.mappings.within(record.start, record.end)
        if any((self._dsos[old], self._shifts[old]) != (dso, shift) for old in displaced):
            version = self._begin(time, record.pid, version)
        version.put(record.start, record.end, len(self._dsos))
        self._dsos.append(dso)
        self._shifts.append(shift)

    def _seen(self, version: Version, time: int) -> bool:
        """Whether a sample of its process may fall between the start of a version and `time`."""
        first, last = self._spells.of(version.pid)
        next_ = int(last.searchsorted(version.since))
        return next_ < len(first) and bool(first[next_] < time)

    def _current(self, pid: int) -> Version | None:
        number = self._latest.get(pid)
        return None if number is None else self.versions[number]

    def _begin(self, time: int, pid: int, origin: Version | None) -> Version:
        """Start a new version with the mappings of `origin`, or reuse the current one if no sample has seen it."""
        mappings = origin.mappings if origin else Places()
        version = self._current(pid)
        if version is None or self._seen(version, time):
            self._latest[pid] = len(self.versions)
            version = Version(pid, time, mappings)
            self.versions.append(version)
        if origin is not version:
            version.mappings, version.shared = mappings, origin is not None
            if origin:
                origin.shared = True
        return version


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


class Spells:
    """When processes have samples, as `spells_of` tells it part by part."""

    def __init__(self, parts: Sequence[tuple[Int32, Int64, Int64]] = ()) -> None:
        parts = parts or [(np.zeros(0, np.int32), _NONE, _NONE)]
        pid, first, last = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((first, pid))
        pid, self._first, self._last = pid[order], first[order], last[order]
        begins = np.flatnonzero(np.append(len(pid) > 0, pid[1:] != pid[:-1])[: len(pid)])
        self._bounds = np.append(begins, len(pid))
        # Of another type than what is looked for, all would be converted for each look.
        self._processes = pid[begins].astype(np.int64)
        later = self._last[1:] >= self._last[:-1]
        for process in np.unique(pid[1:][~later & (pid[1:] == pid[:-1])]).tolist():
            last = self.of(process)[1]
            np.maximum.accumulate(last, out=last)

    def of(self, pid: int) -> tuple[Int64, Int64]:
        """When the spells of a process begin and end, both ascending."""
        place = int(self._processes.searchsorted(pid))
        if place == len(self._processes) or self._processes[place] != pid:
            return _NONE, _NONE
        rows = slice(self._bounds[place], self._bounds[place + 1])
        return self._first[rows], self._last[rows]


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
