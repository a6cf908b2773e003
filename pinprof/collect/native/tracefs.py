"""Uprobes through tracefs: for each kind of functions two tracepoints, hit when one is entered and when it returns.

Probes that share a tracepoint are registered and removed together, in milliseconds; as events of the uprobe PMU each
would cost a tenth of a second to close. And a tracepoint can be inherited by children: a uprobe PMU event cannot,
since the kernel then reads the file's name at an address of the child (perf_uprobe_event_init), and fork(2) fails.

tracefs is mounted for this process alone, in a mount namespace of its own. What is defined there is the machine's all
the same, so it carries the definer's process id and its PID namespace, and what dead ones left behind is removed first.

Definitions that share a tracepoint are freed one by one, and only with the last the kernel looks whether an event still
uses them (__unregister_trace_uprobe): to remove them too early makes the kernel crash. So they stay as long as their
definer has an event open or mapped, for the next recording to remove. Where the kernel has crashed before, in whatever
part of it, no probe is set at all.
Sources: Documentation/trace/uprobetracer.rst and admin-guide/tainted-kernels.rst, kernel/trace/trace_uprobe.c.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pinprof.base.lazy_dataclass import dataclass
from pinprof.machine import small_files

ARGUMENTS = {"x86_64": ("%di", "%si", "%dx", "%cx"), "aarch64": ("%x0", "%x1", "%x2", "%x3")}
"""The registers of a function's first four integer arguments."""

ENTER, LEAVE = "enter", "leave"
_PLACE = Path("/sys/kernel/tracing")
"""Made by the kernel for it, whether it is mounted there or not: a folder of our own would outlive a killed process."""
_CLONE_NEWNS = 0x20000
_MS_REC_PRIVATE, _MNT_DETACH = 1 << 14 | 1 << 18, 2
_TAINTED = Path("/proc/sys/kernel/tainted")
_CRASHED = 1 << 7
"""TAINT_DIE: the kernel has met an oops or a BUG since it was started."""
_SELF = Path("/proc/self")
_EVENT = "anon_inode:[perf_event]"
_MOST_ELEMENTS, _ARRAYS = 64, 2
"""The most elements that the kernel reads in one array (MAX_ARRAY_LEN, kernel/trace/trace_probe.h)."""
_NOTHING = "$stack"
"""What a definition can read everywhere and says nothing: kernels before 5.4 know no numbers."""
READ_SIZES = _MOST_ELEMENTS * _ARRAYS
ARGUMENTS_END = 16 + 8 * 4
"""Where sizes begin in what is read: behind `struct uprobe_trace_entry_head` and the arguments."""
_LOCATION_BYTE = 8
"""Of CUmemAllocationProp, CUmemPoolProps and cudaMemPoolProps."""
_SETTLE_S = 0.05
"""Tasks that end while an event is closed let go of their part of it by themselves, a moment later."""
_PLAIN = re.compile(r"/[\w./+,@=~:-]{1,1000}", re.ASCII)
_GROUP = re.compile(r"^[pr]:(pinprof_(\d+)_(\d+))/(\w+) ", re.MULTILINE)


@dataclass(frozen=True)
class ProbeSite:
    """A function to probe."""

    path: str
    offset: int
    """The offset of its first instruction in the file."""
    kind: str = "other"
    """Functions of one kind share their tracepoints: a word of letters."""
    arguments: tuple[int, ...] = ()
    """Which arguments are read; what lies in the registers of others may be anything of the program's."""
    sizes: int | None = None
    """Which argument points to an array of sizes to be read: of all functions of a kind, or of none."""
    pieces: int | None = None
    """Which argument says how many these are."""
    properties: int | None = None
    """Which argument points to properties, whose location is read in its place."""


@dataclass(frozen=True)
class Tracepoints:
    """The ids of a kind's two tracepoints."""

    enter: int
    leave: int
    batched: bool = False
    """Sizes of a batch are read as well."""


def supported() -> bool:
    """Whether arguments can be fetched on this architecture."""
    return platform.machine() in ARGUMENTS


def kernel_crashed() -> bool:
    """Whether the kernel has crashed since it was started: its tracing may be broken, and break the rest of it."""
    return bool((small_files.number(_TAINTED) or 0) & _CRASHED)


def tracepoint(name: str) -> int | None:
    """The id of one of the kernel's own tracepoints, `sched/sched_waking`; None where this process may not use it."""
    if kernel_crashed():
        return None
    with contextlib.suppress(OSError, ValueError), _mounted() as root:
        return int((root / "events" / name / "id").read_text())
    return None


@contextlib.contextmanager
def probes(sites: Sequence[ProbeSite]) -> Iterator[dict[str, Tracepoints]]:
    """Define the tracepoints of each kind while the block runs; OSError when this process may not, or nothing can be
    probed. A kind of which nothing can be probed is left out.

    A site that the kernel refuses, such as a file on a filesystem without an inode for it, is left out. Every event on
    them has to be closed, by this process, before the block ends.
    """
    with _mounted() as root:
        _remove(root, abandoned(_definitions(root)))
        group = f"pinprof_{_pid_namespace()}_{os.getpid()}"
        try:
            with _spelled({site.path for site in sites}) as path:
                yield _defined(root, group, [(site, path[site.path]) for site in sites if site.path in path])
        finally:
            if not events_held():
                time.sleep(_SETTLE_S)
                _remove(root, [group])


def abandoned(definitions: str) -> set[str]:
    """The groups in `uprobe_events` whose definers have ended; a definer of another PID namespace counts as alive."""
    mine = _pid_namespace()
    return {
        match[1]
        for match in _GROUP.finditer(definitions)
        if int(match[2]) == mine and not Path(f"/proc/{match[3]}").exists()
    }


def events_held() -> bool:
    """Whether this process has a perf event open or mapped."""
    for file in (_SELF / "fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            if str(file.readlink()) == _EVENT:
                return True
    return _EVENT in (_SELF / "maps").read_text("utf-8", "replace")


def _pid_namespace() -> int:
    return (_SELF / "ns/pid").stat().st_ino


@contextlib.contextmanager
def _mounted() -> Iterator[Path]:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> None:
        if result:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    must(libc.unshare(_CLONE_NEWNS))
    must(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC_PRIVATE), None))
    # What is mounted there may be read-only, and cannot be covered by itself; only this namespace loses it.
    libc.umount2(os.fsencode(_PLACE), _MNT_DETACH)
    must(libc.mount(b"none", os.fsencode(_PLACE), b"tracefs", ctypes.c_ulong(0), None))
    try:
        yield _PLACE
    finally:
        libc.umount2(os.fsencode(_PLACE), _MNT_DETACH)


@contextlib.contextmanager
def _spelled(paths: Iterable[str]) -> Iterator[dict[str, str]]:
    """Each file as a definition can name it. The kernel splits definitions at blanks, ends them at `#` and newlines:
    a path that holds such, which may be somebody's on purpose, is named by an open file instead.
    """
    with contextlib.ExitStack() as opened:
        names = {}
        for path in paths:
            if _PLAIN.fullmatch(path):
                names[path] = path
                continue
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, file)
                names[path] = f"/proc/self/fd/{file}"
        yield names


def _defined(root: Path, group: str, sites: Sequence[tuple[ProbeSite, str]]) -> dict[str, Tracepoints]:
    """Define the tracepoints of sites whose files are spelled so; the last error when of no kind anything was taken."""
    made: dict[str, Tracepoints] = {}
    refusal = None
    for kind in dict.fromkeys(site.kind for site, _ in sites):
        mine = [(site, f"{path}:{site.offset:#x}") for site, path in sites if site.kind == kind]
        names = [f"{kind}_{when}" for when in (ENTER, LEAVE)]
        try:
            _define(root, [f"p:{group}/{names[0]} {place} {fetched(site)}" for site, place in mine])
            _define(root, [f"r:{group}/{names[1]} {place} value=$retval:u64" for _, place in mine])
            enter, leave = (int((root / "events" / group / name / "id").read_text()) for name in names)
            made[kind] = Tracepoints(enter, leave, batched=any(site.sizes is not None for site, _ in mine))
        except OSError as error:
            refusal = error
    if refusal is not None and not made:
        raise refusal
    return made


def fetched(site: ProbeSite) -> str:
    """What is read when a function is entered, as a definition says it.

    An array of fewer sizes than are read (gpu_functions.READ_PIECES) is read beyond its end, so how many there are is
    read as well: what lies beyond reaches no file (batches.py). Where an argument is not read, the stack pointer
    stands. This module has what it needs in itself, since the collector is started while the program waits.
    """
    registers = ARGUMENTS[platform.machine()]
    places = {n: registers[n] for n in site.arguments}
    if site.properties is not None:
        places[site.properties] = f"+{_LOCATION_BYTE}({registers[site.properties]})"
    words = [f"a{n}={places.get(n, _NOTHING)}:u64" for n in range(len(registers))]
    if site.sizes is not None and site.pieces is not None:
        register = registers[site.sizes]
        words += [f"s{part}=+{8 * _MOST_ELEMENTS * part}({register}):u64[{_MOST_ELEMENTS}]" for part in range(_ARRAYS)]
        words.append(f"pieces={registers[site.pieces]}:u64")
    return " ".join(words)


def _define(root: Path, lines: Iterable[str]) -> None:
    """Write definitions one by one; the last error when not one was taken."""
    file = os.open(root / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    taken, refusal = 0, None
    try:
        for line in lines:
            try:
                os.write(file, os.fsencode(line) + b"\n")
                taken += 1
            except OSError as error:
                refusal = error
    finally:
        os.close(file)
    if refusal is not None and not taken:
        raise refusal


def _definitions(root: Path) -> str:
    return (root / "uprobe_events").read_text("utf-8", "replace")


def _remove(root: Path, groups: Iterable[str]) -> None:
    """Remove what these groups define; what is still in use stays until its next finder removes it."""
    wanted = set(groups)
    found = {(match[1], match[4]) for match in _GROUP.finditer(_definitions(root))}
    for group, name in sorted(found):
        if group not in wanted:
            continue
        with contextlib.suppress(OSError):
            file = os.open(root / "uprobe_events", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, f"-:{group}/{name}\n".encode())
            finally:
                os.close(file)
