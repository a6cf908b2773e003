"""The driver's events of managed memory as they lie in a capture: one file for each address space that was followed.

    header     `HEADER`, then at `TABLE_AT` the processors' UUIDs, 16 bytes each, by the driver's numbers
    entries    at `HEADER_BYTES`: the driver's own, unchanged, `ENTRY_BYTES` of the layout each, in the order in which
               the driver wrote them; between them those of kind `CLOCK`, which pinprof wrote

The first byte of an entry is its kind. Entries hold times of CLOCK_MONOTONIC_RAW; those of kind CLOCK hold the same
moment on that clock and on CLOCK_MONOTONIC (u64 at `CLOCK_RAW_AT` and `CLOCK_AT`). Numbers are little-endian.

Source: NVIDIA/open-gpu-kernel-modules 515.43, 570.133 and 580.65, kernel-open/nvidia-uvm/: uvm_types.h (entries,
control data, counters), uvm_tools.c (what is written when), uvm_linux.h (NV_GETTIME reads the raw clock).
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = b"PINPUVME"
VERSION = 1
MOST_BYTES, LARGEST_FILE = 1 << 30, 5 << 28
"""Of entries, where the writer stops; of a file that is read."""
ENTRY_BYTES = {1: 64, 2: 72}
"""Layout → size of an entry: UvmEventEntry and, in newer drivers (570.133 has it), UvmEventEntry_V2."""
CLOCK = 255
CLOCK_RAW_AT, CLOCK_AT = 8, 16
COUNTERS, EVENTS, PROCESSORS, UUID_BYTES = 10, 16, 257, 16
"""UVM_TOTAL_COUNTERS; kinds of events that can be dropped; UVM_MAX_PROCESSORS; sizeof(NvProcessorUuid)."""

HEADER: tuple[tuple[str, str, int], ...] = (
    ("magic", "S8", 1),
    ("version", "<u4", 1),
    ("pid", "<u4", 1),
    ("layout", "<u4", 1),
    ("state", "<u4", 1),
    ("opened_ns", "<u8", 1),
    ("opened_raw_ns", "<u8", 1),
    ("stopped_ns", "<u8", 1),
    ("written", "<u8", 1),
    ("cost_ns", "<u8", 1),
    ("counted", "<u4", 1),
    ("processors", "<u4", 1),
    ("counters", "<u8", COUNTERS),
    ("dropped", "<u8", EVENTS),
)
"""Name, type as numpy writes it, how many; without gaps."""
TABLE_AT = 512
HEADER_BYTES = 5120


class UvmEvent(IntEnum):
    """Kinds of events (UvmEventType)."""

    CPU_FAULT = 1
    MIGRATION = 2
    GPU_FAULT = 3
    GPU_FAULT_REPLAY = 4
    FAULT_BUFFER_OVERFLOW = 5
    FATAL_FAULT = 6
    READ_DUPLICATE = 7
    READ_DUPLICATE_INVALIDATE = 8
    PAGE_SIZE_CHANGE = 9
    THRASHING = 10
    THROTTLING_START = 11
    THROTTLING_END = 12
    MAP_REMOTE = 13
    EVICTION = 14


class Counter(IntEnum):
    """Places in the counters (UvmCounterName); bytes, and numbers of faults."""

    TO_DEVICE = 0
    TO_HOST = 1
    CPU_FAULTS = 2
    GPU_FAULTS = 9


class State(IntEnum):
    """How a file's recording ended."""

    RUNNING = 0
    """The recorder was killed."""
    ENDED = 1
    NO_ROOM = 2
    LIMIT = 3
    OVER_BUDGET = 4
    """Events were so frequent that the driver's work on them would have slowed the program down."""
