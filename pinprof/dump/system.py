"""What /proc says of threads and processes: state, system call, where in the kernel, memory. It stops no thread.

Sources: proc(5); fs/proc/base.c (proc_pid_syscall, proc_pid_wchan, proc_pid_stack) for who may read what.
"""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.proc import contents
from pinprof.data.system_calls import kernel_functions
from pinprof.dump.results import MemoryNow

RUNNING, STOPPED, ENDED = "R", "Tt", "ZX"
"""Letters of states."""
_STATUS = {
    "rss": "VmRSS", "anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem", "swap": "VmSwap",
    "locked": "VmLck", "pinned": "VmPin",
}  # fmt: skip
_SIZE = re.compile(rb"^(\w+):\s*(\d+) kB$", re.MULTILINE)
_SWITCHES = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)
_KERNEL_FRAME = re.compile(r"\[<[0-9a-f]+>\] ([^\s+]+)\+0x\S+(?: \[(\w+)\])?")
_MAPPING = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+ *([^\n]*)$", re.MULTILINE)
INFERRED = "kernel, inferred"
_TAKES_MMAP_LOCK = re.compile(
    r"(__)?vm_(mmap_pgoff|munmap)|__mm_populate|do_mprotect_pkey|(__do_sys_|__se_sys_|__(x64|arm64)_sys_)(brk|mremap)|do_mremap"
    r"|(do_)?madvise(_lock|_walk_vmas)?|lock_mm_and_find_vma|do_user_addr_fault|(__)?do_page_fault|do_mlock"
    r"|dup_mmap|mmap_read_lock_maybe_expand|gup_fast_fallback|__gup_longterm_locked|internal_get_user_pages_fast"
    r"|pin_user_pages_\w+|get_user_pages_\w+|os_lock_user_pages|exit_mmap"
)
"""Functions that sleep for the lock of the address space alone (Linux 6.1 to 6.18: mm/, fault.c; os-mlock.c)."""
_MANAGED = "/dev/nvidia-uvm"
_RUNS = "running"


@dataclass(frozen=True)
class ThreadLook:
    """A thread at one moment."""

    tid: int
    name: str
    state: str
    """One letter."""
    call: tuple[int, ...]
    """Number of its system call (-1 in none), six arguments, stack pointer and instruction; empty where it runs, and
    where that may not be read."""
    cpu_ns: int
    queued_ns: int
    faults: int
    major_faults: int
    switches: int
    """How often it went to sleep."""

    @property
    def kernel_function(self) -> str:
        """The kernel's function for its system call; empty in none."""
        return _functions().get(self.call[0], "") if self.call else ""

    @property
    def system_call(self) -> str:
        """Its name; empty in none."""
        return self.kernel_function.partition("_sys_")[2]

    def stands_as(self, other: ThreadLook) -> bool:
        """Whether it has not run since another look, nor does now."""
        return bool(self.call) and self.call == other.call and self.switches == other.switches


@dataclass(frozen=True)
class MappedPlace:
    """One mapping of a process."""

    start: int
    end: int
    offset: int
    code: bool
    shared: bool
    path: str


def look(pid: int, tid: int) -> ThreadLook | None:
    """A thread; None where it is gone."""
    place = f"/proc/{pid}/task/{tid}/"
    head, _, rest = contents(place + "stat").rpartition(b")")
    fields = rest.split()
    if len(fields) < 13:
        return None
    call = contents(place + "syscall").decode("ascii", "replace").split()
    queue = [int(field) for field in contents(place + "schedstat").split()]
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    switches = _SWITCHES.search(contents(place + "status"))
    return ThreadLook(
        tid=tid,
        name=head.partition(b"(")[2].decode("utf-8", "replace"),
        state=fields[0].decode("ascii", "replace"),
        call=tuple(int(field, 0) for field in call) if call and call[0] != _RUNS else (),
        cpu_ns=queue[0] if queue else (int(fields[11]) + int(fields[12])) * tick,
        queued_ns=queue[1] if queue else 0,
        faults=int(fields[7]),
        major_faults=int(fields[9]),
        switches=int(switches[1]) if switches else 0,
    )


def wchan(pid: int, tid: int) -> str:
    """The function of the kernel that a thread sleeps in; empty where it runs or that may not be read."""
    name = contents(f"/proc/{pid}/task/{tid}/wchan").decode("ascii", "replace").strip()
    return "" if name == "0" else name


def kernel_stack(pid: int, tid: int, sleeps_in: str) -> list[tuple[str, str]]:
    """(function, module) of a sleeping thread's frames in the kernel, innermost first; OSError where it is denied.

    `sleeps_in`: as `wchan` says it. The kernel leaves out its functions of locks. Where those take the lock of the
    address space and do not sleep otherwise, the one that waits for it is put in, of the module INFERRED.
    """
    text = Path(f"/proc/{pid}/task/{tid}/stack").read_text("ascii", "replace")
    frames = [(match[1], match[2] or "") for match in _KERNEL_FRAME.finditer(text)]
    return with_lock(frames) if frames and frames[0][0] == sleeps_in else frames


def with_lock(frames: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The frames of a thread that sleeps in the first one, with the function that waits for mmap_lock if it does so."""
    waits = frames and _TAKES_MMAP_LOCK.fullmatch(frames[0][0])
    return [("rwsem_down_read_slowpath", INFERRED), *frames] if waits else frames


def mapped(pid: int) -> list[MappedPlace]:
    """What a process has mapped, ascending; nothing where it may not be read."""
    return [
        MappedPlace(
            int(start, 16), int(end, 16), int(offset, 16), rights[2:3] == b"x", rights[3:] == b"s",
            path.decode("utf-8", "replace"),
        )
        for start, end, rights, offset, path in _MAPPING.findall(contents(f"/proc/{pid}/maps"))
    ]  # fmt: skip


def memory(pid: int, places: list[MappedPlace], cuda_pinned: int | None) -> MemoryNow:
    """What a process holds; `cuda_pinned`: as `MemoryNow` has it."""
    said = {name.decode(): int(size) << 10 for name, size in _SIZE.findall(contents(f"/proc/{pid}/status"))}
    managed = sum(place.end - place.start for place in places if place.path == _MANAGED)
    return MemoryNow(
        **{name: said.get(field) for name, field in _STATUS.items()},
        cuda_pinned=cuda_pinned,
        managed=managed if places else None,
    )


def file_of(pid: int, descriptor: int) -> str:
    """What a descriptor of a process is of: a path, `pipe:[…]`, `socket:[…]`; empty where that may not be read."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - plain strings cost least
    except OSError:
        return ""


@cache
def _functions() -> dict[int, str]:
    return kernel_functions(platform.machine())
