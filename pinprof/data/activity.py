"""What CUDA, the GPU and the operating system did, as frozen tables of columns; no I/O here.

Tables are numpy columns of one length, ordered by their first time column; integer nanoseconds of the capture's clock,
integer bytes. A name is an index into the table's `names`, -1 without name. `-1` stands for what was not recorded in
columns of signed numbers, 255 (`UNRECORDED`) in columns of enum values. Enum values are CUPTI's own numbers
(cupti_activity.h), which Nsight Systems exports unchanged; what a later version adds keeps its number. A column whose
rows have one value may be a read-only one that takes the memory of one (`columns.uniform`), and ids and names may
be of a narrower type than is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pinprof.base.columns import Bool, Float64, Int32, Int64, Table, UInt8, UInt64, rows_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import (
    Access,
    Api,
    CopyKind,
    Location,
    MemoryKind,
    MemoryOperation,
    MigrationCause,
    OpKind,
    SyncKind,
)
from pinprof.data.gpu_functions import MEMORY

__all__ = [
    "NO_STREAM",
    "UNRECORDED",
    "Access",
    "Activity",
    "Api",
    "ApiCallTable",
    "CallOverhead",
    "Caller",
    "CopyKind",
    "GivenUp",
    "GpuOpTable",
    "Location",
    "MarkTable",
    "MemoryKind",
    "MemoryOperation",
    "MemoryUsageTable",
    "MigrationCause",
    "OpKind",
    "OsCallTable",
    "PageFaultTable",
    "SchedTable",
    "SyncKind",
]

_OVERLAP_NS = 1_000_000
"""By how much clocks of one stream's work may differ."""
UNRECORDED = 255
"""In a column of enum values: the source did not say."""
NO_STREAM = 2**64 - 1


class Caller(NamedTuple):
    """The function that made calls, and its line."""

    function: str
    file: str = ""
    """As short as it can be, `train.py` or `torch/_tensor.py`; the function's library where no line is known."""
    line: int = 0
    """0 where it is not known."""
    path: str = ""
    """The file, as it was recorded; empty where no line is known."""

    @property
    def text(self) -> str:
        """`step (train.py:20)`, or `step (libmine.so)` where no line is known, or only the function."""
        if not self.file:
            return self.function
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


@dataclass(frozen=True, eq=False, repr=False)
class ApiCallTable(Table):
    """CUDA calls of the program. A call made inside another on the same thread is folded into the outer one."""

    start_ns: Int64
    end_ns: Int64
    name: Int32
    """Without version suffix: `cudaHostAlloc`, `cuMemAlloc`."""
    pid: Int32
    tid: Int32
    correlation_id: Int64
    """Joins GPU work of the same process; -1 when not recorded."""
    status: Int32
    """The call's return value, 0 for success."""
    api: UInt8
    """`Api`."""
    folded: Int32
    """Calls made inside this one."""
    names: tuple[str, ...]
    size_bytes: Int64 | None = None
    """What the call's arguments say, -1 where they do not; None when arguments were not recorded."""
    site: Int32 | None = None
    """Who called, an index into `sites`, -1 where not known; None when stacks were not recorded."""
    sites: tuple[Caller, ...] = ()
    copy_kind: UInt8 | None = None
    """`CopyKind` of copies, UNKNOWN where neither name nor arguments nor addresses say it, UNRECORDED for other calls;
    None, as with the columns below, where arguments were not recorded."""
    source_kind: UInt8 | None = None
    """`MemoryKind` of a copy's source, UNRECORDED for other calls."""
    target_kind: UInt8 | None = None
    """`MemoryKind` of a copy's target, UNRECORDED for other calls."""
    from_file: Bool | None = None
    """Whether a copy's source lies in a mapped file of data."""
    context_ns: Int64 | None = None
    """Time in calls inside it that create a context."""
    host_address: UInt64 | None = None
    """Where a copy's end in the host's memory begins, 0 for other calls."""
    stream: UInt64 | None = None
    """Handle of the stream that a copy is queued on, 0 for the default one; NO_STREAM where none is known."""
    granted_bytes: Int64 | None = None
    """What was mapped for page-locked memory that a call made, -1 where that is not known, and for other calls."""
    location: UInt8 | None = None
    """`Location` of memory that comes from a pool or has a handle, UNKNOWN for other calls."""
    device: Int32 | None = None
    """The GPU whose context a call takes or lets go of, as its process numbers them; -1 for other calls."""
    stack: Int32 | None = None
    """Node of its stack in `Capture.call_stacks`; None when stacks were not recorded."""
    address: UInt64 | None = None
    """Where the memory begins that it made, registered or gives back; 0 where not known, and for other calls."""
    minor_faults: Int32 | None = None
    """Page faults of its thread inside it, those in pins included; -1 where nobody looked; None where nothing could."""
    major_faults: Int32 | None = None
    """Those of them that waited for a disk."""
    rough: Bool | None = None
    """Whether it is one of many calls that were summed: it began and ended about then, all of them took that long."""


@dataclass(frozen=True, eq=False, repr=False)
class GpuOpTable(Table):
    """Kernels, copies, memsets, migrations, graph launches, and the host's waits for them.

    What is of one kind is ordered by start; kinds may be mixed or stand one behind the other.
    """

    start_ns: Int64
    end_ns: Int64
    kind: UInt8
    """`OpKind`."""
    name: Int32
    """The kernel's demangled name; -1 for everything else."""
    pid: Int32
    device: Int32
    stream: Int32
    """-1 when not recorded."""
    correlation_id: Int64
    """The call that caused it, folded calls counted as their outer one; 0 or -1 for work without a call."""
    size_bytes: Int64
    """The bytes of copies, migrations and memsets; 0 otherwise."""
    copy_kind: UInt8
    """`CopyKind` of copies and migrations."""
    src_kind: UInt8
    """`MemoryKind` of a copy's source."""
    dst_kind: UInt8
    """`MemoryKind` of a copy's destination, or of what a memset sets."""
    cause: UInt8
    """`MigrationCause` of migrations."""
    sync: UInt8
    """`SyncKind` of waits."""
    address: UInt64
    """Virtual address of a migration's first byte; 0 when not recorded."""
    names: tuple[str, ...]
    threads: Int64 | None = None
    """How many threads a kernel was launched with, 0 for everything else; None when not recorded."""

    def rows(self, kind: OpKind) -> Int64 | slice:
        """What is of a kind, in order of time."""
        return rows_of(self.kind == kind)


@dataclass(frozen=True, eq=False, repr=False)
class GpuWindowTable(Table):
    """Windows in which GPU work was recorded, where recording all of it would have cost the program too much."""

    start_ns: Int64
    end_ns: Int64
    pid: Int32
    """The process whose work it is."""
    chance: Float64
    """With which the window was drawn, whatever the program did then; 1 where it was certain."""
    lived_ns: Int64
    """Until when the process lived, as far as is known: from its first window to here, its work may be anywhere."""


@dataclass(frozen=True, eq=False, repr=False)
class PageFaultTable(Table):
    """Faults on managed memory. A GPU row is a group that the driver served together, a CPU row one fault."""

    time_ns: Int64
    duration_ns: Int64
    """0 for CPU faults, whose end is not recorded."""
    device: Int32
    """-1 for faults of the CPU."""
    address: UInt64
    count: Int64
    """Faults in the row."""
    access: UInt8
    """`Access`; UNRECORDED for CPU faults."""
    pid: Int32
    function: Int32
    """The function that touched the page, for CPU faults: index into `names`."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class MemoryUsageTable(Table):
    """Allocations and frees of device, managed and pinned host memory."""

    time_ns: Int64
    size_bytes: Int64
    address: UInt64
    memory_kind: UInt8
    """`MemoryKind`."""
    operation: UInt8
    """`MemoryOperation`."""
    device: Int32
    pid: Int32
    correlation_id: Int64


@dataclass(frozen=True, eq=False, repr=False)
class OsCallTable(Table):
    """Calls into libc that may block (nsys's OS runtime trace); short ones are left out by the recorder."""

    start_ns: Int64
    end_ns: Int64
    name: Int32
    pid: Int32
    tid: Int32
    nesting: Int32
    """0 outermost."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class SchedTable(Table):
    """Threads put on and taken off processors."""

    time_ns: Int64
    cpu: Int32
    pid: Int32
    tid: Int32
    running: UInt8
    """1 from here on the thread runs, 0 it waits."""


@dataclass(frozen=True, eq=False, repr=False)
class MarkTable(Table):
    """NVTX marks: instants with a name."""

    time_ns: Int64
    name: Int32
    domain: Int32
    """Index into `names`; the default domain has the empty name."""
    pid: Int32
    tid: Int32
    names: tuple[str, ...]


@dataclass(frozen=True)
class CallOverhead:
    """What tracing adds to a call, as recorders of older captures measured it with an empty function; nanoseconds."""

    inside_ns: int
    """Between its recorded start and end."""
    around_ns: int
    """In all: what the program would be faster by for each call."""


@dataclass(frozen=True)
class GivenUp:
    """A time in which calls of a kind were not recorded, since that would have cost the program too much."""

    kind: str
    """One of gpu_functions.KINDS."""
    start_ns: int
    end_ns: int
    calls: int | None = None
    """How many there were; None where nobody counted them."""


@dataclass(frozen=True)
class Activity:
    """Everything beside samples and ranges that a tracing tool recorded of one run."""

    source: str
    """Who wrote it: `Nsight Systems 2025.3.2.0, schema 3.20.3`."""
    calls: ApiCallTable = field(default_factory=ApiCallTable.empty)
    gpu_ops: GpuOpTable = field(default_factory=GpuOpTable.empty)
    """The whole work of the GPU, never a part of it."""
    windows: GpuWindowTable = field(default_factory=GpuWindowTable.empty)
    """Where there are any, GPU work was recorded only in these, and is in `window_ops`."""
    window_ops: GpuOpTable = field(default_factory=GpuOpTable.empty)
    """What was begun in `windows`, by start; a sample, from which nothing follows for the time outside."""
    faults: PageFaultTable = field(default_factory=PageFaultTable.empty)
    memory: MemoryUsageTable = field(default_factory=MemoryUsageTable.empty)
    reported: MemoryUsageTable = field(default_factory=MemoryUsageTable.empty)
    """What CUPTI reported of allocations and frees beside calls that were traced: their addresses above all."""
    os_calls: OsCallTable = field(default_factory=OsCallTable.empty)
    sched: SchedTable = field(default_factory=SchedTable.empty)
    marks: MarkTable = field(default_factory=MarkTable.empty)
    recorded: frozenset[str] = field(default_factory=frozenset)
    """What was traced, events or not: `cuda, gpu_faults, cpu_faults, memory, os_calls, sched, nvtx, cpu_samples`;
    `cuda calls` where it is the calls alone, without what the GPU did; `gpu windows` where that is in windows;
    `migrations` where it is the driver's events of managed memory."""
    call_overhead: CallOverhead | None = None
    """What tracing a call costs; None where the recorder did not measure it, as none does by now."""
    given_up: tuple[GivenUp, ...] = ()
    """When calls were not traced, by time; on the clock of the samples."""
    lost_calls: int = 0
    """Records of calls that found no room: there were more calls than `calls` has."""
    lost_memory: bool = False
    """Whether records of calls that grant or free memory may be among them."""
    sited: frozenset[int] = frozenset()
    """Processes whose calls were seen from inside: each has its own site and Python frames in its stack."""
    part: bool = False
    """Its recorder says that it would have seen calls: that it holds none says nothing against it."""
    start_utc_ns: int | None = None
    """UTC, nanoseconds since 1970, at time 0."""
    start_system_ns: int | None = None
    """The machine's own clock at time 0, where the recorder notes it (schema 3.24.7 and later)."""

    def untraced(self, kind: str = "") -> bool:
        """Whether calls of a kind, or of any, were not recorded from time to time."""
        return any(kind in ("", part.kind) for part in self.given_up)

    def may_lack(self, kind: str = "") -> bool:
        """Whether calls of a kind, or of any, may be missing: that there is none in `calls` says nothing then."""
        return self.untraced(kind) or (self.lost_memory if kind == MEMORY else self.lost_calls > 0)

    @property
    def tables(self) -> dict[str, Table]:
        """All of them, by field."""
        return {name: table for name, table in vars(self).items() if isinstance(table, Table)}

    @cached_property
    def impossible(self) -> tuple[int, int, int]:
        """Of work whose duration cannot be, since it overlaps later work of its stream: how many, and for how long; and
        how long all work is.

        Work of one call (a graph) may overlap, and a kernel may begin before the one ahead of it ends.
        """
        ops = self.gpu_ops
        row = np.flatnonzero(np.isin(ops.kind, (OpKind.KERNEL, OpKind.COPY, OpKind.MEMSET)) & (ops.stream >= 0))
        row = row[np.lexsort((ops.end_ns[row], ops.start_ns[row], ops.stream[row], ops.device[row], ops.pid[row]))]
        start, end, call = ops.start_ns[row], ops.end_ns[row], ops.correlation_id[row]
        streams = (ops.pid[row], ops.device[row], ops.stream[row])
        alike = np.logical_and.reduce([column[1:] == column[:-1] for column in streams])
        apart = (call[1:] != call[:-1]) | (call[1:] <= 0)
        kernels = (ops.kind[row][1:] == OpKind.KERNEL) & (ops.kind[row][:-1] == OpKind.KERNEL)
        wrong = alike & apart & (end[:-1] - start[1:] > _OVERLAP_NS) & (~kernels | (end[:-1] >= end[1:]))
        length = (end - start).astype(np.float64)
        return int(wrong.sum()), int(length[:-1][wrong].sum()), int(length.sum())

    def unload(self) -> None:
        """Give back the memory of columns that lie in files: no analysis needs all of them at once."""
        for table in self.tables.values():
            table.unload()

    def each(self, change: Callable[[Table], Table]) -> Self:
        """The same with every table changed."""
        changed: dict[str, Any] = {name: change(table) for name, table in self.tables.items()}
        return replace(self, **changed)
