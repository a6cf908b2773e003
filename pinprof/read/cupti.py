"""What the GPU did, by the files of the agent (cupti_file.py), one for each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted, format_ns, format_share
from pinprof.data.activity import (
    UNRECORDED,
    Activity,
    ApiCallTable,
    CopyKind,
    GivenUp,
    GpuOpTable,
    GpuWindowTable,
    MemoryKind,
    MemoryUsageTable,
    OpKind,
    PageFaultTable,
)
from pinprof.data.gpu_functions import COPIES, FUNCTIONS, Function
from pinprof.data.model import Capture, Int64, UInt8
from pinprof.read import cupti_file
from pinprof.read.cupti_file import MOST_BYTES, CuptiKind, CuptiState, GpuFile
from pinprof.read.directory import Reading
from pinprof.read.symbols.demangle import demangle

SOURCE = "CUPTI"
_OPERATIONS = {
    CuptiKind.COPY: OpKind.COPY,
    CuptiKind.SET: OpKind.MEMSET,
    CuptiKind.LAUNCH: OpKind.KERNEL,
    CuptiKind.WAIT: OpKind.SYNC,
    CuptiKind.MIGRATION: OpKind.MIGRATION,
}
_MIGRATIONS = {1: CopyKind.UVM_HOST_TO_DEVICE, 2: CopyKind.UVM_DEVICE_TO_HOST, 8: CopyKind.UVM_DEVICE_TO_DEVICE}
"""By CUPTI's counter (CUpti_ActivityUnifiedMemoryCounterKind)."""


@dataclass(frozen=True)
class GpuWork:
    """The files of a capture together."""

    operations: GpuOpTable
    """All work of all processes, or that of `windows`."""
    windows: GpuWindowTable
    """As in `Activity`."""
    faults: PageFaultTable
    memory: MemoryUsageTable
    recorded: frozenset[str]
    """As in `Activity`."""
    complete: bool
    """Whether it is the work of every process that called CUDA, to its end."""
    notes: tuple[str, ...]


def with_gpu(capture: Capture, path: Path, _reading: Reading) -> Capture:
    """The capture with what the GPU did."""
    seen = read_folder(path, capture.activity)
    return replace(capture.with_notes(*seen[1]), activity=seen[0]) if seen else capture


def read_folder(folder: Path, activity: Activity | None) -> tuple[Activity, tuple[str, ...]] | None:
    """An activity with the GPU's work from a capture's folder, joined with the calls that it has, and notes.

    None where there are no files.
    """
    files = [cupti_file.load(path) for path in sorted(folder.glob("*.bin"))]
    if not files:
        return None
    activity = activity or Activity("")
    work = combine([file for file in files if file is not None], activity.calls, unreadable=files.count(None))
    return _added(activity, work), work.notes


def combine(files: Sequence[GpuFile], calls: ApiCallTable, *, unreadable: int = 0) -> GpuWork:
    """GPU work of several processes, ordered by start."""
    used = [file for file in files if file.api and file.state in (CuptiState.RUNNING, CuptiState.ENDED)]
    windows = _windows(used)
    names: dict[str, int] = {}
    operations = GpuOpTable.empty().joined(*(_operations(file, names) for file in used))
    operations = replace(operations, names=tuple(names))
    operations = operations.take(np.lexsort((operations.end_ns, operations.start_ns)))
    faults = PageFaultTable.empty().joined(*map(_faults, used))
    memory = MemoryUsageTable.empty().joined(*map(_memory, used))
    recorded = {"gpu windows" if len(windows) else "cuda", "memory"} if used else set()
    if any(file.unified for file in used):
        recorded |= {"gpu_faults", "cpu_faults"}
    joined = np.zeros(len(operations), np.int64) if len(windows) else _joined_with(calls, operations)
    return GpuWork(
        operations=replace(operations, correlation_id=joined),
        windows=windows,
        faults=faults.take(np.argsort(faults.time_ns, kind="stable")),
        memory=memory.take(np.argsort(memory.time_ns, kind="stable")),
        recorded=frozenset(recorded),
        complete=bool(used)
        and len(used) == len(files)
        and not len(windows)
        and not unreadable
        and not any(file.dropped for file in used),
        notes=tuple(_notes(files, unreadable)),
    )


def _windows(files: Sequence[GpuFile]) -> GpuWindowTable:
    """Where a process's work was recorded in windows, those of all, ordered by start; a whole recording is one."""
    if all(file.is_whole for file in files):
        return GpuWindowTable.empty()
    whole = [
        GpuWindowTable.of(1, start_ns=file.opened_ns, end_ns=end, pid=file.pid, chance=1.0, lived_ns=end)
        for file in files
        if file.is_whole and (end := max([file.saved_ns, file.opened_ns, *file.records["end_ns"].tolist()]))
    ]
    windows = GpuWindowTable.empty().joined(*whole, *(file.windows for file in files))
    return windows.take(np.argsort(windows.start_ns, kind="stable"))


def _added(activity: Activity, work: GpuWork) -> Activity:
    """An activity of calls with the work of the GPU."""
    return replace(
        activity,
        source=f"{activity.source}; {SOURCE}" if activity.source else SOURCE,
        **(
            {"windows": work.windows, "window_ops": work.operations}
            if len(work.windows)
            else {"gpu_ops": work.operations}
        ),
        faults=work.faults,
        memory=activity.memory if len(activity.memory) else work.memory,
        reported=work.memory,
        recorded=activity.recorded | work.recorded,
        given_up=_counted(activity.given_up, work.operations) if work.complete else activity.given_up,
    )


def _counted(given_up: Sequence[GivenUp], operations: GpuOpTable) -> tuple[GivenUp, ...]:
    """With the number of copies and memsets that the GPU began meanwhile for no traced call, instead of an estimate."""
    without = np.isin(operations.kind, (OpKind.COPY, OpKind.MEMSET)) & (operations.correlation_id == 0)
    begun = operations.start_ns[without]
    return tuple(
        replace(part, calls=int(np.subtract(*np.searchsorted(begun, (part.end_ns, part.start_ns)))))
        if part.kind == COPIES
        else part
        for part in given_up
    )


def _operations(file: GpuFile, names: dict[str, int]) -> GpuOpTable:
    """The rows of one process; `names` numbers the kernels of all."""
    rows = file.records[np.isin(file.records["kind"], list(_OPERATIONS))]
    kind = rows["kind"]
    is_copy, migrates, launches = (kind == each for each in (CuptiKind.COPY, CuptiKind.MIGRATION, CuptiKind.LAUNCH))
    moved = np.full(256, int(CopyKind.UNKNOWN), np.uint8)
    moved[list(_MIGRATIONS)] = list(_MIGRATIONS.values())
    number = [names.setdefault(demangle(name), len(names)) for name in file.names]
    # One more element in front, for kernels without a name.
    name = np.array([-1, *number], np.int32)[np.where(launches & (rows["name"] <= len(number)), rows["name"], 0)]
    meaning = np.zeros(256, np.uint8)
    meaning[list(_OPERATIONS)] = list(_OPERATIONS.values())
    return GpuOpTable.of(
        len(rows),
        start_ns=rows["start_ns"].astype(np.int64),
        end_ns=rows["end_ns"].astype(np.int64),
        kind=meaning[kind],
        name=name,
        pid=file.pid,
        device=np.maximum(rows["device"], -1),
        stream=_small(rows["stream"]),
        correlation_id=np.where(migrates, 0, rows["correlation"].astype(np.int64)),
        size_bytes=np.where(launches | (kind == CuptiKind.WAIT), 0, rows["bytes"]).astype(np.int64),
        copy_kind=np.where(migrates, moved[rows["detail"]], np.where(is_copy, rows["detail"], UNRECORDED)).astype(
            np.uint8
        ),
        src_kind=np.where(is_copy, _memory_kind(rows["source"]), UNRECORDED).astype(np.uint8),
        dst_kind=np.where(is_copy | (kind == CuptiKind.SET), _memory_kind(rows["target"]), UNRECORDED).astype(np.uint8),
        cause=np.where(migrates, np.minimum(rows["flags"], UNRECORDED), UNRECORDED).astype(np.uint8),
        sync=np.where(kind == CuptiKind.WAIT, rows["detail"], UNRECORDED).astype(np.uint8),
        address=np.where(migrates, rows["address"], np.uint64(0)),
        threads=_threads(rows, launches),
    )


def _threads(rows: NDArray[np.void], launches: NDArray[np.bool_]) -> Int64:
    """Of kernels: blocks times threads in a block."""
    threads = rows["bytes"].astype(np.float64) * rows["address"]
    return np.where(launches & (threads < MOST_BYTES), threads, 0).astype(np.int64)


def _faults(file: GpuFile) -> PageFaultTable:
    rows = file.records[np.isin(file.records["kind"], (CuptiKind.GPU_FAULT, CuptiKind.CPU_FAULT))]
    on_gpu = rows["kind"] == CuptiKind.GPU_FAULT
    return PageFaultTable.of(
        len(rows),
        time_ns=rows["start_ns"].astype(np.int64),
        duration_ns=np.where(on_gpu, rows["end_ns"] - rows["start_ns"], 0).astype(np.int64),
        device=np.where(on_gpu, np.maximum(rows["device"], 0), -1),
        address=rows["address"],
        count=np.where(on_gpu, np.maximum(rows["bytes"], 1), 1).astype(np.int64),
        access=np.where(on_gpu, np.minimum(rows["flags"], UNRECORDED), UNRECORDED).astype(np.uint8),
        pid=file.pid,
        function=-1,
    )


def _memory(file: GpuFile) -> MemoryUsageTable:
    rows = file.records[file.records["kind"] == CuptiKind.ALLOCATION]
    rows = rows[np.isin(rows["detail"], (1, 2))]  # CUpti_ActivityMemoryOperationType
    return MemoryUsageTable.of(
        len(rows),
        time_ns=rows["start_ns"].astype(np.int64),
        size_bytes=rows["bytes"].astype(np.int64),
        address=rows["address"],
        memory_kind=_memory_kind(rows["target"]),
        operation=rows["detail"] - 1,
        device=np.maximum(rows["device"], -1),
        pid=file.pid,
        correlation_id=rows["correlation"].astype(np.int64),
    )


def _memory_kind(cupti: UInt8) -> UInt8:
    """`MemoryKind` of CUPTI's numbers, which begin with 0 for unknown."""
    return np.where(cupti == 0, np.uint8(MemoryKind.UNKNOWN), cupti - np.uint8(1)).astype(np.uint8)


def _small(number: NDArray[Any]) -> NDArray[np.int32]:
    """An id that fits 31 bits; -1 for one that does not."""
    return np.where(number < 2**31, number.astype(np.int64), -1).astype(np.int32)


def _joined_with(calls: ApiCallTable, operations: GpuOpTable) -> Int64:
    """Per operation the correlation id of the call that caused it, 0 where that is not certain.

    CUPTI counts calls in their order, and so do traced calls: the n-th copy of a size in a process belongs to the n-th
    call that copies that size. Where the two numbers differ for a size, as in a window of a ring, or work would begin
    before its call, those alone are joined that wait for their copy. What is left belongs to calls whose arguments do
    not say a size, batches above all: the copies that CUPTI counts as one call's to the n-th of these.
    """
    joined = np.zeros(len(operations), np.int64)
    if calls.size_bytes is None or calls.copy_kind is None:
        return joined
    work = np.flatnonzero(operations.kind == OpKind.COPY)
    copying = (calls.copy_kind != UNRECORDED) & (calls.status == 0)
    whole = (calls.size_bytes >= 0) & ~_batched(calls)
    made = np.flatnonzero(copying & whole)
    work = work[np.lexsort((operations.correlation_id[work], operations.size_bytes[work], operations.pid[work]))]
    made = made[np.lexsort((calls.start_ns[made], calls.size_bytes[made], calls.pid[made]))]
    of_work = list(zip(operations.pid[work].tolist(), operations.size_bytes[work].tolist(), strict=True))
    of_made = list(zip(calls.pid[made].tolist(), calls.size_bytes[made].tolist(), strict=True))
    spans: dict[tuple[int, int], list[int]] = {}
    for keys, first in ((of_work, 0), (of_made, 2)):
        for at, key in enumerate(keys):
            span = spans.setdefault(key, [0, 0, 0, 0])
            if not span[first + 1]:
                span[first] = at
            span[first + 1] = at + 1
    for begin, end, first, last in spans.values():
        rows, causes = work[begin:end], made[first:last]
        if len(rows) == len(causes) and np.all(operations.start_ns[rows] >= calls.start_ns[causes]):
            joined[rows] = calls.correlation_id[causes]
        elif len(rows) and len(causes):
            row, cause = _awaited(operations, rows, calls, causes)
            joined[row] = calls.correlation_id[cause]
    _join_rest(joined, operations, calls, np.flatnonzero(copying & ~whole), copying & whole & (calls.size_bytes > 0))
    return joined


def _awaited(
    operations: GpuOpTable, rows: Int64, calls: ApiCallTable, causes: Int64
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The copies and the calls of one size during which one copy runs, and no other of these calls.

    Calls are ordered by start.
    """
    latest = np.maximum.accumulate(calls.end_ns[causes])
    at = np.searchsorted(calls.start_ns[causes], operations.start_ns[rows], side="right") - 1
    alone = (np.append(latest, 0)[at - 1] <= operations.start_ns[rows]) | (at == 0)
    inside = (at >= 0) & alone & (operations.end_ns[rows] <= calls.end_ns[causes[at]])
    once = np.bincount(at[inside], minlength=len(causes)) == 1
    inside &= once[at]
    return rows[inside], causes[at[inside]]


def _batched(calls: ApiCallTable) -> NDArray[np.bool_]:
    """Calls of several copies."""
    pieces = [FUNCTIONS.get(name, Function()).pieces is not None for name in calls.names]
    return np.asarray(np.array([*pieces, False], np.bool_)[calls.name])


def _join_rest(
    joined: Int64, operations: GpuOpTable, calls: ApiCallTable, made: Int64, sized: NDArray[np.bool_]
) -> None:
    """Let copies without a call have the calls `made`, in processes whose `sized` calls all have their copies."""
    left = np.flatnonzero((operations.kind == OpKind.COPY) & (joined == 0))
    lonely = sized & ~np.isin(calls.correlation_id, joined)
    for pid in np.setdiff1d(operations.pid[left], calls.pid[lonely]).tolist():
        rows = left[operations.pid[left] == pid]
        causes = made[calls.pid[made] == pid]
        causes = causes[np.argsort(calls.start_ns[causes], kind="stable")]
        numbers, of = np.unique(operations.correlation_id[rows], return_inverse=True)
        if len(numbers) != len(causes):
            continue
        cause = causes[of.reshape(-1)]
        if np.all(operations.start_ns[rows] >= calls.start_ns[cause]):
            joined[rows] = calls.correlation_id[cause]


def _covered(windows: GpuWindowTable) -> str:
    """Which part of the processes' lives they are."""
    processes = ascending(windows.pid)
    lived = sum(int((windows.lived_ns - windows.start_ns)[windows.pid == pid].max()) for pid in processes)
    return format_share(int((windows.end_ns - windows.start_ns).sum()), max(lived, 1))


def _notes(files: Sequence[GpuFile], unreadable: int) -> list[str]:
    """Sentences about what is missing, and what it cost."""
    notes = []
    if files and not any(file.api for file in files):
        notes.append(
            "The GPU's work was not recorded: pinprof found no usable CUPTI library, or another tool used it. "
            "Set PINPROF_CUPTI to the path of libcupti.so."
        )
    states = [file.state for file in files if file.api]
    if CuptiState.STEPPED_BACK in states:
        notes.append(
            "The program began to profile itself with CUPTI, so pinprof stopped recording the GPU's work. "
            "It is left out."
        )
    if len(windows := _windows([file for file in files if file.state in (CuptiState.RUNNING, CuptiState.ENDED)])):
        notes.append(
            f"The GPU's work was recorded in {format_counted(len(windows), 'window', 'windows')}, together "
            f"{_covered(windows)} of the time, because recording all would cost more than 3 %. "
            "Record with --gpu cupti to record everything, or with --gpu windows to record a fair sample."
        )
    if CuptiState.RUNNING in states:
        notes.append("A process ended without exit(), so GPU work of its last half second may be missing.")
    if CuptiState.NO_ROOM in states or CuptiState.LIMIT in states:
        notes.append("Recording of the GPU's work ended early for lack of space. It is left out.")
    dropped, damaged = sum(file.dropped for file in files), sum(file.damaged for file in files) + unreadable
    if dropped:
        notes.append(f"{format_counted(dropped, 'record', 'records')} of GPU work did not fit into CUPTI's buffers.")
    if damaged:
        notes.append(f"{format_counted(damaged, 'part', 'parts')} of the recording of GPU work left out as damaged.")
    used = [file for file in files if file.api]
    if used:
        tool = sum(
            int((rows["end_ns"] - rows["start_ns"]).sum())
            for rows in (file.records[file.records["kind"] == CuptiKind.TOOL] for file in used)
        )
        cost = sum(file.cost_ns for file in used)
        notes.append(
            f"Recording GPU work by CUPTI took {format_ns(cost)} of CPU time in addition to the program, "
            f"and {format_ns(tool)} in CUPTI itself (as CUPTI reports)."
        )
    return notes
