"""What little this process may still have: processes, of which few are left to the recorded program, and memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from pinprof.base.errors import PinprofError
from pinprof.base.units import format_bytes
from pinprof.machine.small_files import number, text

LEFT_TO_THE_PROGRAM = 16
"""Processes and threads: where fewer can be started, pinprof starts none."""
_NUMPY_BYTES, _THREAD_BYTES = 96 << 20, 16 << 20
"""What numpy needs of address space, and OpenBLAS more for each processor: a stack and buffers."""
_COUNTED_BELOW = 256
"""A limit for a user's processes above this is no reason to count them."""


def few_left() -> int | None:
    """How many more can be started, where these are so few that the program may need them; None for enough."""
    left = min(_left(), default=LEFT_TO_THE_PROGRAM)
    return max(left, 0) if left < LEFT_TO_THE_PROGRAM else None


def require_memory() -> None:
    """PinprofError where this process has not enough address space for numpy, whose OpenBLAS ends it then."""
    most = min((soft for soft in map(_soft, (resource.RLIMIT_AS, resource.RLIMIT_DATA)) if soft >= 0), default=None)
    if most is not None and most < _NUMPY_BYTES + _THREAD_BYTES * len(os.sched_getaffinity(0)):
        raise PinprofError(
            f"This process may have only {format_bytes(most)}.", "Raise the limit (`ulimit -v`).", "memory"
        )


def control_groups(controller: str) -> Iterator[Path]:
    """The folders of the groups around this process in which a controller may have limits (cgroups(7), v1 and v2)."""
    for line in (text(Path("/proc/self/cgroup")) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup", controller if controllers else "")
        group = root / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))


def _soft(limit: int) -> int:
    """The limit, -1 for none."""
    return resource.getrlimit(limit)[0]


def _left() -> Iterator[int]:
    """How many more the groups of this process may have, and its user where that is few."""
    for group in control_groups("pids"):
        most, now = number(group / "pids.max"), number(group / "pids.current")
        if most is not None and now is not None:
            yield most - now
    soft, user = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.getuid()
    if user and 0 <= soft < _COUNTED_BELOW:
        yield soft - sum(map(_threads, _processes_of(user)))


def _processes_of(user: int) -> Iterator[Path]:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                yield entry
        except OSError:
            continue


def _threads(process: Path) -> int:
    try:
        return len(list((process / "task").iterdir()))
    except OSError:
        return 0
