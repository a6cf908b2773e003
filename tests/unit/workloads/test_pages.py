"""Private pages: of the size that was asked for, created by threads, each of them, before anybody else comes."""

from __future__ import annotations

import re
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


def of_huge_pages(address: int) -> int:
    """How many bytes of the mapping at an address the kernel gave huge pages (proc(5), smaps)."""
    mine = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            begin, end = (int(place, 16) for place in line.split()[0].split("-"))
            mine = begin <= address < end
        elif mine and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    raise LookupError(hex(address))


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("size_bytes", [PAGE, PAGE + 4, 5 * PAGE, 8 * MIB + 12])
def test_threads_together_create_every_page_once(size_bytes: int, threads: int) -> None:
    owner = Allocations()
    # Once before: after a fork, what Python itself writes to for the first time is a fault too.
    rehearsal = pages.private_pages(owner, PAGE, huge=False)
    memory.touch(rehearsal.array, threads)
    rehearsal.fill(1.0)
    rehearsal.free()
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
    counts, given = {}, {}
    for huge in (True, False):
        block = pages.private_pages(Allocations(), 64 * MIB, huge=huge)
        before = faults()
        memory.touch(block.array, 1)
        counts[huge], given[huge] = faults() - before, of_huge_pages(block.address)
        block.free()
    assert counts[False] >= 64 * MIB // PAGE
    assert given[False] == 0
    # Where its free memory is in pieces, the kernel has fewer huge pages than are asked for.
    assert counts[True] < (64 * MIB - given[True]) / PAGE + counts[False] / 10


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
