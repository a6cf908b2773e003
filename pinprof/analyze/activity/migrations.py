"""Migrations of managed memory: what moved, which way, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from pinprof.activity import GpuOpTable, MigrationCause, OpKind
from pinprof.analyze.activity.results import Cause, MigrationResult, Spread
from pinprof.analyze.activity.transfers import DIRECTION, DIRECTIONS, DeviceSets
from pinprof.analyze.groups import group
from pinprof.analyze.ranges.membership import Events, Scopes
from pinprof.columns import Bool, Int32, Int64, Table, UInt64

H2D, D2H = DIRECTIONS.index("H2D"), DIRECTIONS.index("D2H")

_CAUSES = {cause.value: cast("Cause", cause.words) for cause in MigrationCause}


def cause_name(cause: int) -> Cause:
    """The word for a `MigrationCause`; `unknown` for those without one."""
    return _CAUSES.get(cause, "unknown")


@dataclass(frozen=True)
class Migrations(Table):
    """Migrations in order of time, as columns, with where they fall."""

    start_ns: Int64
    end_ns: Int64
    pid: Int32
    device: Int32
    size_bytes: Int64
    direction: Int64
    """Index into `DIRECTIONS`."""
    cause: Int64
    """`MigrationCause`."""
    address: UInt64
    in_kernel: Bool
    """Whether it began while a kernel ran on its device."""

    @property
    def touched(self) -> Bool:
        """Which were caused by a touch, its neighbourhood included."""
        return np.asarray((self.cause == MigrationCause.FAULT) | (self.cause == MigrationCause.SPECULATIVE))


def prepare_migrations(operations: GpuOpTable, sets: tuple[DeviceSets, ...]) -> Migrations:
    """The migrations among GPU work."""
    row = np.flatnonzero(operations.kind == OpKind.MIGRATION)
    moved = operations.take(row)
    in_kernel = np.zeros(len(row), np.bool_)
    for entry in sets:
        mine = moved.device == entry.device
        in_kernel[mine] = entry.kernels.contains(moved.start_ns[mine])
    return Migrations(
        start_ns=moved.start_ns,
        end_ns=moved.end_ns,
        pid=moved.pid,
        device=moved.device,
        size_bytes=moved.size_bytes,
        direction=DIRECTION[moved.copy_kind],
        cause=moved.cause.astype(np.int64),
        address=moved.address,
        in_kernel=in_kernel,
    )


def summarise_migrations(moved: Migrations, scopes: Scopes) -> tuple[tuple[MigrationResult, ...], ...]:
    """Per scope, migrations by direction and cause, most bytes first."""
    results: list[list[MigrationResult]] = [[] for _ in range(len(scopes))]
    for scope, row in scopes.members(Events(moved.start_ns, moved.pid)):
        cells = group(scope, moved.direction[row], moved.cause[row])
        size, inside = moved.size_bytes[row], moved.in_kernel[row].astype(np.int64)
        columns = (
            *cells.keys, cells.count, cells.sum(size), cells.min(size), cells.median(size), cells.max(size),
            cells.sum((moved.end_ns - moved.start_ns)[row]), cells.sum(inside), cells.sum(inside * size),
        )  # fmt: skip
        for at, direction, cause, count, total, least, median, most, busy, inside_count, inside_bytes in sorted(
            zip(*(column.tolist() for column in columns), strict=True), key=lambda cell: -cell[4]
        ):
            results[at].append(
                MigrationResult(
                    direction=DIRECTIONS[direction],
                    cause=cause_name(cause),
                    count=count,
                    size_bytes=Spread(total, least, median, most),
                    busy_ns=busy,
                    in_kernel_count=inside_count,
                    in_kernel_bytes=inside_bytes,
                )
            )
    return tuple(tuple(entries) for entries in results)
