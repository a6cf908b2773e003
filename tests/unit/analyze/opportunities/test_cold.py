"""Mapped files on a disk: a page that has to be read waits for it, whatever its fault costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.opportunities import cold
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.search import search
from pinprof.data.mapped import Mapped
from tests.support.scenes import FAULT, MAIN, MAPPED, MS, ran, recorded, scene, waited
from tests.support.stacks import Sample

READ = (*FAULT, "do_fault", "__do_fault", "filemap_fault")
WAITS = ("folio_wait_bit_common", "io_schedule", "schedule")
ALONE = (*READ, "filemap_read_folio")
SUBMITS = (*ALONE, "ext4_mpage_readpages", "submit_bio_noacct_nocheck", "virtio_queue_rq")
FREED = (*READ, "page_cache_ra_order", "filemap_add_folio", "__mem_cgroup_charge", "try_charge_memcg",
         "try_to_free_mem_cgroup_pages", "do_try_to_free_pages", "shrink_node")  # fmt: skip


def samples(rounds: int, stack: Sequence[str], between: Sequence[str] = MAPPED) -> list[Sample]:
    """As many waits of three milliseconds, with one of other work after each."""
    return [
        sample
        for turn in range(rounds)
        for sample in (*waited(4 * turn, 4 * turn + 3, (*stack, *WAITS)), *ran(4 * turn + 3, 4 * turn + 4, between))
    ]


def found(made: list[Sample]) -> list[Candidate]:
    return list(cold.cold_files(scene(recorded(made))))


def test_pages_that_are_read_one_by_one_are_read_ahead() -> None:
    (one,) = found(samples(50, ALONE, SUBMITS))
    assert one.title == "main reads a mapped file from the disk page by page."
    assert (one.cure.id, one.cost_ns) == ("read-ahead", 200 * MS)
    assert one.saving.low_ns == 140 * MS
    assert one.evidence[0].text == "50 page faults wait for the disk."


def test_what_the_kernel_reads_ahead_may_be_all_that_the_disk_can_do() -> None:
    (one,) = found(samples(50, READ))
    assert one.title == "main reads a mapped file from the disk as it is touched."
    assert one.saving.low_ns == 0
    assert one.saving.high_ns < one.cost_ns


def mapped_as(kind: Mapped, stack: Sequence[str] = READ) -> list[Candidate]:
    """One fault with an address that lies there, at the place of those that wait."""
    made = recorded([Sample((*stack, "filemap_get_pages"), 1, 0, event=0, address=4096), *samples(50, READ)])
    mapped = np.where(made.samples.address > 0, kind, Mapped.UNKNOWN).astype(np.uint8)
    return list(cold.cold_files(scene(replace(made, samples=replace(made.samples, mapped=mapped)))))


def test_a_library_that_was_not_in_memory_is_nothing_that_its_program_reads() -> None:
    assert mapped_as(Mapped.PROGRAM) == []
    assert len(mapped_as(Mapped.PRIVATE_FILE)) == 1
    assert len(mapped_as(Mapped.UNKNOWN)) == 1, "mapped for a moment: no list has it"
    assert mapped_as(Mapped.PRIVATE_FILE, ("other@/app", "clear_page")) == [], (
        "a few faults, of whose place none was recorded"
    )


def test_pages_that_a_limit_drops_are_cured_by_memory() -> None:
    (one,) = found(samples(50, READ, FREED))
    assert one.cure.id == "memory-limit"
    assert "because its control group has reached its memory limit." in one.title
    assert one.evidence[0].text == "In these faults, the kernel frees memory for 50 ms."


def test_reads_that_wait_for_the_disk_may_begin_earlier() -> None:
    calls = ("entry_SYSCALL_64_after_hwframe", "do_syscall_64", "ksys_read", "vfs_read", "ext4_file_read_iter")
    read = (*MAIN, *calls, "filemap_read")
    (one,) = found(samples(50, (*read, "filemap_get_pages"), (*read, "copy_page_to_iter", "_copy_to_iter")))
    assert one.title == "main reads a file from the disk as it is needed."
    assert (one.cure.id, one.cost_ns, one.saving.low_ns) == ("read-ahead", 150 * MS, 0)
    assert 0 < one.saving.likely_ns < one.saving.high_ns < one.cost_ns
    assert one.evidence[0].text == "50 reads wait for the disk."


@pytest.mark.parametrize(
    "made",
    [
        samples(
            50,
            (
                "main@/app",
                "get_code (<frozen importlib._bootstrap_external>:1032)@<frozen importlib._bootstrap_external>",
                "vfs_read",
                "filemap_read",
                "filemap_get_pages",
            ),
            ("main@/app",),
        ),
        ran(0, 100, MAPPED),
        ran(0, 100, (*MAIN, "vfs_read", "filemap_read", "_copy_to_iter")),
        [*ran(0, 100, MAPPED), *waited(100, 200, (*MAIN, "vfs_write", "balance_dirty_pages", *WAITS))],
    ],
)
def test_imports_file_in_memory_and_writing_are_not_cold(made: list[Sample]) -> None:
    assert found(made) == []


def test_disk_is_the_cause_and_not_the_faults_themselves() -> None:
    (one,) = search(scene(recorded(samples(50, ALONE, SUBMITS)))).found
    assert one.cure.id == "read-ahead"
