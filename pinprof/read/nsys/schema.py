"""What each schema version of an Nsight Systems export calls a thing: one table, from 2020.3 to today.

Only what is listed here is ever read. Deliberately absent: the process list (PROCESSES), the captured output
(ProcessStreams, ANALYSIS_FILE), the environment, host and user names in META_DATA_CAPTURE, META_DATA_EXPORT and
TARGET_INFO_SYSTEM_ENV, of which the allow-lists below name single rows.

Tables are created lazily, so a missing one is an empty one; unknown tables and columns are ignored. A missing optional
column reads as unrecorded; without a required one the table is left out and the reader says so.

Source: exports of nsys 2020.3 to 2026.2, and NVIDIA's "SQLite Schema Reference" up to schema 3.28.1.
"""

from __future__ import annotations

from enum import Enum

from pinprof.base.lazy_dataclass import dataclass

NEWEST = (3, 28)
"""The newest schema (major, minor) that this table has been compared with."""


class GlobalIdPart(Enum):
    """A field of a serialized global id: `hardware:8 vm:8 pid:24 tid:24`."""

    ALL = 0
    PID = 1
    TID = 2


@dataclass(frozen=True)
class Column:
    """One column of integers under pinprof's name; NULL reads as -1, in 64-bit columns as `MISSING`."""

    name: str
    of: tuple[str, ...]
    """Names in the export, newest first."""
    bits: int = 64
    """8, 16, 32, 48 or 64: enough for what the recorder can mean; wider values are cut."""
    part: GlobalIdPart = GlobalIdPart.ALL
    required: bool = True


MISSING = -(2**63)
"""NULL in a 64-bit column. No time, size or canonical address has this value."""


@dataclass(frozen=True)
class TableSchema:
    """One kind of event."""

    names: tuple[str, ...]
    """Names in the export, newest first."""
    columns: tuple[Column, ...]


def _wide(name: str, *of: str, required: bool = True) -> Column:
    return Column(name, of or (name,), 64, required=required)


def _id(name: str, *of: str, required: bool = False) -> Column:
    return Column(name, of or (name,), 32, required=required)


def _size(name: str, *of: str) -> Column:
    return Column(name, of or (name,), 48)


def _enum(name: str, *of: str, required: bool = False) -> Column:
    return Column(name, of or (name,), 8, required=required)


_START, _END = _wide("start"), _wide("end")
_PID = Column("pid", ("globalPid",), 32, GlobalIdPart.PID, required=False)
_THREAD = (
    Column("pid", ("globalTid",), 32, GlobalIdPart.PID, required=False),
    Column("tid", ("globalTid",), 32, GlobalIdPart.TID, required=False),
)
_CORRELATION = _id("correlation_id", "correlationId")
_DEVICE = Column("device", ("deviceId",), 16, required=False)
_PLACE = (_DEVICE, _id("stream", "streamId"), _CORRELATION, _PID)

LAUNCH_SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")

CALLS = TableSchema(
    ("CUPTI_ACTIVITY_KIND_RUNTIME",),
    (
        _START,
        _END,
        _enum("api", "eventClass"),
        *_THREAD,
        _CORRELATION,
        _id("name", "nameId", required=True),
        _id("status", "returnValue"),
    ),
)
COPIES = TableSchema(
    ("CUPTI_ACTIVITY_KIND_MEMCPY",),
    (
        _START,
        _END,
        *_PLACE,
        _size("size_bytes", "bytes"),
        _enum("copy_kind", "copyKind", required=True),
        _enum("src_kind", "srcKind"),
        _enum("dst_kind", "dstKind"),
        _enum("cause", "migrationCause"),
        _wide("address", "virtualAddress", required=False),  # since 2.9.1
    ),
)
MEMSETS = TableSchema(
    ("CUPTI_ACTIVITY_KIND_MEMSET",),
    (_START, _END, *_PLACE, _size("size_bytes", "bytes"), _enum("dst_kind", "memKind")),
)
KERNELS = TableSchema(
    ("CUPTI_ACTIVITY_KIND_KERNEL",),
    (
        _START,
        _END,
        *_PLACE,
        _id("name", "demangledName", "shortName", "mangledName", required=True),
        *(_id(side) for side in LAUNCH_SHAPE),
    ),
)
SYNCS = TableSchema(
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",),
    (_START, _END, *_PLACE, _enum("sync", "syncType", "deprecatedSyncType")),
)
GRAPHS = TableSchema(("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",), (_START, _END, *_PLACE))
GPU_FAULTS = TableSchema(
    ("CUDA_UM_GPU_PAGE_FAULT_EVENTS",),
    (
        _START,
        _END,
        _PID,
        _DEVICE,
        _wide("address", required=False),
        _id("count", "numberOfPageFaults", required=True),
        _enum("access", "faultAccessType"),
    ),
)
CPU_FAULTS = TableSchema(
    ("CUDA_UM_CPU_PAGE_FAULT_EVENTS",),
    (_START, _PID, _wide("address", required=False), _id("function", "CpuInstruction")),
)
MEMORY = TableSchema(
    ("CUDA_GPU_MEMORY_USAGE_EVENTS",),
    (
        _START,
        _PID,
        _DEVICE,
        _wide("address", required=False),
        _size("size_bytes", "bytes"),
        _enum("memory_kind", "memKind"),
        _enum("operation", "memoryOperationType", required=True),
        _CORRELATION,
    ),
)
OS_CALLS = TableSchema(
    ("OSRT_API",),
    (_START, _END, *_THREAD, _id("name", "nameId", required=True), _id("nesting", "nestingLevel")),
)
SCHED = TableSchema(("SCHED_EVENTS",), (_START, _id("cpu"), *_THREAD, _enum("running", "isSchedIn", required=True)))
SAMPLES = TableSchema(
    ("COMPOSITE_EVENTS",),
    (_wide("id"), _START, _id("cpu"), *_THREAD, _wide("weight", "cpuCycles", required=False)),
)
CHAINS = TableSchema(
    ("SAMPLING_CALLCHAINS",),
    (
        _wide("id"),
        _id("symbol", required=True),
        _id("module", required=True),
        _enum("kernel", "kernelMode"),
        _enum("unresolved"),
        _wide("ip", "originalIP", required=False),
        _id("depth", "stackDepth", required=True),
    ),
)
NVTX = TableSchema(
    ("NVTX_EVENTS",),
    (
        _START,
        _wide("end", required=False),
        _id("type", "eventType", required=True),
        *_THREAD,
        _id("text_id", "textId"),
        _wide("domain", "domainId", required=False),
    ),
)
NVTX_TEXT = "text"
THREADS = TableSchema(("ThreadNames",), (_id("name", "nameId", required=True), *_THREAD))
DIAGNOSTICS = TableSchema(("DIAGNOSTIC_EVENT",), (_PID,))
"""Who said something about its own tracing: nsys as a whole (pid 0) and every process that it launched or followed."""
SESSION_START = TableSchema(
    ("TARGET_INFO_SESSION_START_TIME",),
    (_wide("utc", "utcEpochNs", required=False), _wide("system", "systemClockNs", required=False)),
)
SESSION = TableSchema(("ANALYSIS_DETAILS",), (_wide("duration", required=False),))
GPUS = TableSchema(
    ("TARGET_INFO_GPU",),
    (
        _id("id", "id", "deviceId"),  # deviceId in 2020.3, without the columns below
        _wide("memory_bytes", "totalMemory", required=False),
        _wide("bandwidth", "memoryBandwidth", required=False),
        _id("multiprocessors", "smCount"),
        _id("major", "computeMajor"),
        _id("minor", "computeMinor"),
    ),
)
GPU_TEXTS = {"name": "name", "bus": "busLocation", "chip": "chipName"}
STRINGS = ("StringIds", "id", "value")

EVENTS = {
    "cuda": (CALLS, COPIES, MEMSETS, KERNELS, SYNCS, GRAPHS),
    "gpu_faults": (GPU_FAULTS,),
    "cpu_faults": (CPU_FAULTS,),
    "memory": (MEMORY,),
    "os_calls": (OS_CALLS,),
    "sched": (SCHED,),
    "nvtx": (NVTX,),
    "cpu_samples": (SAMPLES,),
}
"""Traces under pinprof's names, and the tables each fills."""

EXPORT_FACTS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""Since 3.4.0, and before; absent in 2020.3 and 2021.2."""
EXPORT_KEYS = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")

CAPTURE_FACTS = "META_DATA_CAPTURE"
COMMAND_KEY, ARGUMENT_KEY = "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_{}"
MAX_ARGUMENTS = 256
SAMPLING_PERIOD = "LINUX_PERF_OPTIONS:SAMPLING_PERIOD"
SAMPLING_TRIGGER = "LINUX_PERF_OPTIONS:CPU_IP_TRIGGER_TYPE"
SAMPLING_EVENT = "LINUX_PERF_OPTIONS:CPU_IP_SAMPLING_TRIGGER_EVENT_INDEX"
SAMPLING_SCOPE = "LINUX_PERF_OPTIONS:COLLECTION_MODE"
SAMPLES_PER_CHAIN = "LINUX_PERF_OPTIONS:SAMPLES_PER_BACKTRACE"
TRACED = {
    "PROCESS_0:COLLECT_CUDA_TRACE": "cuda",
    "PROCESS_0:COLLECT_NVTX_TRACE": "nvtx",
    "PROCESS_0:COLLECT_GPU_MEMORY_USAGE": "memory",
    "PROCESS_0:COLLECT_UVM_GPU_PAGE_FAULTS": "gpu_faults",
    "PROCESS_0:COLLECT_UVM_CPU_PAGE_FAULTS": "cpu_faults",
    "LINUX_PERF_OPTIONS:COLLECT_IP_BACKTRACE_SAMPLES": "cpu_samples",
    "LINUX_PERF_OPTIONS:COLLECT_CPU_CTXSW_TRACE": "sched",
}
CAPTURE_KEYS = (
    COMMAND_KEY,
    *(ARGUMENT_KEY.format(number) for number in range(MAX_ARGUMENTS)),
    SAMPLING_PERIOD,
    SAMPLING_TRIGGER,
    SAMPLING_EVENT,
    SAMPLING_SCOPE,
    SAMPLES_PER_CHAIN,
    *TRACED,
)

SYSTEM_FACTS = "TARGET_INFO_SYSTEM_ENV"
SYSTEM_KEYS = {
    "CpuCores": "cpus",
    "CpuArchitecture": "arch",
    "CpuDescription": "cpu",
    "NvDriverVersion": "driver",
    "OsDescription": "os",
    "CudaDriverVersion": "cuda",
    "SoftwareReleaseVersion": "kernel",
    "LinuxParanoidLevel": "perf_event_paranoid",
}
"""Property → key in `Manifest.host`."""

PUSH_POP, START_END, MARK, NAME_THREAD, DOMAIN_CREATE = 59, 60, 34, 39, 75
"""NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE ids)."""

EVENT_TABLES = frozenset(name for tables in EVENTS.values() for table in tables for name in table.names)
SESSION_TABLES = frozenset(
    {*SESSION_START.names, *SESSION.names, *GPUS.names, *THREADS.names, SYSTEM_FACTS, CAPTURE_FACTS}
)
KNOWN_TABLES = EVENT_TABLES | SESSION_TABLES | {*EXPORT_FACTS, STRINGS[0]}
