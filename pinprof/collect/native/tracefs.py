"""Uprobes through tracefs: two tracepoints, one hit when any of the probed functions is entered, one when it returns.

Probes that share a tracepoint are registered and removed together, in milliseconds; as events of the uprobe PMU each
would cost a tenth of a second to close. And a tracepoint can be inherited by children: a uprobe PMU event cannot,
since the kernel then reads the file's name at an address of the child (perf_uprobe_event_init), and fork(2) fails.

tracefs is mounted for this process alone, in a mount namespace of its own. What is defined there is the machine's all
the same, so it carries the definer's process id, and what dead ones left behind is removed first.
Source: Documentation/trace/uprobetracer.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ARGUMENTS = {"x86_64": ("%di", "%si", "%dx", "%cx"), "aarch64": ("%x0", "%x1", "%x2", "%x3")}
"""The registers of a function's first four integer arguments."""

ENTER, LEAVE = "enter", "leave"
_PLACE = Path("/sys/kernel/tracing")
"""Made by the kernel for it, whether it is mounted there or not: a folder of our own would outlive a killed process."""
_CLONE_NEWNS = 0x20000
_MS_REC_PRIVATE, _MNT_DETACH = 1 << 14 | 1 << 18, 2
_PLAIN = re.compile(r"/[\w./+,@=~:-]{1,1000}", re.ASCII)
_GROUP = re.compile(r"^[pr]:(pinprof_(\d+))/(\w+) ", re.MULTILINE)


@dataclass(frozen=True)
class Site:
    """A function to probe."""

    path: str
    offset: int
    """The offset of its first instruction in the file."""


@dataclass(frozen=True)
class Tracepoints:
    """The ids of the two tracepoints."""

    enter: int
    leave: int


def supported() -> bool:
    """Whether arguments can be fetched on this architecture."""
    return platform.machine() in ARGUMENTS


@contextlib.contextmanager
def probes(sites: Sequence[Site]) -> Iterator[Tracepoints]:
    """Define both tracepoints while the block runs; OSError when this process may not, or nothing can be probed.

    A site that the kernel refuses, such as a file on a filesystem without an inode for it, is left out.
    """
    with _mounted() as root:
        _remove(root, (group for group, pid, _ in _defined(root) if not Path(f"/proc/{pid}").exists()))
        group = f"pinprof_{os.getpid()}"
        try:
            fetched = " ".join(f"a{n}={register}:u64" for n, register in enumerate(ARGUMENTS[platform.machine()]))
            with _spelled({site.path for site in sites}) as path:
                for kind, name, arguments in (("p", ENTER, fetched), ("r", LEAVE, "value=$retval:u64")):
                    places = [f"{path[site.path]}:{site.offset:#x}" for site in sites if site.path in path]
                    _define(root, [f"{kind}:{group}/{name} {place} {arguments}" for place in places])
            ids = [int((root / "events" / group / name / "id").read_text()) for name in (ENTER, LEAVE)]
            yield Tracepoints(*ids)
        finally:
            _remove(root, [group])


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


def _defined(root: Path) -> list[tuple[str, int, str]]:
    """(group, process id, tracepoint) of every definition of pinprof's."""
    text = (root / "uprobe_events").read_text("utf-8", "replace")
    return [(match[1], int(match[2]), match[3]) for match in _GROUP.finditer(text)]


def _remove(root: Path, groups: Iterable[str]) -> None:
    """Remove what these groups define; what is still in use stays until its next finder removes it."""
    wanted = set(groups)
    for group, name in {(group, name) for group, _, name in _defined(root) if group in wanted}:
        with contextlib.suppress(OSError):
            file = os.open(root / "uprobe_events", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, f"-:{group}/{name}\n".encode())
            finally:
                os.close(file)
