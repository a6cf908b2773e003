"""What calls, work of the GPU and memory may be: the values of columns of `activity.py`; without numpy."""

from __future__ import annotations

from enum import IntEnum


class Api(IntEnum):
    """Which of CUDA's two interfaces a call belongs to (nsys: eventClass)."""

    RUNTIME = 0
    DRIVER = 1


class OpKind(IntEnum):
    """What a row of GpuOpTable is; the numbers are pinprof's."""

    KERNEL = 0
    COPY = 1
    """An explicit copy: cudaMemcpy and its relatives."""
    MEMSET = 2
    SYNC = 3
    """Host time spent waiting for an event, a stream or a context; not work of the GPU."""
    MIGRATION = 4
    """Pages of managed memory moved by the driver."""
    GRAPH = 5
    """A whole CUDA graph launch, recorded as one interval."""


class CopyKind(IntEnum):
    """Direction of a copy or migration (CUpti_ActivityMemcpyKind; 11–13 are nsys's for unified memory)."""

    UNKNOWN = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_ARRAY = 3
    ARRAY_TO_HOST = 4
    ARRAY_TO_ARRAY = 5
    ARRAY_TO_DEVICE = 6
    DEVICE_TO_ARRAY = 7
    DEVICE_TO_DEVICE = 8
    HOST_TO_HOST = 9
    PEER_TO_PEER = 10
    UVM_HOST_TO_DEVICE = 11
    UVM_DEVICE_TO_HOST = 12
    UVM_DEVICE_TO_DEVICE = 13


class _Named(IntEnum):
    @property
    def words(self) -> str:
        """The name as texts write it: `managed static`."""
        return self.name.lower().replace("_", " ")


class MemoryKind(_Named):
    """Where memory lies; nsys's numbers, one lower than CUpti_ActivityMemoryKind."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    DEVICE_STATIC = 5
    MANAGED_STATIC = 6
    UNKNOWN = 7


class Location(IntEnum):
    """Where physical memory or a pool lies (CUmemLocationType); 0 and other numbers say nothing."""

    UNKNOWN = 0
    DEVICE = 1
    HOST = 2
    HOST_NUMA = 3
    """A NUMA node of the host's."""
    HOST_NUMA_CURRENT = 4
    """That of the thread which allocates."""


class MigrationCause(_Named):
    """Why managed memory moved (CUpti_ActivityUnifiedMemoryMigrationCause)."""

    UNKNOWN = 0
    PREFETCH = 1
    """The program asked: cudaMemPrefetchAsync."""
    FAULT = 2
    """A page that was touched (CUPTI: coherence)."""
    SPECULATIVE = 3
    """Pages around a touched one, moved by the driver's own prefetcher."""
    EVICTION = 4
    """To make room on the device."""
    ACCESS_COUNTERS = 5


class Access(IntEnum):
    """What the GPU was doing when it faulted (CUpti_ActivityUnifiedMemoryAccessType)."""

    UNKNOWN = 0
    READ = 1
    WRITE = 2
    ATOMIC = 3
    PREFETCH = 4


class SyncKind(IntEnum):
    """What the host waited for (CUpti_ActivitySynchronizationType)."""

    UNKNOWN = 0
    EVENT = 1
    STREAM_WAIT_EVENT = 2
    STREAM = 3
    CONTEXT = 4


class MemoryOperation(IntEnum):
    """What happened to an allocation (nsys: ENUM_CUDA_DEV_MEM_EVENT_OPER)."""

    ALLOCATE = 0
    FREE = 1
