"""Managed memory as the driver's own events tell it; a file for each address space (uvm_events.py has the layout).

Nothing in a file raises an error: what is no whole event is left out and counted. The writer may have been killed at
any instruction, the disk may have been full, and the file may be of a hostile program.

Times become CLOCK_MONOTONIC by the pairs of readings in the file. A migration has times of the CPU, when it was queued
and when its end was noticed, and times of the GPU, when it ran. It is taken to have run as long as the GPU says, and at
the time that the GPU says, whose clock is compared with the CPU's within each second: no migration ran before it was
queued, and the one that waited least ran at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns
from pinprof.data.activity import UNRECORDED, Activity, CopyKind, GpuOpTable, OpKind, PageFaultTable
from pinprof.data.model import Capture
from pinprof.data.uvm_events import (
    CLOCK,
    CLOCK_AT,
    CLOCK_RAW_AT,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    LARGEST_FILE,
    MAGIC,
    VERSION,
    Counter,
    State,
    UvmEvent,
)
from pinprof.read.directory import Reading

SOURCE = "events of NVIDIA's UVM driver"

HEADER_TYPE = np.dtype([(name, kind, count) if count > 1 else (name, kind) for name, kind, count in HEADER])

_CPU_FAULT = {"access": ("u1", 1), "address": ("<u8", 8), "time": ("<u8", 16)}
_READING = {"raw": ("<u8", CLOCK_RAW_AT), "time": ("<u8", CLOCK_AT)}
_PLACES: dict[int, dict[int, dict[str, tuple[str, int]]]] = {
    UvmEvent.CPU_FAULT: dict.fromkeys((1, 2), _CPU_FAULT),
    UvmEvent.MIGRATION: {
        1: {
            "cause": ("u1", 1), "source": ("u1", 2), "target": ("u1", 3), "address": ("<u8", 8), "bytes": ("<u8", 16),
            "begin": ("<u8", 24), "end": ("<u8", 32), "gpu_begin": ("<u8", 48), "gpu_end": ("<u8", 56),
        },
        2: {
            "cause": ("u1", 1), "source": ("<u2", 4), "target": ("<u2", 6), "address": ("<u8", 16),
            "bytes": ("<u8", 24), "begin": ("<u8", 32), "end": ("<u8", 40), "gpu_begin": ("<u8", 56),
            "gpu_end": ("<u8", 64),
        },
    },
    UvmEvent.GPU_FAULT: {
        1: {
            "access": ("u1", 2), "processor": ("u1", 3), "address": ("<u8", 8), "time": ("<u8", 16),
            "batch": ("<u4", 32), "client": ("u1", 36),
        },
        2: {
            "access": ("u1", 37), "processor": ("<u2", 2), "address": ("<u8", 8), "time": ("<u8", 16),
            "batch": ("<u4", 32), "client": ("u1", 36),
        },
    },
    UvmEvent.GPU_FAULT_REPLAY: {
        1: {"processor": ("u1", 1), "client": ("u1", 2), "batch": ("<u4", 4), "time": ("<u8", 8)},
        2: {"processor": ("<u2", 2), "client": ("u1", 1), "batch": ("<u4", 4), "time": ("<u8", 8)},
    },
    CLOCK: dict.fromkeys((1, 2), _READING),
}  # fmt: skip
"""Kind → layout → what is read of an event: type and place (uvm_types.h)."""

_SAID = {
    UvmEvent.THRASHING: ("move of memory back and forth (thrashing)", "moves of memory back and forth (thrashing)"),
    UvmEvent.THROTTLING_START: ("throttling of a processor because of it", "throttlings of a processor because of it"),
    UvmEvent.MAP_REMOTE: ("remote mapping", "remote mappings"),
    UvmEvent.EVICTION: ("eviction", "evictions"),
    UvmEvent.READ_DUPLICATE: ("page copied to several processors", "pages copied to several processors"),
    UvmEvent.FAULT_BUFFER_OVERFLOW: ("overflow of the fault buffer", "overflows of the fault buffer"),
    UvmEvent.FATAL_FAULT: ("fatal fault", "fatal faults"),
}
"""Kinds that have no table: one, several."""
_KNOWN = np.isin(np.arange(256), [*map(int, UvmEvent), CLOCK])
_PER_GPU = 8
"""UVM_PARENT_ID_MAX_SUB_PROCESSORS: numbers that each GPU has in the second layout."""
_BLOCK_BITS = 21
"""The driver serves faults by blocks of 2 MiB."""
_WINDOW_NS = 1_000_000_000
_LATEST_NS, _LATEST_GPU_NS = 2**60, 2**62
"""A GPU's clock shows the time since 1970."""
_MOST_BYTES = 2**60


@dataclass(frozen=True)
class UvmFile:
    """The events of one address space, in the order in which the driver wrote them."""

    pid: int
    layout: int
    state: int
    opened_ns: int
    opened_raw_ns: int
    stopped_ns: int
    """When events ended before the process did; 0 where they did not."""
    cost_ns: int
    """CPU time of reading and writing."""
    counters: tuple[int, ...]
    """By `Counter`; empty where there were none."""
    dropped: int
    """Events that found no room in the driver's queue."""
    damaged: int
    """Events of no known kind, and the bytes of a part of one, left out."""
    entries: NDArray[np.uint8]
    """One row for each."""

    @property
    def is_whole(self) -> bool:
        """Whether it holds the events to the end: sums of a part would be taken for those of the whole."""
        return self.state in (State.RUNNING, State.ENDED)

    def of_kind(self, kind: int) -> NDArray[np.void]:
        """The events of one kind, as records."""
        rows = np.ascontiguousarray(self.entries[self.entries[:, 0] == kind])
        return rows.reshape(-1).view(record_type(kind, self.layout))

    def count(self, kind: int) -> int:
        """How many there are."""
        return int(np.count_nonzero(self.entries[:, 0] == kind))


@dataclass(frozen=True)
class UvmWork:
    """The files of a capture together."""

    migrations: GpuOpTable
    faults: PageFaultTable
    recorded: frozenset[str]
    """As in `Activity`."""
    notes: tuple[str, ...]


def record_type(kind: int, layout: int) -> np.dtype[np.void]:
    """What is read of an event of a kind, by numpy."""
    places = _PLACES[kind][layout]
    return np.dtype(
        {
            "names": list(places),
            "formats": [form for form, _ in places.values()],
            "offsets": [at for _, at in places.values()],
            "itemsize": ENTRY_BYTES[layout],
        }
    )


def load(path: Path) -> UvmFile | None:
    """One file; None for what is none, or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:  # to open a FIFO would wait for a writer
            return None
        return parse(path.read_bytes())
    except OSError:
        return None


def parse(data: bytes) -> UvmFile | None:
    """The same of bytes."""
    if len(data) < HEADER_BYTES:
        return None
    header = np.frombuffer(data, HEADER_TYPE, 1)[0]
    layout = int(header["layout"])
    if header["magic"] != MAGIC or header["version"] != VERSION or layout not in ENTRY_BYTES:
        return None
    size = min(int(header["written"]), len(data) - HEADER_BYTES)
    count, rest = divmod(size, ENTRY_BYTES[layout])
    entries = np.frombuffer(data, np.uint8, count * ENTRY_BYTES[layout], HEADER_BYTES)
    entries = entries.reshape(count, ENTRY_BYTES[layout])
    known = _KNOWN[entries[:, 0]]
    return UvmFile(
        pid=int(header["pid"]) & 0x7FFFFFFF,
        layout=layout,
        state=int(header["state"]),
        opened_ns=min(int(header["opened_ns"]), _LATEST_NS),
        opened_raw_ns=min(int(header["opened_raw_ns"]), _LATEST_NS),
        stopped_ns=min(int(header["stopped_ns"]), _LATEST_NS),
        cost_ns=min(int(header["cost_ns"]), _LATEST_NS),
        counters=tuple(map(int, header["counters"])) if header["counted"] else (),
        dropped=sum(map(int, header["dropped"])),
        damaged=int(np.count_nonzero(~known)) + (rest > 0),
        entries=entries if known.all() else entries[known],
    )


def with_managed_memory(capture: Capture, path: Path, _reading: Reading) -> Capture:
    """The capture with events of its managed memory."""
    seen = read_folder(path, capture.activity)
    return replace(capture.with_notes(*seen[1]), activity=seen[0]) if seen else capture


def read_folder(folder: Path, activity: Activity | None) -> tuple[Activity, tuple[str, ...]] | None:
    """An activity with the managed memory of a capture's folder, and notes; None where there are no files.

    An activity that has migrations already, by another recorder, keeps those.
    """
    files = [load(path) for path in sorted(folder.glob("*.bin"))]
    if not files:
        return None
    activity = activity or Activity("")
    work = combine([file for file in files if file is not None], unreadable=files.count(None))
    if np.any(activity.gpu_ops.kind == OpKind.MIGRATION) or not work.recorded:
        return activity, work.notes
    operations = activity.gpu_ops.joined(work.migrations) if len(activity.gpu_ops) else work.migrations
    operations = operations.take(np.lexsort((operations.end_ns, operations.start_ns)))
    added = replace(
        activity,
        source=f"{activity.source}; {SOURCE}" if activity.source else SOURCE,
        gpu_ops=operations,
        faults=work.faults,
        recorded=activity.recorded | work.recorded,
    )
    return added, work.notes


def combine(files: Sequence[UvmFile], *, unreadable: int = 0) -> UvmWork:
    """Events of several address spaces, ordered by time."""
    used = [file for file in files if file.is_whole]
    migrations = GpuOpTable.of(0, threads=()).joined(*map(_migrations, used))
    faults = PageFaultTable.empty().joined(*map(_cpu_faults, used), *map(_gpu_faults, used))
    return UvmWork(
        migrations=migrations.take(np.lexsort((migrations.end_ns, migrations.start_ns))),
        faults=faults.take(np.argsort(faults.time_ns, kind="stable")),
        recorded=frozenset({"migrations", "gpu_faults", "cpu_faults"} if used else ()),
        notes=tuple(_notes(files, unreadable)),
    )


def _migrations(file: UvmFile) -> GpuOpTable:
    rows = file.of_kind(UvmEvent.MIGRATION)
    source, target = _devices(rows["source"], file.layout), _devices(rows["target"], file.layout)
    # What moves between nodes of the host's memory is not the GPU's work.
    sound = (rows["begin"] > 0) & (rows["bytes"] > 0) & (rows["bytes"] < _MOST_BYTES) & ((source >= 0) | (target >= 0))
    sound &= (rows["begin"] < _LATEST_NS) & (rows["end"] < _LATEST_NS)
    rows, source, target = rows[sound], source[sound], target[sound]
    kind = np.select(
        [source < 0, target < 0],
        [CopyKind.UVM_HOST_TO_DEVICE, CopyKind.UVM_DEVICE_TO_HOST],
        CopyKind.UVM_DEVICE_TO_DEVICE,
    )
    device = np.where(target >= 0, target, source)
    start, end = _ran(rows, device)
    clock = Clock.of(file)
    return GpuOpTable.of(
        len(rows),
        start_ns=clock.monotonic(start),
        end_ns=np.maximum(clock.monotonic(end), clock.monotonic(start)),
        kind=OpKind.MIGRATION,
        name=-1,
        pid=file.pid,
        device=device,
        stream=-1,
        size_bytes=rows["bytes"].astype(np.int64),
        copy_kind=kind.astype(np.uint8),
        src_kind=UNRECORDED,
        dst_kind=UNRECORDED,
        cause=rows["cause"],
        sync=UNRECORDED,
        address=rows["address"],
        threads=0,
    )


def _ran(rows: NDArray[np.void], device: Int64) -> tuple[Int64, Int64]:
    """When each migration ran, on the raw clock."""
    begin = rows["begin"].astype(np.int64)
    end = np.maximum(rows["end"].astype(np.int64), begin)  # 0 for what was not waited for
    gpu_begin, gpu_end = (np.minimum(rows[name], _LATEST_GPU_NS).astype(np.int64) for name in ("gpu_begin", "gpu_end"))
    timed = (gpu_begin > 0) & (gpu_end >= gpu_begin) & (gpu_end < _LATEST_GPU_NS)
    if not timed.any():
        return begin, end
    _, window = np.unique(np.stack([device, begin // _WINDOW_NS]), axis=1, return_inverse=True)
    window = window.reshape(-1)
    ahead = np.full(int(window.max()) + 1, -(2**63), np.int64)
    np.maximum.at(ahead, window[timed], (begin - gpu_begin)[timed])
    offset = np.where(timed, ahead[window], 0)
    start, stop = gpu_begin + offset, gpu_end + offset
    fits = timed & (start >= begin) & (stop <= np.where(rows["end"] > 0, end, _LATEST_NS))
    # A clock that was set meanwhile fits nowhere: the length is the GPU's, if there was time for it.
    length = np.where(timed, np.minimum(gpu_end - gpu_begin, end - begin), end - begin)
    return np.where(fits, start, begin), np.where(fits, stop, begin + length)


def _cpu_faults(file: UvmFile) -> PageFaultTable:
    rows = file.of_kind(UvmEvent.CPU_FAULT)
    rows = rows[(rows["time"] > 0) & (rows["time"] < _LATEST_NS)]
    return PageFaultTable.of(
        len(rows),
        time_ns=Clock.of(file).monotonic(rows["time"].astype(np.int64)),
        device=-1,
        address=rows["address"],
        count=1,
        access=UNRECORDED,
        pid=file.pid,
        function=-1,
    )


def _gpu_faults(file: UvmFile) -> PageFaultTable:
    """Faults of a block that were served together, from when the driver began to when it let the GPU try again."""
    rows = file.of_kind(UvmEvent.GPU_FAULT)
    rows = rows[(rows["time"] > 0) & (rows["time"] < _LATEST_NS) & (rows["processor"] > 0)]
    replays = file.of_kind(UvmEvent.GPU_FAULT_REPLAY)
    ends: dict[tuple[int, int, int], int] = {}
    for processor, client, batch, time in zip(
        *(replays[name].tolist() for name in ("processor", "client", "batch", "time")), strict=True
    ):
        ends.setdefault((processor, client, batch), min(time, _LATEST_NS - 1))
    keys = np.stack(
        [rows["processor"].astype(np.uint64), rows["client"].astype(np.uint64), rows["batch"].astype(np.uint64),
         rows["address"] >> np.uint64(_BLOCK_BITS)]
    )  # fmt: skip
    _, first, member = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    begun = np.full(len(first), _LATEST_NS, np.int64)
    np.minimum.at(begun, member.reshape(-1), rows["time"].astype(np.int64))
    of_group = rows[first]
    served = [
        ends.get(key, 0)
        for key in zip(*(of_group[name].tolist() for name in ("processor", "client", "batch")), strict=True)
    ]
    clock = Clock.of(file)
    time = clock.monotonic(begun)
    return PageFaultTable.of(
        len(first),
        time_ns=time,
        duration_ns=np.maximum(clock.monotonic(np.maximum(np.array(served, np.int64), begun)) - time, 0),
        device=_devices(of_group["processor"], file.layout),
        address=of_group["address"],
        count=np.bincount(member.reshape(-1), minlength=len(first)),
        access=of_group["access"],
        pid=file.pid,
        function=-1,
    )


def _devices(processor: NDArray[Any], layout: int) -> Int64:
    """The GPU's number, from 0; -1 for the host."""
    number = processor.astype(np.int64) - 1
    return np.asarray(np.where(number < 0, -1, number // _PER_GPU if layout == 2 else number))


@dataclass(frozen=True)
class Clock:
    """The raw clock's times as CLOCK_MONOTONIC: readings of both at the same moments, straight lines in between."""

    raw: Int64
    ahead: Int64
    """How much CLOCK_MONOTONIC is ahead of the raw clock then."""

    @classmethod
    def of(cls, file: UvmFile) -> Clock:
        """By the readings of a file; those that do not go forward on both clocks are left out."""
        rows = file.of_kind(CLOCK)
        rows = rows[(rows["raw"] < _LATEST_NS) & (rows["time"] < _LATEST_NS)]
        raw = np.append(file.opened_raw_ns, rows["raw"].astype(np.int64))
        time = np.append(file.opened_ns, rows["time"].astype(np.int64))
        forward = (raw >= np.maximum.accumulate(raw)) & (time >= np.maximum.accumulate(time))
        raw, time = raw[forward], time[forward]
        return cls(raw, time - raw)

    def monotonic(self, raw: Int64) -> Int64:
        """The same moments on CLOCK_MONOTONIC, 0 at least."""
        base = self.ahead[0]
        moved = np.interp(raw, self.raw, (self.ahead - base).astype(np.float64))
        return np.asarray(np.clip(raw + base + np.rint(moved).astype(np.int64), 0, _LATEST_NS))


def _notes(files: Sequence[UvmFile], unreadable: int) -> list[str]:
    """Sentences about what is missing, and what it cost."""
    notes = []
    partial = [file for file in files if not file.is_whole]
    if late := [file for file in partial if file.state == State.OVER_BUDGET]:
        after = min(file.stopped_ns - file.opened_ns for file in late)
        notes.append(
            "Managed memory moved so often that recording it would have slowed the program down. Recording ended after "
            f"{format_ns(max(after, 0))}, and is left out. Record with --gpu uvm to record everything."
        )
    if early := [file for file in partial if file.state != State.OVER_BUDGET]:
        notes.append(
            "Recording of managed memory ended early for lack of space. It is left out." + _totals(early, " until then")
        )
    used = [file for file in files if file.is_whole]
    if any(file.state == State.RUNNING for file in used):
        notes.append("The follower of managed memory was killed, so its events end early.")
    if dropped := sum(file.dropped for file in used):
        what = format_counted(dropped, "event", "events")
        notes.append(f"{what} of managed memory did not fit into the driver's queue.{_totals(used)}")
    if damaged := sum(file.damaged for file in files) + unreadable:
        notes.append(
            f"{format_counted(damaged, 'part', 'parts')} of the recording of managed memory left out as damaged."
        )
    said = {kind: sum(file.count(kind) for file in used) for kind in _SAID}
    if parts := [format_counted(count, *_SAID[kind]) for kind, count in said.items() if count]:
        notes.append(f"The unified-memory driver reports: {', '.join(parts)}.")
    if any(file.count(UvmEvent.MIGRATION) for file in used):
        cost = sum(file.cost_ns for file in used)
        notes.append(f"Recording managed memory took {format_ns(cost)} of CPU time in addition to the program.")
    return notes


def _totals(files: Sequence[UvmFile], when: str = "") -> str:
    """What the driver counted in address spaces, as a sentence; nothing where it did not."""
    counted = [file.counters for file in files if file.counters]
    if not counted:
        return ""
    device, host, cpu, gpu = (
        sum(values[which] for values in counted)
        for which in (Counter.TO_DEVICE, Counter.TO_HOST, Counter.CPU_FAULTS, Counter.GPU_FAULTS)
    )
    moved = f"{format_bytes(device)} to the GPU and {format_bytes(host)} back"
    faults = f"{format_count(cpu)} CPU faults and {format_count(gpu)} GPU faults"
    return f" The driver counted {moved}, {faults}{when}."
