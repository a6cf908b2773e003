"""Private pages: of the size that was asked for, created by threads, each of them, before anybody else comes."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from pinprof.workloads.backends import memory, pages
from pinprof.workloads.backends.memory import Allocations

PAGE = resource.getpagesize()
MIB = 1 << 20
TRANSPARENT = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("size_bytes", [PAGE, PAGE + 4, 5 * PAGE, 8 * MIB + 12])
def test_threads_together_create_every_page_once(size_bytes: int, threads: int) -> None:
    owner = Allocations()
    block = pages.private_pages(owner, size_bytes, huge=False)
    assert block.address % pages.HUGE_PAGE_BYTES == 0
    expected = -(-size_bytes // PAGE)
    before = faults()
    memory.touch(block.array, threads)
    created = faults() - before
    assert expected <= created
    before = faults()
    block.fill(1.0)
    assert faults() - before < max(8, expected // 8)
    block.free()
    assert len(owner) == 0


def test_huge_pages_take_a_fraction_of_the_faults() -> None:
    if not TRANSPARENT.exists() or "[never]" in TRANSPARENT.read_text():
        pytest.skip("this kernel gives no transparent huge pages")
    counts = {}
    for huge in (True, False):
        block = pages.private_pages(Allocations(), 64 * MIB, huge=huge)
        before = faults()
        memory.touch(block.array, 1)
        counts[huge] = faults() - before
        block.free()
    assert counts[False] >= 64 * MIB // PAGE
    assert counts[True] < counts[False] / 10


def test_window_sees_the_memory_it_is_part_of_and_frees_nothing() -> None:
    owner = Allocations()
    block = pages.private_pages(owner, 4 * PAGE, huge=False)
    block.fill(1.0)
    window = block.part(PAGE, 2 * PAGE)
    window.fill(2.0)
    assert (window.pageable, window.size_bytes, window.kernel_address) == (True, 2 * PAGE, block.address + PAGE)
    assert block.mismatch(1.0) == (PAGE // 4, 2.0)
    other = block.part(3 * PAGE, PAGE)
    other.copy_from(window.part(PAGE, PAGE))
    assert other.mismatch(2.0) is None
    window.free()
    assert len(owner) == 1
    assert block.mismatch(1.0) == (PAGE // 4, 2.0)
    block.free()
