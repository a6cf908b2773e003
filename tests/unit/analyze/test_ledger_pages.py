"""Pages of allocations: joined by address and lifetime, by line; what is not known is unknown."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.analyze.allocations.results import FOREVER, KINDS, AllocationTable
from pinprof.analyze.ledger.pages import LEAST_PAGES, MOST_LOOKS, pages_of
from pinprof.analyze.ledger.results import Pages
from pinprof.data.memory_log import PageTable

MIB, PAGE = 1 << 20, 4096
PINNED, DEVICE = KINDS.index("pinned"), KINDS.index("device")
BASE = 1 << 40


def made(*rows: tuple[int, int, int, int], kind: int = PINNED, pid: int = 7) -> AllocationTable:
    """Rows of start, end, address, bytes."""
    start, end, address, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return AllocationTable.of(
        len(rows), start_ns=start, end_ns=end, pid=pid, tid=pid, kind=kind, size_bytes=size, wanted_bytes=size,
        granted_bytes=size, address=address.astype(np.uint64), call=-1,
    )  # fmt: skip


def points(*areas: tuple[int, int, int, int, int, int], pid: int = 7) -> PageTable:
    """Pages of areas: time, start, bytes, number of pages, node, huge."""
    parts = [
        PageTable.of(
            count, time_ns=time, pid=pid, node=node, huge=huge,
            address=(start + np.arange(count) * (size // count) // PAGE * PAGE).astype(np.uint64),
        )
        for time, start, size, count, node, huge in areas
    ]  # fmt: skip
    return PageTable.empty().joined(*parts)


def one(table: AllocationTable, found: PageTable) -> Pages | None:
    """Of all allocations together."""
    (pages,) = pages_of(table, np.zeros(len(table), np.int64), 1, found, PAGE)
    return pages


def test_bytes_are_by_node_as_pages_are() -> None:
    found = points((20, BASE, 96 * MIB, 48, 0, 0), (20, BASE + 96 * MIB, 32 * MIB, 16, 1, 1))
    pages = one(made((10, FOREVER, BASE, 128 * MIB)), found)
    assert pages == Pages(20, {0: 96 * MIB, 1: 32 * MIB}, 0, 0, 0.25, 64)


def test_a_page_that_an_allocation_begins_inside_is_its() -> None:
    pages = one(made((10, FOREVER, BASE + 100, 2 * MIB)), points((20, BASE, 2 * MIB, LEAST_PAGES, 3, 0)))
    assert pages is not None
    assert pages.nodes == {3: 2 * MIB}


def test_pages_that_are_not_there_or_not_known_are_said_so() -> None:
    found = points(
        (20, BASE, 32 * MIB, 16, 0, 0), (20, BASE + 32 * MIB, 16 * MIB, 8, -1, -1),
        (20, BASE + 48 * MIB, 16 * MIB, 8, -2, -1),
    )  # fmt: skip
    assert one(made((10, FOREVER, BASE, 64 * MIB)), found) == Pages(20, {0: 32 * MIB}, 16 * MIB, 16 * MIB, 0.0, 32)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (made((30, FOREVER, BASE, 64 * MIB)), "made later"),
        (made((10, 20, BASE, 64 * MIB)), "given back by then"),
        (made((10, FOREVER, BASE + 64 * MIB, 64 * MIB)), "elsewhere"),
        (made((10, FOREVER, 0, 64 * MIB)), "of unknown address"),
        (made((10, FOREVER, BASE, 64 * MIB), pid=8), "of another process"),
        (made((10, FOREVER, BASE, 64 * MIB), kind=DEVICE), "not the host's"),
        (made((10, FOREVER, BASE, 64 * PAGE)), "small"),
        (made((10, FOREVER, BASE, 4 * MIB)), "with too few pages"),
        (made((10, FOREVER, BASE, 128 * MIB)), "looked at in part"),
    ],
)
def test_what_no_look_knows_is_unknown(table: AllocationTable, why: str) -> None:
    assert one(table, points((20, BASE, 64 * MIB, 32, 0, 0))) is None, why


def test_allocations_of_a_line_that_were_not_looked_at_are_unknown_bytes() -> None:
    table = made((10, FOREVER, BASE, 64 * MIB), (10, FOREVER, BASE + 512 * MIB, 32 * MIB))
    pages = one(table, points((20, BASE, 64 * MIB, 32, 0, -1)))
    assert pages == Pages(20, {0: 64 * MIB}, 0, 32 * MIB, None, 32)


def test_the_look_that_knows_most_counts_and_lines_are_kept_apart() -> None:
    table = made(
        (10, FOREVER, BASE, 64 * MIB), (30, FOREVER, BASE + 64 * MIB, 64 * MIB), (10, 35, BASE + 200 * MIB, MIB)
    )
    found = points(
        (20, BASE, 64 * MIB, 32, 0, 0), (40, BASE, 64 * MIB, 32, 1, 1), (40, BASE + 64 * MIB, 64 * MIB, 32, 0, 1),
        (20, BASE + 200 * MIB, MIB, 16, 2, 0),
    )  # fmt: skip
    first, other = pages_of(table, np.array([0, 0, 1]), 2, found, PAGE)
    assert first == Pages(40, {0: 64 * MIB, 1: 64 * MIB}, 0, 0, 1.0, 64)
    assert other == Pages(20, {2: MIB}, 0, 0, 0.0, 16)


@pytest.mark.slow
def test_forged_numbers_and_many_looks_are_survived() -> None:
    top = 2**64 - PAGE
    size = np.array([2**63 - 1, 64 * MIB, 2**63 - 1])
    table = AllocationTable.of(
        3, start_ns=0, end_ns=FOREVER, pid=7, kind=PINNED, granted_bytes=size, size_bytes=size,
        address=np.array([top, BASE, 2**63], np.uint64), call=-1,
    )  # fmt: skip
    found = points(*((time, BASE, 64 * MIB, 16, time % 9, 0) for time in range(3 * MOST_LOOKS)))
    pages = one(table, found)
    assert pages is not None
    assert pages.known_bytes == 64 * MIB
    assert pages.unknown_bytes > 2**63
    assert one(table, PageTable.empty()) is None
    assert pages_of(AllocationTable.empty(), np.zeros(0, np.int64), 0, found, PAGE) == []
