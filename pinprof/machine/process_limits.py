"""How many processes this one's container and user may still start: few are left to the recorded program."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from pinprof.machine.small_files import number

LEFT_TO_THE_PROGRAM = 16
"""Processes and threads: where fewer can be started, pinprof starts none."""
_COUNTED_BELOW = 256
"""A limit for a user's processes above this is no reason to count them."""


def few_left() -> int | None:
    """How many more can be started, where these are so few that the program may need them; None for enough."""
    left = min(_left(), default=LEFT_TO_THE_PROGRAM)
    return max(left, 0) if left < LEFT_TO_THE_PROGRAM else None


def _left() -> Iterator[int]:
    """How many more the groups of this process may have, and its user where that is few."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        root = Path("/sys/fs/cgroup", controllers)
        place = root / path.lstrip("/")
        for group in (place, *place.parents):
            most, now = number(group / "pids.max"), number(group / "pids.current")
            if most is not None and now is not None:
                yield most - now
            if group == root:
                break
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
