"""The frozen types that readers produce and everything after them consumes; no I/O here.

Tables are columns: numpy arrays of one length, integer nanoseconds and bytes, the unit in the field's name.
Times are nanoseconds of the clock named in `ClockSync.source` (CLOCK_MONOTONIC in pinprof's own captures).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from pinprof.base.columns import Bool as Bool
from pinprof.base.columns import Int8 as Int8
from pinprof.base.columns import Int16 as Int16
from pinprof.base.columns import Int32 as Int32
from pinprof.base.columns import Int64 as Int64
from pinprof.base.columns import Table, Texts, numbered_pairs, pack, pairs_of, put_together, slices, uniform, unpack
from pinprof.base.columns import UInt8 as UInt8
from pinprof.base.columns import UInt64 as UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Activity, MarkTable
from pinprof.data.host_memory import LargeMemory
from pinprof.data.manifest import Manifest
from pinprof.data.meeting_calls import MeetingCalls
from pinprof.data.memory_log import MemoryLog
from pinprof.data.rates import Rates
from pinprof.data.torch_memory import TorchMemory

Unit = Literal["ns", "faults", "bytes", "events", "samples"]
"""`events`: what a processor's counter or a tracepoint counts; `samples`: nothing says what a sample stands for."""

LONGEST_NAME = 512
"""Neither a kernel (KSYM_NAME_LEN) nor an interpreter has longer names of functions; matching forged ones could take
quadratic time.
"""

LATEST_NS = 1 << 61
"""No clock shows more: 73 years, and UTC until 2043."""

USER, KERNEL = 0, 1
"""Values of `FrameTable.mode`."""

READY, CONTINUED = 1, 2
"""Bits of `SampleTable.wait`: the thread could have run on while another had the processor; the interval is the rest of
one that was cut at the edge of a range.
"""

UNDECIDED_LINE = "[line undecided]"
"""Stands for a Python function where what was recorded does not tell which line a sample belongs to."""

NO_NODE = -1
"""`SampleTable.stack` of a sample without a callchain, and `StackTable.parent` of a root."""


@dataclass(frozen=True, slots=True)
class Event:
    """One sampled event. Events are never merged: a weight is only comparable within its event."""

    name: str
    """As recorded, for example `cpu-clock/freq=999/`."""
    unit: Unit
    period: int | None
    """Fixed sampling period in `unit`, None when the event samples at a frequency."""
    freq_hz: int | None
    spans: bool = False
    """Whether a sample is the interval [time, time + weight) that its thread spent off the CPU."""
    merged: bool = False
    """Whether the tool that wrote the recording added equal stacks up, so that a row may stand for several samples."""
    elsewhere: bool = False
    """Whether it is known to count or sample something else than processors: a wall clock, a lock's delay, memory."""
    counted: bool = False
    """Whether it was counted between samples: a sample says how much there was since the one before, and where the
    program was at the end of that time."""
    kernel_left_out: bool = False
    """Whether the recorder left it out of this event."""
    inferred: bool = False
    """Whether what the kernel did is concluded from the instruction that led there, and was not seen."""

    @property
    def user_only(self) -> bool:
        """Whether the kernel was left out, as its field or its name says."""
        return self.kernel_left_out or _USER_ONLY.search(self.name) is not None

    @property
    def clocks(self) -> bool:
        """Whether its weights are time on processors."""
        return self.unit == "ns" and not self.spans and not self.elsewhere and not self.counted

    @property
    def shows_time(self) -> bool:
        """Whether shares of it are shares of time on processors: of a clock, of cycles, or of samples by a profiler."""
        counts = self.unit in ("samples", "events") and not self.elsewhere and not self.counted
        return self.clocks or (counts and _TIME.fullmatch(self.name) is not None)

    @property
    def costs_time(self) -> bool:
        """Whether shares of it are shares of time, on processors or off them: what takes it can be saved."""
        return self.spans or self.shows_time


OFF_CPU = Event("off-cpu", "ns", None, None, spans=True)
"""Intervals in which a thread did not run, as pinprof's own recorders see them."""

_USER_ONLY = re.compile(r"[:/](?=\w*u)[uhIGHpPSDWeb]+$")
"""perf's modifiers of an event that counts user code and not the kernel: `cycles:u`."""
_TIME = re.compile(
    r"(?:\w+/)?(?:(?:cpu|task|ref|hw)[-_])?(?:clock|clk|cycles|samples?|cpu[-_]cycles|cpu)"
    r"(?:[-_]unhalted[.\w]*|\.core|\.thread|[-_](?:samples?|events?))?(?:[/:].*)?",
    re.IGNORECASE,
)
"""Names of events that come as often as time on processors passes: `cpu-clock`, `cycles:P`, `cpu_core/cycles/`."""


def clock_event(events: tuple[Event, ...]) -> int | None:
    """The first event that samples time on the processors; None when none does."""
    return next((number for number, event in enumerate(events) if event.clocks), None)


@dataclass(frozen=True, slots=True)
class Dso:
    """A dynamic shared object, or what stands for one: `[kernel.kallsyms]`, `[nvidia_uvm]`, `[vdso]`, `[anon]`."""

    path: str
    build_id: str
    """Lower-case hex; empty when unknown."""
    kind: Literal["kernel", "module", "file", "vdso", "jit", "anon", "python"]
    """`python`: a source file, whose functions have lines of their own."""

    @property
    def name(self) -> str:
        """The last path component: `libcuda.so.580.159.04`, `[nvidia]`."""
        return self.path.rsplit("/", 1)[-1] or self.path


INFERRED_KERNEL = Dso("[kernel, inferred]", "", "kernel")
"""Of functions of the kernel that nobody saw, but that must have run."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One function in a callchain, as a row of `FrameTable`."""

    symbol: str
    """As people read it, see `FrameTable.symbol`."""
    dso: Dso
    mode: int


@dataclass(frozen=True)
class FrameTable:
    """The distinct functions and lines of a capture; addresses within one are merged."""

    function: tuple[str, ...]
    """Demangled function name, or the DSO name in brackets where the address has no symbol. Formats that are text
    alone may write a place behind it, which is part of the name."""
    dso: Int32
    """Index into `dsos`."""
    mode: UInt8
    """USER or KERNEL."""
    dsos: tuple[Dso, ...]
    source: tuple[str, ...] = ()
    """Path of the source file of a native function with a known line, else empty; no entries where no frame has one. A
    Python function's file is its DSO."""
    inlined: frozenset[int] = frozenset()
    """Frames that another tool's text marks as inlined into their caller, apart from the same function called."""
    line: tuple[int, ...] = ()
    """Line in the source file, 0 where it is not known; no entries where no frame has one."""

    def __len__(self) -> int:
        return len(self.function)

    @cached_property
    def symbol(self) -> tuple[str, ...]:
        """What people read: `NAME (FILE:LINE)` (without folders), `NAME (FILE)`, `NAME (inferred)` or `NAME`."""
        inferred = [dso == INFERRED_KERNEL for dso in self.dsos]
        files = [
            "inferred" if inferred[dso] else self.source_of(index).rpartition("/")[2]
            for index, dso in enumerate(self.dso.tolist())
        ]
        places = (f"{file}:{line}" if line else file for file, line in zip(files, self.lines, strict=True))
        return tuple(f"{name} ({place})" if place else name for name, place in zip(self.function, places, strict=True))

    @property
    def lines(self) -> tuple[int, ...]:
        """Per frame its line, 0 where it is not known."""
        return self.line or (0,) * len(self)

    def source_of(self, index: int) -> str:
        """The path of a frame's source file, empty where it is not known."""
        dso = self.dsos[int(self.dso[index])]
        return dso.path if dso.kind == "python" else self.source[index] if self.source else ""

    def named(self, pattern: re.Pattern[str]) -> Bool:
        """Per frame, whether all of its name matches; read-only."""
        if pattern not in self._named:
            names, which = self._names
            self._named[pattern] = np.array([pattern.fullmatch(name) is not None for name in names], np.bool_)[which]
            self._named[pattern].flags.writeable = False
        return self._named[pattern]

    @cached_property
    def _named(self) -> dict[re.Pattern[str], Bool]:
        """What was asked before."""
        return {}

    @cached_property
    def _names(self) -> tuple[list[str], Int64]:
        """The distinct names, and per frame the place of its own."""
        names: dict[str, int] = {}
        which = [names.setdefault(name[:LONGEST_NAME], len(names)) for name in self.function]
        return list(names), np.array(which, np.int64)

    def __getitem__(self, index: int) -> Frame:
        return Frame(self.symbol[index], self.dsos[int(self.dso[index])], int(self.mode[index]))


@dataclass(frozen=True)
class StackTable:
    """All callchains as one prefix tree. Every parent precedes its children, so one pass in order walks root to leaf.

    A stack is named by its innermost node; following `parent` yields the chain leaf first, as perf stores it.
    """

    parent: Int32
    """Node index of the caller; NO_NODE for a root (outermost frame)."""
    frame: Int32
    """Index into `frames`."""
    frames: FrameTable

    def __len__(self) -> int:
        return len(self.parent)

    def chain(self, node: int) -> Iterator[int]:
        """Node indices from `node` outward to the root: leaf first."""
        while node != NO_NODE:
            yield node
            node = int(self.parent[node])

    def levels(self) -> Iterator[Int32]:
        """Node indices grouped by depth, roots first: the order for vectorised passes down the tree."""
        return iter(self._levels)

    @cached_property
    def _levels(self) -> list[Int32]:
        depth = self.depth()
        order = np.argsort(depth, kind="stable").astype(np.int32)
        bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
        return [order[start:end] for start, end in pairwise(bounds)]

    def under(self, frames: Bool, *, roots: bool = False) -> Bool:
        """Per node, whether one of these frames (a mask) is on its chain; one more element, False, read by NO_NODE.

        With `roots` only the outermost frame of a chain counts.
        """
        result = np.append(frames[self.frame] & (self.parent == NO_NODE) if roots else frames[self.frame], False)
        if result.any():
            for nodes in self._levels:
                result[nodes] |= result[self.parent[nodes]]
        return result

    def merged(self) -> tuple[StackTable, Int32]:
        """The table with each chain of frames once, and old node → new node."""
        node = np.full(len(self) + 1, NO_NODE, np.int32)
        columns: tuple[list[Int32], list[Int32]] = ([np.zeros(0, np.int32)], [np.zeros(0, np.int32)])
        size = 0
        for nodes in self._levels:
            keys, which = numbered_pairs(node[self.parent[nodes]], self.frame[nodes])
            node[nodes] = size + which
            for column, values in zip(columns, unpack(keys), strict=True):
                column.append(values.astype(np.int32))
            size += len(keys)
        parent, frame = map(np.concatenate, columns)
        return StackTable(parent, frame, self.frames), node[:-1]

    def depth(self) -> Int32:
        """Per node, the number of its ancestors; roots are 0."""
        # By jumps of doubling length; the last element stands for NO_NODE, which leads to itself.
        ancestor: Int32 = np.append(self.parent, np.int32(NO_NODE))
        depth: Int32 = (ancestor != NO_NODE).astype(np.int32)
        while (ancestor != NO_NODE).any():
            depth += depth[ancestor]
            ancestor = ancestor[ancestor]
        return np.asarray(depth[:-1])


@dataclass(frozen=True, eq=False, repr=False)
class SampleTable(Table):
    """One row per sample, ordered by time."""

    time_ns: Int64
    pid: Int32
    tid: Int32
    cpu: Int32
    """-1 when not recorded."""
    event: Int16
    """Index into `Capture.events`."""
    weight: Int64
    """The sample's period in its event's unit."""
    stack: Int32
    """Innermost node in the stack table; NO_NODE for a sample without callchain."""
    ip: UInt64
    """Address of the innermost instruction; 0 when not recorded."""
    address: UInt64
    """Data address (page-fault events recorded with -d); 0 when not recorded."""
    wait: UInt8 | None = None
    """Bits of `READY` and `CONTINUED` for an interval off the CPU; None when none were recorded."""
    mapped: UInt8 | None = None
    """What the data address lies in (`Mapped`); None where no recorder knew mappings."""

    @property
    def begun(self) -> Bool:
        """Per sample, whether it was recorded as one: it is no later piece of an interval that was cut."""
        return uniform(True, len(self), np.bool_) if self.wait is None else self.wait & CONTINUED == 0


BY_THREAD, BY_INTERRUPT, BY_SOFTIRQ, BY_EXIT = range(4)
"""Values of `WakeupTable.context`: a thread woke another; an interrupt did, while whatever thread ran; work did that
follows interrupts, or that a thread does for the network on its way out of the kernel; a thread did by its end, which
analysis concludes and no recording says.
"""


@dataclass(frozen=True, eq=False, repr=False)
class WakeupTable(Table):
    """Threads of the program being woken, ordered by time."""

    time_ns: Int64
    pid: Int32
    """The waker's; 0 for the idle loop."""
    tid: Int32
    """-1 where the waker is outside the program and was not recorded itself."""
    woken: Int32
    """The thread that was woken: ids of threads are the machine's."""
    context: UInt8
    stack: Int32
    """The waker's, in `Capture.stacks`; NO_NODE where it was not recorded."""


@dataclass(frozen=True, eq=False, repr=False)
class ExitTable(Table):
    """Threads that ended, ordered by time."""

    time_ns: Int64
    pid: Int32
    tid: Int32


@dataclass(frozen=True, eq=False, repr=False)
class RangeTable(Table):
    """NVTX ranges, ordered by start, one row each; half-open intervals [start_ns, end_ns)."""

    name: Texts
    domain: Texts
    start_ns: Int64
    end_ns: Int64
    pid: Int32
    """-1 when the source does not say."""
    tid: Int32
    depth: Int32
    """Nesting depth within its thread, 0 outermost."""
    ended: Bool | None = None
    """Whether it ended, rather than being taken to end with the recording; None where all did."""

    @property
    def closed(self) -> Bool:
        """Per range, whether it ended: one that never does says nothing of what goes on inside."""
        return np.ones(len(self), np.bool_) if self.ended is None else self.ended


@dataclass(frozen=True, slots=True)
class ClockSync:
    """Which clock sample times count in, and how far ranges may be off against it."""

    source: str
    """`monotonic`, or the name of the clock of a capture whose ranges cannot be aligned."""
    offset_ns: int
    """Added to range times to reach sample times."""
    uncertainty_ns: int
    """0 when both sides read the same clock."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Everything a reader could not use, counted: nothing is dropped silently."""

    lost_samples: int = 0
    """Samples the kernel reported as lost for want of ring-buffer space."""
    unknown_records: int = 0
    """Records of a type this version does not know; skipped whole."""
    truncated_chains: int = 0
    """Callchains that reached the recording depth limit: their outermost frames are missing."""
    corrupt_bytes: int = 0
    """Bytes at the end of the file, or inside it, that hold no whole record."""
    unresolved_frames: int = 0
    """Sampled frames (sample × frame) whose address has no symbol."""
    missing_stacks: int = 0
    """Samples without any callchain."""
    other_processes: int = 0
    """Samples of processes outside the recorded program, left out of everything else."""
    switching_ns: int = 0
    """Time for which the recorder kept threads that leave a processor, to take their stacks; no wait has it."""
    paused_ns: int = 0
    """For how long the recorder took no samples of time and no stacks of waits, since threads switched too often."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader about what this capture cannot say."""
    jumps: tuple[str, ...] = ()
    """Sentences about a clock that went back or ahead while it timed the samples."""
    unsampled: tuple[str, ...] = ()
    """Sentences about processes and threads that their recorder left alone."""
    damage: tuple[str, ...] = ()
    """Sentences about what of the recording's files is damaged or missing: answers come after them."""


@dataclass(frozen=True)
class Capture:
    """What one recording says, whatever wrote it."""

    path: str
    manifest: Manifest
    events: tuple[Event, ...]
    samples: SampleTable
    stacks: StackTable
    ranges: RangeTable
    threads: Mapping[tuple[int, int], str]
    """(pid, tid) → thread name, for threads that have samples."""
    clock: ClockSync
    losses: Losses = field(default_factory=Losses)
    activity: Activity | None = None
    """What a tracing tool recorded of CUDA, the GPU and the system; None when nothing traced it."""
    call_stacks: StackTable | None = None
    """The stacks of the activity's calls, by their column `stack`; None where these were not recorded."""
    utc_offset_ns: int | None = None
    """Added to sample times gives UTC, nanoseconds since 1970; None when the recorder noted no such pair."""
    rates: Rates | None = None
    """What memory operations cost on the machine of the run; None when nobody measured."""
    memory: MemoryLog | None = None
    """Memory over time; None when nothing recorded it."""
    host_memory: LargeMemory | None = None
    """Large memory that the program made and gave back; None when nothing recorded it."""
    torch: TorchMemory | None = None
    """What files of PyTorch say of its own memory; None where nobody gave one."""
    meetings: MeetingCalls | None = None
    """Calls in which processes meet; None when nothing recorded any."""
    marks: MarkTable = field(default_factory=MarkTable.empty)
    """NVTX marks on the samples' clock; those of a tracing tool are in `activity`."""
    wakeups: WakeupTable | None = None
    """Who woke the program's threads; None where nothing recorded it."""
    exits: ExitTable = field(default_factory=ExitTable.empty)
    """When threads of the program ended, as far as that was recorded."""
    strangers: Mapping[int, str] = field(default_factory=dict)
    """Processes outside the program that woke its threads → name of their command; empty unless all were recorded."""
    traced: Capture | None = None
    """What a tracing tool recorded of the same run, still on its own clock; `analyze` joins both."""
    inherited: frozenset[tuple[int, int]] = frozenset()
    """(pid, tid) of threads that nobody named: they are called as what started them."""
    renamed: Mapping[tuple[int, int], tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """(pid, tid) → (from when, name) in the order of time, for threads that the kernel knew by several names: a program
    that another one became."""
    kernel_chains: bool = True
    """Whether call chains go on into the kernel; False where the recorder lets them end at its entry."""

    @cached_property
    def spans(self) -> Bool:
        """Per event, whether its samples are intervals off the CPU."""
        return np.array([event.spans for event in self.events], np.bool_)

    @cached_property
    def weight_at(self) -> Int64:
        """Per event and stack node the weight of the samples that end there; the last column is of no stack."""
        samples, nodes = self.samples, len(self.stacks) + 1
        sums = np.zeros(len(self.events) * nodes, np.int64)
        for part in slices(len(samples), samples.stack, samples.event, samples.weight):
            node = samples.stack[part].astype(np.intp) % nodes
            np.add.at(sums, samples.event[part] * np.intp(nodes) + node, samples.weight[part].astype(np.int64))
        return sums.reshape(len(self.events), nodes)

    @cached_property
    def sampled_threads(self) -> Mapping[tuple[int, int], int]:
        """(pid, tid) of every thread that samples are of, ascending → how many these are."""
        samples = self.samples
        keys, count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for part in slices(len(samples), samples.pid, samples.tid):
            found, more = np.unique(pack(samples.pid[part], samples.tid[part]), return_counts=True)
            keys, of = np.unique(np.concatenate([keys, found]), return_inverse=True)
            count = np.bincount(of.reshape(-1), np.concatenate([count, more]), len(keys)).astype(np.int64)
        return dict(zip(pairs_of(keys), count.tolist(), strict=True))

    @cached_property
    def thread(self) -> Int32:
        """Per sample the number of its thread among `sampled_threads`."""
        samples = self.samples
        keys = pack(*np.array([*self.sampled_threads], np.int64).reshape(-1, 2).T)
        if len(keys) == 1:
            return uniform(0, len(samples), np.int32)
        parts = slices(len(samples), samples.pid, samples.tid)
        found = (np.searchsorted(keys, pack(samples.pid[part], samples.tid[part])) for part in parts)
        return put_together(found, len(samples), np.int32)

    def rows_of(self, pid: int, tid: int) -> Int32:
        """The samples of one thread, ascending."""
        samples = self.samples
        found = (
            np.flatnonzero((samples.pid[part] == pid) & (samples.tid[part] == tid)) + part.start
            for part in slices(len(samples), samples.pid, samples.tid)
        )
        return put_together(found, len(samples), np.int32)

    def with_damage(self, *damage: str) -> Capture:
        """The capture with more damage, each of it once."""
        whole = tuple(dict.fromkeys((*self.losses.damage, *(text for text in damage if text))))
        return replace(self, losses=replace(self.losses, damage=whole))

    def with_notes(self, *notes: str) -> Capture:
        """The capture with more notes, each of them once."""
        return replace(self, losses=replace(self.losses, notes=tuple(dict.fromkeys((*self.losses.notes, *notes)))))
