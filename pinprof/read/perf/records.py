"""Parsers of perf's records and event attributes; no file handling here.

`data/perf_format.py` has the numbers and their sources. Parsers raise struct.error on short bodies.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf

SKIPPED = frozenset(
    {
        8,  # READ
        11,  # AUX
        12,  # ITRACE_START
        16,  # NAMESPACES
        17,  # KSYMBOL: BPF programs and trampolines; kallsyms lists them too
        18,  # BPF_EVENT
        19,  # CGROUP
        20,  # TEXT_POKE
        21,  # AUX_OUTPUT_HW_ID
        65,  # HEADER_EVENT_TYPE, long gone
        68,  # FINISHED_ROUND: a sorting hint, and everything is sorted at the end
        69,  # ID_INDEX: repeats the ids of the attributes
        70,  # AUXTRACE_INFO
        72,  # AUXTRACE_ERROR
        73,  # THREAD_MAP
        74,  # CPU_MAP
        75,  # STAT_CONFIG
        76,  # STAT
        77,  # STAT_ROUND
        79,  # TIME_CONV: TSC to perf clock, for hardware traces
        82,  # FINISHED_INIT
        84,  # BPF_METADATA
    }
)
"""Types that are known and say nothing this reader needs."""

PROT_EXEC = 4

SOFTWARE_NAMES = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
HARDWARE_NAMES = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
CLOCKS, FAULTS, CONTEXT_SWITCHES, DUMMY = frozenset({0, 1}), frozenset({2, 5, 6}), 3, 9
"""Values of `Attr.config` among software events."""

BRANCH_CALL_STACK = 1 << 11
"""Bit of branch_sample_type: the branch stack holds the user's call chain (`--call-graph lbr`)."""

CONTEXT_LOWEST = 2**64 - 4095
CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED = perf.CONTEXT_KERNEL, perf.CONTEXT_USER, 2**64 - 640
"""Markers inside a callchain (PERF_CONTEXT_*): they say what the addresses after them are. All are ≥ CONTEXT_LOWEST."""

KERNEL_START = 2**63
MAX_STACK = 127
"""Callchain depth limit when neither attribute nor sysctl changed it (PERF_MAX_STACK_DEPTH)."""

_FLAG_INHERIT, _FLAG_EXCLUDE_KERNEL, _FLAG_FREQ, _FLAG_SAMPLE_ID_ALL, _FLAG_USE_CLOCKID = (
    1 << bit for bit in (1, 5, 10, 18, 25)
)


@dataclass(frozen=True, slots=True)
class Attr:
    """The fields of `struct perf_event_attr` that reading needs; those beyond an older, shorter struct are 0."""

    type: int
    config: int
    period_or_freq: int
    sample_type: int
    read_format: int
    flags: int
    branch_sample_type: int
    clockid: int
    sample_max_stack: int
    sample_regs_user: int = 0
    """Which registers are copied with the stack, a bit each."""

    @property
    def freq(self) -> bool:
        """Whether the event samples at a frequency rather than a fixed period."""
        return bool(self.flags & _FLAG_FREQ)

    @property
    def inherits(self) -> bool:
        """Whether it also counts in threads and processes that the counted ones start."""
        return bool(self.flags & _FLAG_INHERIT)

    @property
    def read_at_samples(self) -> bool:
        """Whether samples have readings of counters that say what was counted since the one before.

        A reading that is not of a group is of no use where it is inherited: kernels before 6.12 exchange the counters
        of threads. Inherited groups, which they refuse, are counted in each thread.
        """
        reads = bool(self.sample_type & perf.SAMPLE_READ) and bool(self.read_format & perf.FORMAT_ID)
        return reads and (bool(self.read_format & perf.FORMAT_GROUP) or not self.inherits)

    @property
    def user_only(self) -> bool:
        """Whether the kernel is left out."""
        return bool(self.flags & _FLAG_EXCLUDE_KERNEL)

    @property
    def sample_id_all(self) -> bool:
        """Whether records other than samples end in time and identity."""
        return bool(self.flags & _FLAG_SAMPLE_ID_ALL)

    @property
    def use_clockid(self) -> bool:
        """Whether times count in `clockid` (`-k`) instead of perf's own clock."""
        return bool(self.flags & _FLAG_USE_CLOCKID)

    @property
    def is_dummy(self) -> bool:
        """Whether this is the event that perf adds for side-band records only: it never samples."""
        return self.type == perf.TYPE_SOFTWARE and self.config == DUMMY

    @property
    def is_context_switches(self) -> bool:
        """Whether this event samples a thread each time that it leaves a processor."""
        every = not self.freq and self.period_or_freq == 1
        return self.type == perf.TYPE_SOFTWARE and self.config == CONTEXT_SWITCHES and every

    @property
    def needs_unwinding(self) -> bool:
        """Whether call chains have yet to be made from copied stacks or branch records, which only perf does."""
        return bool(self.sample_type & perf.SAMPLE_STACK_USER) or (
            bool(self.sample_type & perf.SAMPLE_BRANCH_STACK) and bool(self.branch_sample_type & BRANCH_CALL_STACK)
        )

    def default_name(self) -> str:
        """A name for an event whose file does not name it."""
        names = {perf.TYPE_SOFTWARE: SOFTWARE_NAMES, 0: HARDWARE_NAMES}.get(self.type, ())
        return names[self.config] if self.config < len(names) else f"event-{self.type}:{self.config:#x}"


def parse_attr(raw: bytes) -> Attr:
    """`struct perf_event_attr` of any size from 64 bytes (its first version) on."""
    kind, _size, config, period, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", raw)
    padded = raw[:128].ljust(128, b"\0")
    (branch_sample_type,) = struct.unpack_from("<Q", padded, 72)
    (sample_regs_user,) = struct.unpack_from("<Q", padded, 80)
    (clockid,) = struct.unpack_from("<i", padded, 92)
    (sample_max_stack,) = struct.unpack_from("<H", padded, 108)
    return Attr(
        kind, config, period, sample_type, read_format, flags, branch_sample_type, clockid, sample_max_stack,
        sample_regs_user,
    )  # fmt: skip


class ReadLayout(NamedTuple):
    """How the READ field of a sample is laid out, in words."""

    group: bool
    """Whether its first word is the number of counters; else there is one."""
    before: int
    """Words before the first counter."""
    each: int
    """Words of a counter, of which the first is its value."""
    id: int | None
    """The word of a counter that is its id; None where the counters say nothing (`Attr.read_at_samples`)."""


@dataclass(frozen=True, slots=True)
class SampleLayout:
    """Where the fields of an event's samples lie, in 8-byte words from the start of the record; None when absent."""

    ip: int | None
    tid: int | None
    time: int | None
    addr: int | None
    id: int | None
    cpu: int | None
    period: int | None
    tail: int
    """First word after the fixed fields: READ if there is one, then the callchain."""
    read: ReadLayout | None
    callchain: bool
    raw: bool
    """A tracepoint's own fields come behind the callchain."""
    trailer_time: int | None
    """Words from the end of a non-sample record back to its time; None when such records carry none."""
    trailer_tid: int | None
    """The same for its process and thread."""
    trailer_cpu: int | None
    """And for its CPU."""


def sample_layout(attr: Attr) -> SampleLayout:
    """The layout that `sample_type` and `read_format` prescribe (comment at PERF_RECORD_SAMPLE in perf_event.h)."""
    position = 1
    words: dict[int, int] = {}
    for field in perf.SAMPLE_WORDS:
        if attr.sample_type & field:
            words[field] = position
            position += 1
    read = None
    if attr.sample_type & perf.SAMPLE_READ:
        form = attr.read_format
        times = bool(form & perf.FORMAT_ENABLED) + bool(form & perf.FORMAT_RUNNING)
        behind = bool(form & perf.FORMAT_ID) + bool(form & perf.FORMAT_LOST)
        group = bool(form & perf.FORMAT_GROUP)
        # The times stand before the counters of a group, and between the value and the id of a single one.
        before, value = (1 + times, 1) if group else (0, 1 + times)
        read = ReadLayout(group, before, value + behind, value if attr.read_at_samples else None)
    timed = attr.sample_id_all and bool(attr.sample_type & perf.SAMPLE_TIME)
    behind_time = sum(bool(attr.sample_type & field) for field in perf.TRAILER_WORDS[2:])
    return SampleLayout(
        ip=words.get(perf.SAMPLE_IP),
        tid=words.get(perf.SAMPLE_TID),
        time=words.get(perf.SAMPLE_TIME),
        addr=words.get(perf.SAMPLE_ADDR),
        id=words.get(perf.SAMPLE_IDENTIFIER, words.get(perf.SAMPLE_ID)),
        cpu=words.get(perf.SAMPLE_CPU),
        period=words.get(perf.SAMPLE_PERIOD),
        tail=position,
        read=read,
        callchain=bool(attr.sample_type & perf.SAMPLE_CALLCHAIN),
        raw=bool(attr.sample_type & perf.SAMPLE_RAW),
        trailer_time=behind_time + 1 if timed else None,
        trailer_tid=behind_time + 2 if timed and attr.sample_type & perf.SAMPLE_TID else None,
        trailer_cpu=1 + bool(attr.sample_type & perf.SAMPLE_IDENTIFIER)
        if timed and attr.sample_type & perf.SAMPLE_CPU
        else None,
    )


class Loss(NamedTuple):
    """Records found no room in a ring (LOST); said as soon as there was some again."""

    clock: int
    """0 where that is not known."""
    cpu: int
    """The ring's; -1 where that is not known."""
    source: int
    """An event of this ring, not necessarily one that lost any; -1 for one that the file does not name."""
    lost: int


class MapRecord(NamedTuple):
    """An executable mapping of a user process came to be (MMAP, MMAP2)."""

    pid: int
    start: int
    end: int
    pgoff: int
    path: str
    build_id: str


class CommRecord(NamedTuple):
    """A thread was named; `exec` when by starting a new program."""

    pid: int
    tid: int
    name: str
    exec: bool


class ForkRecord(NamedTuple):
    """A thread or process began; `clones` is False where perf only lists an existing process."""

    pid: int
    parent_pid: int
    tid: int
    parent_tid: int
    clones: bool


class DataArea(NamedTuple):
    """Memory without code that was mapped, or whose protection was changed, at a time; it may be a part of more."""

    clock: int
    pid: int
    tid: int
    start: int
    end: int
    protection: int
    flags: int
    """As mmap(2) takes them."""
    path: str


def parse_mmap(misc: int, body: bytes) -> MapRecord | None:
    """MMAP: `u32 pid, tid; u64 addr, len, pgoff; char filename[]`. None for kernel and data mappings."""
    pid, _tid, start, length, pgoff = struct.unpack_from("<iIQQQ", body)
    if misc & perf.MISC_MMAP_DATA or not _is_user_range(misc, start, length):
        return None
    return MapRecord(pid, start, start + length, pgoff, sys.intern(c_string(body, 32)), "")


def parse_mmap2(misc: int, body: bytes) -> MapRecord | None:
    """MMAP2: as MMAP, then device and inode or (MISC_MMAP_BUILD_ID) a build id, then protection and flags."""
    pid, _tid, start, length, pgoff, id_size = struct.unpack_from("<iIQQQB", body)
    (protection,) = struct.unpack_from("<I", body, 56)
    if misc & perf.MISC_MMAP_DATA or not protection & PROT_EXEC or not _is_user_range(misc, start, length):
        return None
    build_id = sys.intern(body[36 : 36 + min(id_size, 20)].hex()) if misc & perf.MISC_MMAP_BUILD_ID else ""
    return MapRecord(pid, start, start + length, pgoff, sys.intern(c_string(body, 64)), build_id)


def parse_data_map(clock: int, body: bytes) -> DataArea:
    """A mapping without code, from the body of MMAP2."""
    pid, tid, start, length = struct.unpack_from("<iiQQ", body)
    protection, flags = struct.unpack_from("<II", body, 56)
    return DataArea(clock, pid, tid, start, start + length, protection, flags, c_string(body, 64))


def _is_user_range(misc: int, start: int, length: int) -> bool:
    return misc & perf.MISC_CPUMODE_MASK == perf.MISC_USER and length > 0 and start + length <= KERNEL_START


def parse_comm(misc: int, body: bytes) -> CommRecord:
    """COMM: `u32 pid, tid; char comm[]`."""
    pid, tid = struct.unpack_from("<ii", body)
    return CommRecord(pid, tid, sys.intern(c_string(body, 8)), bool(misc & perf.MISC_COMM_EXEC))


def parse_fork(misc: int, body: bytes) -> ForkRecord:
    """FORK: `u32 pid, ppid, tid, ptid; u64 time`."""
    pid, parent_pid, tid, parent_tid = struct.unpack_from("<iiii", body)
    return ForkRecord(pid, parent_pid, tid, parent_tid, not misc & perf.MISC_FORK_EXEC)


def parse_build_id(misc: int, body: bytes) -> tuple[str, str]:
    """Path and build id of a BUILD_ID entry: `s32 pid; u8 build_id[20], size, pad[3]; char filename[]`."""
    size = min(body[24], 20) if misc & perf.MISC_BUILD_ID_SIZE and len(body) > 24 else 20
    build_id = body[4 : 4 + size].hex()
    if not misc & perf.MISC_BUILD_ID_SIZE:
        # Before the size was recorded, shorter ids (16-byte md5) were padded with zeros.
        build_id = build_id.removesuffix("00000000")
    return c_string(body, 28), build_id


def c_string(body: bytes, start: int, limit: int | None = None) -> str:
    """NUL-terminated text; bytes that are not UTF-8 become U+FFFD."""
    end = body.find(b"\0", start, limit)
    return body[start : limit if end < 0 else end].decode("utf-8", "replace")
