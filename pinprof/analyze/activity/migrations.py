"""Migrations of managed memory: what moved, which way, and why."""

from __future__ import annotations

from typing import cast

import numpy as np

from pinprof.analyze.activity.results import Cause, MigrationResult, Spread
from pinprof.analyze.activity.transfers import DIRECTION, DIRECTIONS, DeviceSets, lengths
from pinprof.analyze.groups import group
from pinprof.analyze.ranges.membership import Events, Scopes
from pinprof.base.columns import Bool, Int8, Int32, Int64, Table, UInt8, UInt64, packed, taken
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import GpuOpTable, MigrationCause, OpKind

H2D, D2H = DIRECTIONS.index("H2D"), DIRECTIONS.index("D2H")

_CAUSES = {cause.value: cast("Cause", cause.words) for cause in MigrationCause}


def cause_name(cause: int) -> Cause:
    """The word for a `MigrationCause`; `unknown` for those without one."""
    return _CAUSES.get(cause, "unknown")


@dataclass(frozen=True, eq=False, repr=False)
class Migrations(Table):
    """Migrations in order of time, as columns, with where they fall."""

    start_ns: Int64
    end_ns: Int64
    pid: Int32
    device: Int32
    size_bytes: Int64
    direction: Int8
    """Index into `DIRECTIONS`."""
    cause: UInt8
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
    row = operations.rows(OpKind.MIGRATION)
    start_ns, device = operations.start_ns[row], packed(taken(operations.device, row))
    in_kernel = np.zeros(len(start_ns), np.bool_)
    for entry in sets:
        mine = device == entry.device
        in_kernel[mine] = entry.kernels.contains(start_ns[mine])
    return Migrations(
        start_ns=start_ns,
        end_ns=operations.end_ns[row],
        pid=packed(taken(operations.pid, row)),
        device=device,
        size_bytes=operations.size_bytes[row],
        direction=DIRECTION[operations.copy_kind[row]],
        cause=operations.cause[row],
        address=operations.address[row],
        in_kernel=in_kernel,
    )


def summarise_migrations(moved: Migrations, scopes: Scopes) -> tuple[tuple[MigrationResult, ...], ...]:
    """Per scope, migrations by direction and cause, most bytes first."""
    results: list[list[MigrationResult]] = [[] for _ in range(len(scopes))]
    for scope, row in scopes.members(Events(moved.start_ns, moved.pid)):
        for at, direction, cause, count, total, least, median, most, busy, inside_count, inside_bytes in sorted(
            zip(*(column.tolist() for column in _cells(moved, scope, row)), strict=True), key=lambda cell: -cell[4]
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
        moved.unload()
        del scope, row  # before the next ones are made
    return tuple(tuple(entries) for entries in results)


def _cells(moved: Migrations, scope: Int64, row: Int64 | slice) -> tuple[Int64, ...]:
    """Scope, direction, cause and figures of migrations that agree in the first three; `row` is the migration."""
    cells = group(scope, moved.direction[row], moved.cause[row])
    size, inside = moved.size_bytes[row], moved.in_kernel[row]
    sizes = (cells.sum(size), cells.min(size), cells.median(size), cells.max(size))
    moved.unload()
    busy = cells.sum_of(lambda part: lengths(moved.start_ns, moved.end_ns, row, part))
    inside_bytes = cells.sum_of(lambda part: size[part] * inside[part])
    return *cells.keys, cells.count, *sizes, busy, cells.sum(inside.view(np.int8)), inside_bytes
