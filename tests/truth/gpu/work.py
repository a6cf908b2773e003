"""The GPU's work that a recording holds: copies by direction and kinds of memory, kernels, migrations.

nsys's export is read with SQL, not by pinprof's reader: it is what that reader is compared with.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pinprof.data.activity import UNRECORDED, Activity, CopyKind, MemoryKind, OpKind

_MIGRATIONS = {
    CopyKind.UVM_HOST_TO_DEVICE: "to the GPU",
    CopyKind.UVM_DEVICE_TO_HOST: "to the host",
    CopyKind.UVM_DEVICE_TO_DEVICE: "between GPUs",
}
_COPIES = "SELECT copyKind, srcKind, dstKind, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY"
_KERNELS = 'SELECT count(*), coalesce(sum("end" - start), 0) FROM CUPTI_ACTIVITY_KIND_KERNEL'


@dataclass(frozen=True)
class Work:
    """Sums of one recording."""

    copies: dict[str, tuple[int, int]] = field(default_factory=dict)
    """`host to device, pinned to device` → (how many, bytes)."""
    kernels: int = 0
    kernel_ns: int = 0
    migrations: dict[str, int] = field(default_factory=dict)
    """`to the GPU` → bytes."""


def of_activity(activity: Activity | None) -> Work:
    """What pinprof recorded."""
    if activity is None:
        return Work()
    operations = activity.gpu_ops
    moved = operations.take((operations.kind == OpKind.COPY) | (operations.kind == OpKind.MIGRATION))
    kernels = operations.take(operations.kind == OpKind.KERNEL)
    columns = (moved.copy_kind, moved.src_kind, moved.dst_kind, moved.size_bytes)
    copies, migrations = _sums(zip(*(column.tolist() for column in columns), strict=True))
    return Work(copies, len(kernels), int((kernels.end_ns - kernels.start_ns).sum()), migrations)


def of_export(path: Path) -> Work:
    """What nsys recorded: a SQLite export. A table that it lacks means none of that work."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
        there = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = base.execute(_COPIES).fetchall() if "CUPTI_ACTIVITY_KIND_MEMCPY" in there else []
        kernels, kernel_ns = base.execute(_KERNELS).fetchone() if "CUPTI_ACTIVITY_KIND_KERNEL" in there else (0, 0)
    copies, migrations = _sums(rows)
    return Work(copies, kernels, kernel_ns, migrations)


def _sums(rows: Iterable[tuple[int, int, int, int]]) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    copies: dict[str, tuple[int, int]] = {}
    migrations: dict[str, int] = defaultdict(int)
    for kind, source, target, size in rows:
        if kind in _MIGRATIONS:
            migrations[_MIGRATIONS[CopyKind(kind)]] += size
            continue
        count, total = copies.get(way := _way(kind, source, target), (0, 0))
        copies[way] = count + 1, total + size
    return copies, dict(migrations)


def _way(kind: int, source: int, target: int) -> str:
    direction = CopyKind(kind).name.lower().replace("_", " ") if kind in set(CopyKind) else f"kind {kind}"
    ends = [MemoryKind(end).words if end in set(MemoryKind) and end != UNRECORDED else "?" for end in (source, target)]
    return f"{direction}, {' to '.join(ends)}"
