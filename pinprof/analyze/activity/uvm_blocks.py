"""Managed memory by place: which 2 MiB blocks moved, faulted and went back and forth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.activity.migrations import D2H, H2D, Migrations
from pinprof.analyze.activity.results import BlockTable
from pinprof.analyze.allocations.results import AllocationTable
from pinprof.analyze.groups import Groups, add_at, group
from pinprof.analyze.intervals import union_by_key
from pinprof.base.columns import ascending, distinct, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import PageFaultTable
from pinprof.data.model import Int8, Int64

BLOCKS = 4096
"""At most this many blocks are kept."""

_PAGE_BITS, _BLOCK_BITS = 12, 21
_SPACE_BITS = 46
"""Bits of a page number; the process takes the ones above."""


@dataclass(frozen=True)
class ManagedPlaces:
    """What the places of migrations and faults tell."""

    blocks: BlockTable
    """Those that moved most."""
    count: int
    """All blocks."""
    flips: float
    """Direction changes per block and allocation."""
    moved_per_byte: float
    """Bytes migrated for each distinct one, allocation by allocation; 0 when nothing moved."""


def places_of(moved: Migrations, faults: PageFaultTable, made: AllocationTable) -> ManagedPlaces:
    """What moved and faulted, by place; `made` is the managed memory that was allocated."""
    segment, page = lives_of(moved, made)
    blocks, flips = block_table(moved, faults, page, segment)
    return ManagedPlaces(busiest(blocks), len(blocks), flips, moved_per_byte(moved, segment, page))


def _pages(address: NDArray[np.uint64], pid: NDArray[np.int32], pids: NDArray[np.int32]) -> Int64:
    """Page numbers that differ between processes: addresses say nothing about another process."""
    page = (address >> np.uint64(_PAGE_BITS)).view(np.int64)
    page &= (1 << _SPACE_BITS) - 1
    if len(pids) > 1:
        page |= np.searchsorted(pids, pid).astype(np.int64) << _SPACE_BITS
    return page


def lives_of(moved: Migrations, made: AllocationTable) -> tuple[Int64, Int64]:
    """Per migration (the allocation it belongs to, its page); 0 for all where allocations were not recorded.

    Memory that is freed and allocated again at the same address begins a new life: what moved before does not count.
    """
    pids = distinct(moved.pid)
    page = _pages(moved.address, moved.pid, pids)
    born = (made.address > 0) & np.isin(made.pid, pids)
    if not born.any():
        return uniform(0, len(moved), np.int64), page
    base_of, time_of = _pages(made.address[born], made.pid[born], pids), made.start_ns[born]
    bases, times = ascending(base_of), ascending(time_of)
    width = len(times) + 1
    births = np.sort(np.searchsorted(bases, base_of) * width + np.searchsorted(times, time_of) + 1)
    now = np.searchsorted(times, moved.start_ns, "right")
    base = np.maximum(np.searchsorted(bases, page, "right") - 1, 0)
    return np.searchsorted(births, base * width + now, "right").astype(np.int64), page


def block_table(moved: Migrations, faults: PageFaultTable, page: Int64, segment: Int64) -> tuple[BlockTable, float]:
    """Every block that moved or faulted, and the direction changes per block and allocation."""
    shift = _BLOCK_BITS - _PAGE_BITS
    pids = distinct(moved.pid, faults.pid)
    mine = page
    if len(pids) > len(distinct(moved.pid)):
        mine = (page & (1 << _SPACE_BITS) - 1) | np.searchsorted(pids, moved.pid).astype(np.int64) << _SPACE_BITS
    places = np.empty(len(moved) + len(faults), np.int64)
    np.right_shift(mine, shift, out=places[: len(moved)])
    np.right_shift(_pages(faults.address, faults.pid, pids), shift, out=places[len(moved) :])
    cells = group(places)
    del places
    (block,), here, there = cells.keys, cells.of[: len(moved)], cells.of[len(moved) :]

    def summed(index: Int64, amount: NDArray[np.integer]) -> Int64:
        total = np.zeros(len(block), np.int64)
        add_at(total, index, amount)
        return total

    lives = group(here, segment)
    on_gpu = faults.device >= 0
    flips = np.bincount(here[_flips(moved.direction, lives)], minlength=len(block)).astype(np.int64)
    table = BlockTable(
        address=(block & (1 << _SPACE_BITS - shift) - 1).astype(np.uint64) << np.uint64(_BLOCK_BITS),
        to_device_bytes=summed(here, np.where(moved.direction == H2D, moved.size_bytes, 0)),
        to_host_bytes=summed(here, np.where(moved.direction == D2H, moved.size_bytes, 0)),
        migrations=np.bincount(here, minlength=len(block)).astype(np.int64),
        gpu_faults=summed(there[on_gpu], faults.count[on_gpu]),
        cpu_faults=summed(there[~on_gpu], faults.count[~on_gpu]),
        flips=flips,
    )
    return table, float(flips.sum()) / len(lives) if len(lives) else 0.0


def _flips(direction: Int8, lives: Groups) -> Int64:
    """The migrations whose direction differs from the one before in the same block and allocation."""
    order = np.argsort(lives.of.astype(np.uint16) if len(lives) < 1 << 16 else lives.of, kind="stable")
    of, toward = lives.of[order], direction[order]
    return np.asarray(order[1:][(of[1:] == of[:-1]) & (toward[1:] != toward[:-1])])


def busiest(blocks: BlockTable) -> BlockTable:
    """The `BLOCKS` blocks that moved most, still ordered by address."""
    if len(blocks) <= BLOCKS:
        return blocks
    heat = blocks.to_device_bytes + blocks.to_host_bytes
    rows = np.sort(np.lexsort((-blocks.migrations - blocks.gpu_faults - blocks.cpu_faults, -heat))[:BLOCKS])
    return blocks.take(rows)


def moved_per_byte(moved: Migrations, segment: Int64, page: Int64) -> float:
    """Bytes migrated for each distinct one, allocation by allocation; 0 when nothing moved."""
    size = 1 << _PAGE_BITS
    _, first, last = union_by_key(segment, page, page + (moved.size_bytes + size - 1) // size)
    held = int((last - first).sum()) * size
    return int(moved.size_bytes.sum()) / held if held else 0.0
