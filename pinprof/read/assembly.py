"""What the readers of other tools' formats share: interning stacks and filling in the columns a format lacks.

Text and JSON formats name functions rather than addresses, often without saying which object or which side of the
kernel boundary a function lies on. The rules that stand in for what is missing are here, in one place.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain

import numpy as np

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import (
    KERNEL,
    LONGEST_NAME,
    NO_NODE,
    USER,
    Capture,
    ClockSync,
    Dso,
    Event,
    FrameTable,
    Int32,
    Int64,
    Losses,
    RangeTable,
    SampleTable,
    StackTable,
    UInt64,
    Unit,
)
from pinprof.read.interning import Interner
from pinprof.streams.store import new_manifest

MAX_DEPTH = 4096
"""Frames of one stack that are kept, counted from the leaf; the kernel's own limit for callchains is 127 by default."""

MAX_WEIGHT = 2**63 - 1

UNRECORDED = Dso("[not recorded]", "", "file")
"""The DSO of a user function whose file the format does not name."""

UNKNOWN = Dso("[unknown]", "", "anon")
KERNEL_IMAGE = Dso("[kernel.kallsyms]", "", "kernel")
NVIDIA, NVIDIA_UVM = Dso("[nvidia]", "", "module"), Dso("[nvidia_uvm]", "", "module")

NO_CLOCK = ClockSync("none", 0, 0)
"""The clock of formats whose samples have no times."""

_KERNEL_IMAGES = re.compile(
    r"(\[?(guest\.)?kernel(\.kallsyms|\.vmlinux|\.kcore)?(\.\d+)?\]?|\[?(kernel_image|k|vmlinux)\]?)(\.[a-z]\w*(\.\w+)*|_\w+)?"
    r"|(.*/)?vmlinu[xz]([-.][^/]*)?|/proc/kcore|(.*/)?\[kernel\.kallsyms\](/[0-9a-f]+(/\w+)?)?"
)
"""What perf calls the kernel's image: by itself or with a section of it (`[kernel.kallsyms].init.text`), and by the
file that its symbols come from.
"""
_NOT_CODE = re.compile(r"\[?(unknown|anon(:.*)?|heap|stack|not recorded|no callchain)?\]?|//anon|inlined")
_BRACKETED_USER = ("[vdso]", "[vsyscall]", "[vvar]", "[uprobes]")
_MODULE = re.compile(r"\[[\w-]+\]|.*\.ko(\.\w+)?")
_JIT = re.compile(r"(.*/)?(perf-\d+\.map|jitted-\d+-\d+\.so)|.*\.jit|\[jit\]")

# The open NVIDIA modules (driver 515 to 610): resource-manager functions are in camel case, which Linux uses hardly
# anywhere; the interface layer has fixed prefixes; libuvm's functions mostly begin with uvm_. Against the kallsyms of
# an H200 machine (580.159.04): 1 of 69,000 functions of Linux is taken for NVIDIA's, 95 % of [nvidia] and 69 % of
# [nvidia_uvm] are found.
_CLONE = re.compile(r"(\.(isra|part|constprop|cold|llvm|lto_priv)(\.\d+)*)+$")
_NVIDIA_UVM = re.compile(
    r"_*uvm_\w+|service_fault_batch\w*|replayable_faults_isr\w*|"
    r"block_(gpu|cpu|phys|migrate|copy|map|unmap|populate|put_ptes|alloc_ptes|resident|page_get|mark_cpu|get_page)\w*"
)
_NVIDIA = re.compile(
    r"_nv\d{4,6}rm|_*nvoc_\w+|_?nv(os)?_\w+|(nvidia|nvswitch|nvlink|nvkms|rm)_\w+|"
    r"os_(un)?(lock|alloc|map|get|release|acquire|mem|delay|schedule|flush|free|read|io|queue|is|call)\w*|"
    r"_*([a-z]+\d*|[A-Z][a-z]+\d*|\w*[a-z0-9])[A-Z]\w*"
)
_NOT_NVIDIA = re.compile(
    r"(ZSTD|HUF|FSE|BIT|ERR|HIST|XXH|LZ4|HUFv07|mpi|__SCT)_?\w*|\w*(ZSTD|HUF)_\w*|zlib_\w+|\w*82[35][79]A\w*|"
    r"acpi_ex_opcode\w*|nvidia_(hpet|force|bugs|ion)\w*|nv_msi_ht\w*|rm_(map_entry|sib)\w*|Decode\w+|PageHuge|quirk_\w+"
)

_KERNEL_ENTRY = re.compile(
    r"entry_SYSCALL\w*|do_syscall_64|entry_INT80\w*|asm_(exc|sysvec|common|fred)_\w+|ret_from_fork(_asm)?|"
    r"el[01]t?_(64|32)?_?(sync|svc|irq|da|ia|fiq|error)\w*|vectors|error_entry|page_fault|system_call_fastpath|"
    r"(common|secondary)_startup_64(_no_verify)?|(x86_64_)?start_(secondary|kernel|reservations)|rest_init|"
    r"__secondary_switched|secondary_start_kernel|(asm_)?cpu_bringup_and_idle|cpu_startup_entry|do_idle"
)
"""Functions through which Linux (x86-64, arm64) is entered, or with which a processor begins: all that they call runs
in the kernel."""


def dso_of(path: str, build_id: str = "") -> tuple[Dso, int]:
    """The DSO that a tool calls `path`, and the mode of its code; unknown and anonymous memory included."""
    if _KERNEL_IMAGES.fullmatch(path):
        return (KERNEL_IMAGE if not build_id else Dso(KERNEL_IMAGE.path, build_id, "kernel")), KERNEL
    if path == UNRECORDED.path:
        return UNRECORDED, USER
    if _NOT_CODE.fullmatch(path):
        return (UNKNOWN if path in ("", "unknown") else Dso(path, build_id, "anon")), USER
    if path in _BRACKETED_USER:
        return Dso(path, build_id, "vdso"), USER
    if _JIT.fullmatch(path):
        return Dso(path, build_id, "jit"), USER
    if _MODULE.fullmatch(path):
        return Dso(path, build_id, "module"), KERNEL
    return Dso(path, build_id, "file"), USER


def kernel_dso(symbol: str) -> Dso:
    """Where a kernel function lies, judged by its name alone: the image, `[nvidia]` or `[nvidia_uvm]`."""
    if len(symbol) > LONGEST_NAME:
        return KERNEL_IMAGE
    name = _CLONE.sub("", symbol)
    if _NVIDIA_UVM.fullmatch(name):
        return NVIDIA_UVM
    if _NVIDIA.fullmatch(name) and not _NOT_NVIDIA.fullmatch(name):
        return NVIDIA
    return KERNEL_IMAGE


def is_kernel_entry(symbol: str) -> bool:
    """Whether everything that a function calls runs in the kernel."""
    return _KERNEL_ENTRY.fullmatch(symbol) is not None


def unit_of(name: str, unit: str) -> tuple[Unit, int]:
    """The model's unit for another tool's, and by how much a value must be multiplied to count in it.

    Counts are faults when the event is named for them, samples otherwise: instructions, cycles, objects, hits.
    """
    # Of the two letters for a millionth, NFKC leaves one.
    unit = unicodedata.normalize("NFKC", unit)
    time = {"nanoseconds": 1, "ns": 1, "microseconds": 10**3, "us": 10**3, "\u03bcs": 10**3, "milliseconds": 10**6}
    time |= {"ms": 10**6, "seconds": 10**9, "s": 10**9}
    if unit in time:
        return "ns", time[unit]
    space = {"bytes": 1, "kilobytes": 1024, "kb": 1024, "megabytes": 1 << 20, "mb": 1 << 20}
    if unit.lower() in space:
        return "bytes", space[unit.lower()]
    return ("faults" if "fault" in name.lower() else "samples"), 1


_PROCESSORS = re.compile(r"cpu|clock|cycles|itimer|ticks", re.IGNORECASE)
_NOT_PROCESSORS = re.compile(
    r"off[-_ ]?cpu|wall|real|wait|delay|block|mutex|contention|latency|idle|recorder", re.IGNORECASE
)


def is_elsewhere(name: str) -> bool:
    """Whether a tool's name for a time does not say that it is time on processors."""
    return _PROCESSORS.search(name) is None or _NOT_PROCESSORS.search(name) is not None


def summable(weight: Int64) -> tuple[Int64, tuple[str, ...]]:
    """Weights whose sum fits 64 bits, and what to say where some had to be cut for it: damage, or a forgery."""
    if float(weight.sum(dtype=np.float64)) < MAX_WEIGHT / 2:
        return weight, ()
    note = "Some sample weights are impossibly large. The file is damaged, and its sums are unreliable."
    return np.minimum(weight, MAX_WEIGHT // 2 // len(weight)), (note,)


def check_sum(path: str, total: int, slug: str) -> None:
    """FormatError where the weights of a file sum to more than 64 bits hold."""
    if total > MAX_WEIGHT:
        raise FormatError(
            path,
            expected="weights that sum to less than 2^63",
            found="more",
            remedy="Check what wrote the file.",
            slug=slug,
        )


class StackBuilder:
    """Frames and prefix tree of a capture, grown a batch of chains at a time."""

    def __init__(self) -> None:
        self._dsos: dict[Dso, int] = {}
        self._frames: dict[tuple[str, int, int, str, int, bool], int] = {}
        self._nodes = Interner()
        self._children: dict[tuple[int, int], int] = {}
        self.cut_chains = 0
        """Chains longer than MAX_DEPTH, whose outermost frames were cut off."""

    def frame(
        self, function: str, dso: Dso, mode: int, source: str = "", line: int = 0, *, inlined: bool = False
    ) -> int:
        """The number of a frame, made where new; all as in `FrameTable`."""
        key = (function, self._dsos.setdefault(dso, len(self._dsos)), mode, source, line, inlined)
        return self._frames.setdefault(key, len(self._frames))

    def stacks(self, chains: Sequence[Sequence[int]]) -> Int32:
        """Per chain of frame numbers, root first, its innermost node; NO_NODE for an empty chain."""
        if any(len(frames) > MAX_DEPTH for frames in chains):
            self.cut_chains += sum(len(frames) > MAX_DEPTH for frames in chains)
            chains = [frames[-MAX_DEPTH:] for frames in chains]
        length = np.fromiter(map(len, chains), np.int64, len(chains))
        flat = np.fromiter(chain.from_iterable(chains), np.uint64, int(length.sum()))
        start = np.cumsum(length) - length
        longest_first = np.argsort(-length, kind="stable")
        deeper = np.cumsum(np.bincount(length, minlength=1)[::-1])[::-1]
        node = np.full(len(chains), NO_NODE, np.int32)
        for level in range(int(length.max(initial=0))):
            rows = longest_first[: deeper[level + 1]]
            node[rows] = self.children(node[rows], flat[start[rows] + level])
        return node

    def children(self, parents: Int32, frames: UInt64) -> Int32:
        """The node below each parent for each frame, made where new; all arrays of one length."""
        return self._nodes.ids(((parents + 1).astype(np.uint64) << np.uint64(32)) | frames)

    def child(self, parent: int, frame: int) -> int:
        """One node below a parent (NO_NODE for a root), made where new; for stacks that come a call at a time."""
        key = (parent, frame)
        if key not in self._children:
            node = self.children(np.array([parent], np.int32), np.array([frame], np.uint64))
            self._children[key] = int(node[0])
        return self._children[key]

    def table(self) -> StackTable:
        """The tree as it stands."""
        keys = self._nodes.keys
        rows = list(self._frames)
        return StackTable(
            parent=(keys >> np.uint64(32)).astype(np.int64).astype(np.int32) - np.int32(1),
            frame=(keys & np.uint64(0xFFFFFFFF)).astype(np.int32),
            frames=FrameTable(
                function=tuple(row[0] for row in rows),
                dso=np.array([row[1] for row in rows], np.int32),
                mode=np.array([row[2] for row in rows], np.uint8),
                dsos=tuple(self._dsos),
                source=tuple(row[3] for row in rows) if any(row[3] for row in rows) else (),
                inlined=frozenset(number for number, row in enumerate(rows) if row[5]),
                line=tuple(row[4] for row in rows) if any(row[4] for row in rows) else (),
            ),
        )


@dataclass
class SampleColumns:
    """Samples being collected, packed; only `stack`, `weight` and `event` must be filled."""

    stack: array[int] = field(default_factory=lambda: array("i"))
    weight: array[int] = field(default_factory=lambda: array("q"))
    event: array[int] = field(default_factory=lambda: array("h"))
    tid: array[int] = field(default_factory=lambda: array("i"))
    pid: array[int] = field(default_factory=lambda: array("i"))
    time_ns: array[int] = field(default_factory=lambda: array("q"))
    cpu: array[int] = field(default_factory=lambda: array("i"))
    ip: array[int] = field(default_factory=lambda: array("Q"))
    address: array[int] = field(default_factory=lambda: array("Q"))
    mapped: array[int] = field(default_factory=lambda: array("B"))

    def table(self) -> SampleTable:
        """The samples ordered by time (as they come where there is none); missing columns are 0, the CPU -1."""
        columns = {name: values for name, values in vars(self).items() if values}
        samples = SampleTable.of(len(self.stack), **({"cpu": -1} | columns))
        return samples.take(np.argsort(samples.time_ns, kind="stable"))


def aggregated(stack: Int32, weight: Int64) -> SampleTable:
    """One sample of event 0 without a time per distinct stack."""
    return SampleTable.of(len(stack), cpu=-1, weight=weight, stack=stack)


def foreign_capture(
    path: str,
    reader: str,
    events: Iterable[Event],
    samples: SampleTable,
    stacks: StackTable,
    *,
    threads: Mapping[tuple[int, int], str] | None = None,
    clock: ClockSync = NO_CLOCK,
    ranges: RangeTable | None = None,
    losses: Losses | None = None,
) -> Capture:
    """A capture that another tool wrote: nothing is known of the machine, and nothing beyond the profile is taken."""
    return Capture(
        path=path,
        manifest=new_manifest(collectors=({"name": reader},), outcome={"state": "complete"}),
        events=tuple(events),
        samples=samples,
        stacks=stacks,
        ranges=RangeTable.empty() if ranges is None else ranges,
        threads=threads or {},
        clock=clock,
        losses=losses or Losses(),
    )
