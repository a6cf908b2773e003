"""How much memory a scenario may take, and the error when it wants more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pinprof.base.errors import ScenarioError
from pinprof.base.units import format_bytes, format_share

USABLE = 0.9
"""Share of the free memory that a scenario may take: the rest is for page tables, Python and everybody else."""


def require(what: str, needed_bytes: int, free_bytes: int) -> None:
    """ScenarioError with the figures unless `needed_bytes` fit into the usable share of `free_bytes`."""
    if needed_bytes > USABLE * free_bytes:
        raise ScenarioError(
            f"This needs {format_bytes(needed_bytes)} of {what}, and {format_bytes(free_bytes)} are free, of which a "
            f"scenario may use {format_share(USABLE, 1)}.",
            "Give a smaller --size.",
            "size",
        )


def free_host_bytes(root: Path = Path("/")) -> int:
    """MemAvailable, or what the control group leaves if that is less; `root` is where proc and sys are mounted."""
    meminfo = (root / "proc/meminfo").read_text("ascii")
    (available,) = (int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return min([available, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """What each control group above this process leaves, reclaimable file pages counted as free.

    cgroup v2: Documentation/admin-guide/cgroup-v2.rst, `memory.max`; v1: cgroup-v1/memory.rst. Inside a container the
    path can name a directory of the host that is not visible: then the mount's own root is the container's group.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            base, limit, usage = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, usage = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in {base, *(base / part for part in (inside, *inside.parents))}:
            try:
                maximum = int((group / limit).read_text("ascii"))
                used = int((group / usage).read_text("ascii"))
                stat = dict(entry.split() for entry in (group / "memory.stat").read_text("ascii").splitlines())
            except (OSError, ValueError):
                # No such group, or the limit is `max`.
                continue
            yield max(0, maximum - used + int(stat.get("inactive_file", 0)))
