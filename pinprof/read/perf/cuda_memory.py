"""Where the memory of CUDA calls lies: what was allocated and freed, and the kind of both ends of every copy.

Mappings, allocations, registrations and copies are replayed in time order, each process by itself. Allocations tell
their size, not their address; but the driver maps page-locked and managed memory inside the call, so the mapping tells.
Later small allocations may come out of the same mapping: all of it is of that kind until something else is mapped
there.

- An address in page-locked, registered or managed memory is of that kind, whatever else is known of it.
- Any other host address is pageable. The direction of a copy says which end is the host's: its name or its argument
  states it, or a call inside it. Where none does (unified addressing), the address tells: the driver reserves the
  device's address space by mappings without any access, or of its own device files, and no program reads those.
- A program that already ran when it was attached to, or whose page-locked memory was not all found, may have such
  memory elsewhere: what is not known is said to be unknown.
- Where records may be missing (call_losses.py), registered memory may have been given back, and any other may have
  been granted: all but the driver's own mappings is unknown until later records show it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from pinprof.base.columns import Bool, Int64, Table, UInt8, UInt64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import (
    UNRECORDED,
    ApiCallTable,
    CopyKind,
    Location,
    MemoryKind,
    MemoryOperation,
    MemoryUsageTable,
)
from pinprof.data.gpu_functions import FUNCTIONS, Function
from pinprof.read.perf.cuda_processes import ANONYMOUS, Held, MappingKind, Process, place_of
from pinprof.read.perf.mappings import TaskRecord
from pinprof.read.perf.places import NOTHING
from pinprof.read.perf.records import DataArea, ForkRecord, MapRecord

_MOST_BYTES = 2**63 - 1
_SHARED = 0x01
_ON_HOST = (Location.HOST, Location.HOST_NUMA, Location.HOST_NUMA_CURRENT)
_HOST_TARGET = (CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_HOST)
_HOST_SOURCE = (CopyKind.HOST_TO_DEVICE, CopyKind.HOST_TO_HOST)


@dataclass(frozen=True)
class CudaMemory:
    """What a replay yields."""

    calls: ApiCallTable
    usage: MemoryUsageTable


@dataclass(frozen=True)
class Arguments:
    """What was recorded of the calls beside the table; columns of its length."""

    pointer: UInt64
    """Of memory that is granted, too, where the recorder says it."""
    target: UInt64
    source: UInt64
    """0 where the function has none."""
    stated: UInt8
    """`CopyKind` as far as names and arguments tell."""
    pieces: UInt64
    """Of batched calls, 0 for others."""
    location: UInt8
    """`Location` as properties state it, UNKNOWN where the function has none."""


def with_memory(
    calls: ApiCallTable,
    arguments: Arguments,
    areas: Sequence[DataArea],
    tasks: Iterable[tuple[int, TaskRecord]],
    before: Mapping[int, Process] = MappingProxyType({}),
    missing: Sequence[tuple[int, int]] = (),
) -> CudaMemory:
    """The calls with the sizes of frees and the columns about memory, and what was allocated and freed.

    `before`: what is known of processes at their beginning, by pid. `missing`: from when to when records of all this
    may be missing.
    """
    return _Replay(calls, arguments, areas, tasks, before, missing).run()


class _Replay:
    """One pass in time order."""

    def __init__(
        self,
        calls: ApiCallTable,
        arguments: Arguments,
        areas: Sequence[DataArea],
        tasks: Iterable[tuple[int, TaskRecord]],
        before: Mapping[int, Process],
        missing: Sequence[tuple[int, int]],
    ) -> None:
        assert calls.size_bytes is not None
        self._calls, self._arguments = calls, arguments
        self._size = calls.size_bytes.copy()
        self._roles = [FUNCTIONS.get(name, Function()) for name in calls.names]
        self._kinds = [role.memory for role in self._roles]
        self._areas, self._tasks = sorted(areas), tasks
        self._programs = {(record.pid, record.path) for _, record in tasks if isinstance(record, MapRecord)}
        self._made: dict[tuple[int, int], list[DataArea]] = defaultdict(list)
        for area in self._areas:
            self._made[area.pid, area.tid].append(area)
        self._processes: dict[int, Process] = defaultdict(Process)
        self._processes.update(before)
        self._missing = missing
        self._granted = np.full(len(calls), -1, np.int64)
        self._location = arguments.location.copy()
        self._address = np.zeros(len(calls), np.uint64)
        self._usage: list[tuple[int, int, int, MemoryKind, MemoryOperation]] = []
        copies = np.array([role.copies is not None for role in self._roles] or [False], np.bool_)
        self._copies = np.flatnonzero(copies[calls.name])
        self._looks = [_Looks.of(len(self._copies), owned=NOTHING, mapped=NOTHING) for _ in range(2)]

    def run(self) -> CudaMemory:
        starts = self._calls.start_ns[self._copies]
        done = 0
        for time, change in sorted(self._changes(), key=lambda each: each[0]):
            upto = int(np.searchsorted(starts, time))
            if upto > done:
                self._look(done, upto)
                done = upto
            self._apply(change, time)
        self._look(done, len(starts))
        return CudaMemory(self._with_kinds(), self._memory_usage())

    def _changes(self) -> Iterator[tuple[int, DataArea | TaskRecord | int | None]]:
        """(time, mapping, task record, row of a call that makes or gives back memory, or None where records are
        missing).
        """
        yield from ((time, None) for interval in self._missing for time in interval)
        yield from self._tasks
        yield from ((area.clock, area) for area in self._areas)
        calls = self._calls
        concerned = [
            role.memory is not None or role.properties is not None or role.maps is not None for role in self._roles
        ]
        makes = [role.grants or role.size is not None for role in self._roles]
        about = np.array([role.memory is not None for role in self._roles] or [False], np.bool_)[calls.name]
        self._address[about] = self._arguments.pointer[about]
        for row in np.flatnonzero(np.array(concerned or [False], np.bool_)[calls.name] & (calls.status == 0)).tolist():
            yield int(calls.end_ns[row] if makes[calls.name[row]] else calls.start_ns[row]), row

    def _apply(self, change: DataArea | TaskRecord | int | None, time: int) -> None:
        if change is None:
            self._processes.update([(pid, process.doubtful()) for pid, process in self._processes.items()])
        elif isinstance(change, int):
            role = self._roles[self._calls.name[change]]
            if role.maps is not None:
                self._map(change, lays=role.maps)
            elif role.memory is None:
                self._processes[int(self._calls.pid[change])].pools.add(int(self._arguments.location[change]))
            elif role.grants or role.size is not None:
                self._allocate(change, role)
            elif self._arguments.pointer[change]:
                self._free(change)
        elif isinstance(change, DataArea):
            place = place_of(change, program=(change.pid, change.path) in self._programs)
            self._processes[change.pid].mapped.put(change.start, change.end, place)
        elif isinstance(change, MapRecord):
            self._processes[change.pid].mapped.put(change.start, change.end, MappingKind.HOST)
        elif isinstance(change, ForkRecord):
            if change.pid != change.parent_pid and change.clones:
                self._processes[change.pid] = self._processes[change.parent_pid].forked()
        elif change.exec:
            lacking = any(since <= time < until for since, until in self._missing)
            self._processes[change.pid] = Process(whole=not lacking)

    def _allocate(self, row: int, role: Function) -> None:
        calls, kind = self._calls, self._kinds[self._calls.name[row]]
        assert kind is not None
        process, size = self._processes[int(calls.pid[row])], int(self._size[row])
        self._location[row] = location = self._where(row, role, process)
        if location in _ON_HOST:
            self._usage.append((row, size, 0, MemoryKind.PINNED, MemoryOperation.ALLOCATE))
            process.hosted.append(Held(size, 0))
            return
        address, length = int(self._arguments.pointer[row]), size
        if role.pointer is None and kind != MemoryKind.DEVICE:  # which lies in no mapping of the host
            found, wanted = self._mapped_in(row, kind, process, address)
            address, length = (address, max(size, 0)) if address else (found, wanted)
        self._usage.append((row, size, address, kind, MemoryOperation.ALLOCATE))
        self._address[row] = address
        if address:
            process.live[kind, address] = Held(size, length)
            process.owned.put(address, address + length, kind)
        else:
            process.adrift[kind].append(Held(size, 0))

    def _map(self, row: int, *, lays: bool) -> None:
        """Physical memory comes to lie at an address, or no longer does."""
        process, address = self._processes[int(self._calls.pid[row])], int(self._arguments.pointer[row])
        if address:
            kind = MemoryKind.UNKNOWN if process.hosted else MemoryKind.DEVICE
            process.owned.put(address, address + max(int(self._size[row]), 0), kind if lays else NOTHING)

    def _where(self, row: int, role: Function, process: Process) -> int:
        """The location of memory with a handle, or from a pool where all pools that the process made lie alike."""
        if role.pool is not None:
            return next(iter(process.pools)) if len(process.pools) == 1 else Location.UNKNOWN
        return int(self._arguments.location[row])

    def _mapped_in(self, row: int, kind: MemoryKind, process: Process, address: int) -> tuple[int, int]:
        """Where an allocation lies, and how long it is: in the smallest mapping made inside the call that can hold it,
        and has its address where that is known; 0 when there is none. All of the driver's own mappings made there are
        of its kind.
        """
        calls, wanted = self._calls, int(self._size[row])
        areas = self._made.get((int(calls.pid[row]), int(calls.tid[row])), [])
        first = bisect_left(areas, int(calls.start_ns[row]), key=lambda area: area.clock)
        last = bisect_right(areas, int(calls.end_ns[row]), key=lambda area: area.clock)
        place = MappingKind.MANAGED if kind == MemoryKind.MANAGED else MappingKind.PINNED
        usable = [area for area in areas[first:last] if _may_be_granted(area, kind)]
        for area in usable:
            if area.flags & _SHARED:
                process.mapped.put(area.start, area.end, place)
        fitting = [
            area
            for area in usable
            if area.end - area.start >= wanted and (not address or area.start <= address < area.end)
        ]
        if not fitting:
            return 0, 0
        chosen = min(fitting, key=lambda area: area.end - area.start)
        if kind == MemoryKind.PINNED:
            self._granted[row] = min(chosen.end - chosen.start, _MOST_BYTES)
        return chosen.start, max(wanted, 0)

    def _free(self, row: int) -> None:
        calls, kind = self._calls, self._kinds[self._calls.name[row]]
        assert kind is not None
        process, address = self._processes[int(calls.pid[row])], int(self._arguments.pointer[row])
        held = [each for each in (kind, MemoryKind.MANAGED) if (each, address) in process.live]
        unknown = process.adrift[kind] or process.adrift[MemoryKind.MANAGED]
        if not unknown and kind == MemoryKind.DEVICE and process.hosted:
            kind, unknown = MemoryKind.PINNED, process.hosted
        if held:
            kind = held[0]
            freed = process.live.pop((kind, address))
            process.owned.put(address, address + freed.length, NOTHING)
        elif len(unknown) == 1:
            freed = unknown.pop()
        else:
            return
        self._size[row] = freed.size
        self._usage.append((row, freed.size, address, kind, MemoryOperation.FREE))

    def _look(self, first: int, last: int) -> None:
        """Note what lies at both ends of copies, a run of which nothing changed in between."""
        rows = self._copies[first:last]
        for looks, addresses in zip(self._looks, (self._arguments.source, self._arguments.target), strict=True):
            for pid in ascending(self._calls.pid[rows]).tolist():
                process = self._processes[pid]
                mine = np.flatnonzero(self._calls.pid[rows] == pid)
                at = addresses[rows[mine]]
                place = first + mine
                looks.owned[place], looks.mapped[place] = process.owned.at(at), process.mapped.at(at)
                looks.whole[place] = process.whole
                adrift = process.hosted or process.adrift[MemoryKind.PINNED] or process.adrift[MemoryKind.MANAGED]
                looks.adrift[place] = bool(adrift)

    def _with_kinds(self) -> ApiCallTable:
        rows, arguments = self._copies, self._arguments
        stated = arguments.stated[rows]
        source, target = (
            looks.kinds(addresses[rows] != 0, np.isin(stated, hosts), stated != CopyKind.UNKNOWN)
            for looks, addresses, hosts in zip(
                self._looks, (arguments.source, arguments.target), (_HOST_SOURCE, _HOST_TARGET), strict=True
            )
        )

        def column(values: UInt8) -> UInt8:
            whole = np.full(len(self._calls), UNRECORDED, np.uint8)
            whole[rows] = values
            return whole

        from_file = np.zeros(len(self._calls), np.bool_)
        from_file[rows] = (self._looks[0].mapped == MappingKind.FILE) & (arguments.source[rows] != 0)
        direction = _direction(stated, source, target)
        address = np.zeros(len(self._calls), np.uint64)
        to_host = np.isin(direction, _HOST_TARGET)
        address[rows] = np.where(to_host, arguments.target[rows], arguments.source[rows])
        return replace(
            self._calls,
            size_bytes=self._size,
            copy_kind=column(direction),
            source_kind=column(source),
            target_kind=column(target),
            from_file=from_file,
            host_address=address,
            granted_bytes=self._granted,
            location=self._location,
            address=self._address,
        )

    def _memory_usage(self) -> MemoryUsageTable:
        calls = self._calls
        number = np.array([entry[0] for entry in self._usage], np.int64)
        usage = MemoryUsageTable.of(
            len(number),
            time_ns=calls.end_ns[number],
            size_bytes=[max(entry[1], 0) for entry in self._usage],
            address=[entry[2] for entry in self._usage],
            memory_kind=[entry[3] for entry in self._usage],
            operation=[entry[4] for entry in self._usage],
            device=-1,
            pid=calls.pid[number],
            correlation_id=calls.correlation_id[number],
        )
        return usage.take(np.lexsort((number, usage.time_ns)))


@dataclass(frozen=True, eq=False, repr=False)
class _Looks(Table):
    """What lay at one end of each copy."""

    owned: Int64
    mapped: Int64
    whole: Bool
    adrift: Bool

    def kinds(self, has_address: Bool, host: Bool, stated: Bool) -> UInt8:
        """`MemoryKind` of that end; `host`: where the direction is `stated`, whether it is the host's."""
        mapped = self.mapped
        plain = (mapped == MappingKind.HOST) | (mapped == MappingKind.FILE)
        pageable = self.whole & (plain | ~self.adrift)
        elsewhere = self.whole & ~plain | (mapped == MappingKind.DRIVERS)
        chosen = np.select(
            [
                ~has_address & (host | ~stated),
                self.owned != NOTHING,
                mapped == MappingKind.PINNED,
                mapped == MappingKind.MANAGED,
                stated & ~host,
                stated & pageable,
                ~stated & plain & self.whole,
                ~stated & elsewhere,
            ],
            [
                MemoryKind.UNKNOWN,
                self.owned,
                MemoryKind.PINNED,
                MemoryKind.MANAGED,
                MemoryKind.DEVICE,
                MemoryKind.PAGEABLE,
                MemoryKind.PAGEABLE,
                MemoryKind.DEVICE,
            ],
            MemoryKind.UNKNOWN,
        )
        return chosen.astype(np.uint8)


def _may_be_granted(area: DataArea, kind: MemoryKind) -> bool:
    """Whether a mapping can be memory that the driver grants: page-locked memory is anonymous, managed its device's."""
    if area.protection == 0:
        return False
    if kind == MemoryKind.MANAGED and area.path.startswith("/dev/nvidia-uvm"):
        return True
    return area.path.startswith(ANONYMOUS)


def _direction(stated: UInt8, source: UInt8, target: UInt8) -> UInt8:
    """`CopyKind`: as stated, else as both ends tell; managed memory is on either side."""
    from_host, to_host = (np.isin(end, (MemoryKind.PAGEABLE, MemoryKind.PINNED)) for end in (source, target))
    from_device, to_device = source == MemoryKind.DEVICE, target == MemoryKind.DEVICE
    likely = np.select(
        [from_host & to_device, from_device & to_host, from_device & to_device, from_host & to_host],
        [
            CopyKind.HOST_TO_DEVICE,
            CopyKind.DEVICE_TO_HOST,
            CopyKind.DEVICE_TO_DEVICE,
            CopyKind.HOST_TO_HOST,
        ],
        CopyKind.UNKNOWN,
    )
    return np.where(stated != CopyKind.UNKNOWN, stated, likely).astype(np.uint8)
