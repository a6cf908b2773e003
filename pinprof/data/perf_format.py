"""The layout of perf's files and records, as those that write, cut, scrub and read them know it.

Sources: `include/uapi/linux/perf_event.h` (records of the kernel, sample and read formats),
`tools/lib/perf/include/perf/event.h` (records that perf itself writes, types ≥ 64), and
`tools/perf/Documentation/perf.data-file-format.txt` (the file). Only little-endian: every platform pinprof runs on is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

MAGIC = b"PERFILE2"
FILE_HEAD = struct.Struct("<8s12Q")
"""`MAGIC, u64 size, attr_size; {u64 offset, size} attributes, data, event_types; u64 features[4]`."""
DATA_OFFSET, DATA_SIZE, FEATURES = 5, 6, slice(9, 13)
"""Fields of the head."""
SECTION = struct.Struct("<QQ")
"""Where a section lies and its bytes. Behind the records is one for each feature bit that is set, in their order."""

HOSTNAME, BUILD_ID, OSRELEASE, VERSION, ARCH, NRCPUS, CPUDESC, TOTAL_MEM = 3, 2, 4, 5, 6, 7, 8, 10
CMDLINE, EVENT_DESC, SAMPLE_TIMES, CLOCKID, CLOCK_DATA = 11, 12, 21, 23, 29
"""Bits of features."""

RECORD_HEADER = struct.Struct("<IHH")
"""`u32 type, u16 misc, u16 size`, and a body of `size - 8` bytes."""

RECORD_MMAP, RECORD_LOST, RECORD_COMM, RECORD_EXIT, RECORD_FORK, RECORD_SAMPLE = 1, 2, 3, 4, 7, 9
RECORD_THROTTLE, RECORD_UNTHROTTLE = 5, 6
RECORD_MMAP2, RECORD_LOST_SAMPLES, RECORD_SWITCH, RECORD_SWITCH_CPU_WIDE = 10, 13, 14, 15
RECORD_CALLCHAIN_DEFERRED = 22
RECORD_HEADER_ATTR, RECORD_TRACING_DATA, RECORD_HEADER_BUILD_ID, RECORD_FINISHED_ROUND = 64, 66, 67, 68
RECORD_AUXTRACE, RECORD_EVENT_UPDATE, RECORD_HEADER_FEATURE = 71, 78, 80
RECORD_COMPRESSED, RECORD_COMPRESSED2 = 81, 83

CONTEXT_KERNEL, CONTEXT_USER = 2**64 - 128, 2**64 - 512
"""Marks in a call chain: what follows is the kernel's, or the program's."""

MISC_CPUMODE_MASK, MISC_KERNEL, MISC_USER, MISC_GUEST = 7, 1, 2, (4, 5)
MISC_MMAP_DATA = MISC_COMM_EXEC = MISC_FORK_EXEC = MISC_SWITCH_OUT = 1 << 13
MISC_MMAP_BUILD_ID = MISC_SWITCH_OUT_PREEMPT = 1 << 14
MISC_BUILD_ID_SIZE = MISC_LOST_SAMPLES_BPF = 1 << 15

TYPE_SOFTWARE, TYPE_TRACEPOINT = 1, 2

SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, SAMPLE_ADDR, SAMPLE_READ = (1 << bit for bit in range(5))
SAMPLE_CALLCHAIN, SAMPLE_ID, SAMPLE_CPU, SAMPLE_PERIOD, SAMPLE_STREAM_ID = (1 << bit for bit in range(5, 10))
SAMPLE_RAW, SAMPLE_BRANCH_STACK, SAMPLE_REGS_USER, SAMPLE_STACK_USER = (1 << bit for bit in range(10, 14))
SAMPLE_IDENTIFIER = 1 << 16
SAMPLE_WORDS = (
    SAMPLE_IDENTIFIER, SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, SAMPLE_ADDR, SAMPLE_ID, SAMPLE_STREAM_ID, SAMPLE_CPU,
    SAMPLE_PERIOD,
)  # fmt: skip
"""The fields of a sample that have one word each, in their order: all before READ and the callchain."""
FIXED_FIELDS = sum(SAMPLE_WORDS)
TRAILER_WORDS = (SAMPLE_TID, SAMPLE_TIME, SAMPLE_ID, SAMPLE_STREAM_ID, SAMPLE_CPU, SAMPLE_IDENTIFIER)
"""Those at the end of other records (`struct sample_id`)."""

FORMAT_ENABLED, FORMAT_RUNNING, FORMAT_ID, FORMAT_GROUP, FORMAT_LOST = (1 << bit for bit in range(5))
"""Bits of read_format; LOST since Linux 6.0."""


_COUNTS_TIME = re.compile(r"sched:sched_stat_(runtime|wait|sleep|iowait|blocked)\b")


def counts_time(event: str) -> bool:
    """Whether the period of a tracepoint is the nanoseconds since the scheduler last counted.

    Source: `__perf_count` in include/trace/events/sched.h.
    """
    return _COUNTS_TIME.match(event) is not None


def record(kind: int, misc: int, body: bytes) -> bytes:
    """A record of a type."""
    return RECORD_HEADER.pack(kind, misc, RECORD_HEADER.size + len(body)) + body


def records(raw: bytes | bytearray) -> Iterator[tuple[int, int, int, int]]:
    """(type, misc, first byte, byte behind) of whole records, up to the first that is damaged or cut short."""
    place, unpack = 0, RECORD_HEADER.unpack_from
    while place + RECORD_HEADER.size <= len(raw):
        kind, misc, size = unpack(raw, place)
        following = place + size
        if size < RECORD_HEADER.size or following > len(raw):
            return
        yield kind, misc, place, following
        place = following
