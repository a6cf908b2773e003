"""Pages of the host's own memory: made anew, made one by one, copied, shared, mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.opportunities import catalogue, pages
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.data.mapped import Mapped
from pinprof.data.memory_log import MemoryLog, ProcessMemory
from pinprof.data.model import ExitTable
from pinprof.data.rate_book import RateBook
from tests.support.scenes import (
    COPIED,
    FAULT,
    FREE,
    HUGE,
    MAPPED,
    MS,
    SMALL,
    Traced,
    prices,
    ran,
    recorded,
    scene,
    to_gpu,
    waited,
)  # fmt: skip
from tests.support.stacks import Sample

OTHER = ("other@/app", *SMALL[1:])
ELSEWHERE = ("elsewhere@/app",)
SHARED = (*MAPPED[:-1], "shmem_fault", "shmem_get_folio_gfp", "clear_page_erms")
WRITTEN = COPIED[:-3]
SHARED_FREE = ("main@/app", "__x64_sys_munmap", "task_work_run", "__fput", "evict", "shmem_evict_inode",
               "shmem_undo_range")  # fmt: skip
FORK = ("main@/app", "fork@/libc.so.6", "__x64_sys_clone", "kernel_clone", "copy_process", "dup_mmap",
        "copy_page_range")  # fmt: skip


ZERO = (*WRITTEN, "vma_alloc_folio_noprof", "clear_page_erms")
ADVISED = ("main@/app", "madvise@/libc.so.6", "__x64_sys_madvise", "do_madvise")
DROPPED = (*ADVISED, "zap_page_range_single", "unmap_page_range")
LAZILY = (*ADVISED, "madvise_free_single_vma", "madvise_free_pte_range")
PROTECTED = ("main@/app", "mprotect@/libc.so.6", "__x64_sys_mprotect", "do_mprotect_pkey", "change_protection")
DENIED = ("main@/app", "asm_exc_page_fault", "exc_page_fault", "bad_area_access_error", "force_sig_fault")
HANDLED = ("main@/app", "__restore_rt@/libc.so.6", "handler@/app", *PROTECTED[1:])
CLEAN = (*WRITTEN, "do_page_mkwrite", "ext4_page_mkwrite")
SYNCED = ("flush@/app", "msync@/libc.so.6", "__x64_sys_msync", "ext4_sync_file", "file_write_and_wait_range")


def found(
    *parts: tuple[int, Sequence[str]],
    calls: Sequence[Traced] = (),
    extra: Sequence[Sample] = (),
    memory: MemoryLog | None = None,
    book: RateBook | None = None,
) -> list[Candidate]:
    """What is found in so many milliseconds of each stack, and as much other work that the whole is 200 ms."""
    samples, now = list(extra), 0
    for length, stack in (*parts, (200 - sum(length for length, _ in parts), ("main@/app",))):
        samples += ran(now, now + length, stack)
        now += length
    return list(pages.page_costs(scene(replace(recorded(samples, calls), memory=memory), book)))


def shares(kind: pages._Kind, small: float, huge: float = 0.0) -> tuple[float, float, float]:
    low, likely, high = (kind.small[n] * small + (kind.huge or pages._UNMEASURED)[n] * huge for n in range(3))
    return low * MS, likely * MS, high * MS


@pytest.mark.parametrize(
    ("parts", "kind", "small", "huge"),
    [
        ([(10, SMALL), (2, FREE)] * 5, pages._AGAIN, 60, 0),
        ([(10, HUGE), (2, FREE)] * 5, pages._AGAIN, 10, 50),
        ([(4, SMALL), (6, HUGE), (2, FREE)] * 5, pages._AGAIN, 30, 30),
        ([(50, SMALL)], pages._ONCE, 50, 0),
        ([(50, SMALL), (2, FREE)], pages._ONCE, 52, 0),
        ([(10, ZERO), (2, FREE)] * 5, pages._ZEROS_AGAIN, 60, 0),
        ([(15, ZERO), (10, WRITTEN), (1, FREE), (5, ELSEWHERE)] * 2, pages._ZEROS_AGAIN, 52, 0),
        ([(50, ZERO), (1, FREE)], pages._ZEROS_ONCE, 51, 0),
        ([(10, SMALL), (2, DROPPED)] * 5, pages._DROPS, 60, 0),
        ([(50, LAZILY)], pages._DROPS_LAZILY, 50, 0),
        ([(50, PROTECTED)], pages._PROTECTS, 50, 0),
        ([(20, DENIED), (30, HANDLED)], pages._SIGNALS, 50, 0),
        ([(50, MAPPED)], pages._MAPS, 50, 0),
        ([(10, SHARED), (2, SHARED_FREE)] * 5, pages._SHARES, 60, 0),
        ([(50, FORK)], pages._FORKS, 50, 0),
    ],
    ids=[
        "again",
        "huge again",
        "both",
        "once",
        "hardly freed",
        "zeros again",
        "zeros hardly shown",
        "zeros once",
        "dropped",
        "dropped lazily",
        "protected",
        "signals",
        "mapped",
        "shared",
        "fork",
    ],
)
def test_each_kind_of_page_has_its_cure_and_saves_its_share(
    parts: list[tuple[int, Sequence[str]]], kind: pages._Kind, small: int, huge: int
) -> None:
    (one,) = found(*parts)
    assert one.cure.id == kind.cure
    assert one.cost_ns == (small + huge) * MS
    low, likely, high = shares(kind, small, huge)
    assert one.saving.low_ns == pytest.approx(low, abs=2)
    assert one.saving.likely_ns == pytest.approx(likely, abs=2)
    assert one.saving.high_ns == pytest.approx(high, abs=2)


def test_pages_that_a_fork_shares_are_copied_because_of_it() -> None:
    child = ran(60, 70, ("child@/app",), pid=200, tid=200)
    (forked,) = found((50, COPIED), extra=child)
    assert forked.cure.id == "spawn"
    assert any("does not say what is mapped" in evidence.text for evidence in forked.evidence)
    # A child that is too idle for a sample of its own.
    alone = replace(recorded(ran(0, 50, COPIED) + ran(50, 200, ("main@/app",))), threads={(200, 200): "helper"})
    (forked,) = pages.page_costs(scene(alone))
    assert forked.cure.id == "spawn"


def copied_at(kind: Mapped, *others: Mapped) -> Candidate:
    """Copies of pages of which recorded faults say what is mapped there."""
    faults = [Sample(FAULT, 1, number * MS, event=0, address=4096) for number in range(1 + len(others))]
    made = recorded([*faults, *ran(0, 10, COPIED), *ran(10, 50, WRITTEN), *ran(50, 200, ("main@/app",))])
    mapped = np.zeros(len(made.samples), np.uint8)
    mapped[made.samples.address > 0] = (kind, *others)
    (one,) = pages.page_costs(scene(replace(made, samples=replace(made.samples, mapped=mapped))))
    return one


def test_what_lies_at_the_addresses_decides_why_pages_are_copied() -> None:
    file = copied_at(Mapped.PRIVATE_FILE, Mapped.PRIVATE_FILE, Mapped.ANONYMOUS)
    assert (file.cure.id, file.unknown) == ("read-file", "")
    assert "Of 3 recorded page faults here, 2 lie in a private mapping of a file." in [e.text for e in file.evidence]
    shared = copied_at(Mapped.HEAP, Mapped.ANONYMOUS, Mapped.PRIVATE_FILE)
    assert (shared.cure.id, "another process shares" in shared.title) == ("spawn", True)


@pytest.mark.parametrize("others", [(), (Mapped.PRIVATE_FILE,)], ids=["none known", "half known"])
def test_copies_at_unknown_addresses_are_not_said_to_be_of_a_file(others: tuple[Mapped, ...]) -> None:
    (alone,) = found((10, COPIED), (40, WRITTEN))
    for one in (alone, copied_at(Mapped.UNKNOWN, *others)):
        assert one.cure.id == "record-mappings"
        assert "file" not in one.title
        assert "does not say what is mapped" in one.unknown


def test_pages_of_unknown_handlers_are_not_said_to_be_of_a_file() -> None:
    (some,) = found((50, MAPPED[:-1]))
    assert "maps a file, shared memory or a device" in some.title


def test_reading_a_file_copies_it_once_as_well() -> None:
    one = copied_at(Mapped.PRIVATE_FILE)
    saved = one.saving.low_ns, one.saving.likely_ns, one.saving.high_ns
    assert saved == pytest.approx((28 * MS, 36 * MS, 40 * MS), abs=2)


def test_handlers_of_file_pages_that_copy_are_of_a_private_mapping_whoever_forks() -> None:
    copied = (*MAPPED[:-2], "copy_mc_to_kernel")
    child = ran(60, 70, ("child@/app",), pid=200, tid=200)
    (one,) = found((30, MAPPED), (20, copied), extra=child)
    assert (one.cure.id, one.cost_ns) == ("read-file", 50 * MS)


def test_writes_to_pages_that_nothing_is_seen_to_be_done_to_are_of_no_kind() -> None:
    assert found((50, WRITTEN)) == []


def test_a_shared_file_that_is_written_back_each_time_faults_again() -> None:
    (one,) = found((50, CLEAN), (20, SYNCED))
    assert (one.site.place, one.cure.id, one.cost_ns) == ("main", "sync-file-less", 70 * MS)
    assert found((50, CLEAN)) == [], "touching such pages early costs as much"


def test_no_cure_of_a_shared_mapping_makes_it_private() -> None:
    for kind in (pages._SYNCS, pages._MAPS):
        assert "MAP_PRIVATE" not in catalogue.CURES[kind.cure].code[catalogue.NATIVE]


@pytest.mark.parametrize(
    "allocator", ["free", "_int_free", "je_arena_decay", "operator delete(void*)", "runtime.sysUnused"]
)
def test_pages_that_an_allocator_drops_are_memory_that_is_allocated_again(allocator: str) -> None:
    (one,) = found(*((10, SMALL), (2, ("main@/app", f"{allocator}@/usr/lib/x.so", *DROPPED[1:]))) * 5)
    assert one.cure.id == "reuse-memory"


def test_an_allocator_that_grows_by_mprotect_is_no_change_of_protection() -> None:
    assert found((50, ("main@/app", "sysmalloc@/libc.so.6", *PROTECTED[1:]))) == []


def test_what_another_process_does_as_it_starts_is_done_once() -> None:
    waits = ("main@/app", "read@/usr/lib/libc.so.6", "__x64_sys_read", "pipe_read", "schedule")
    for inner, many in ((("_dl_start@/lib64/ld-linux-x86-64.so.2",), 0), (("child@/app",), 1)):
        samples = waited(0, 200, waits)
        for turn in range(5):
            start = 20 * turn
            samples += ran(start, start + 14, (*inner, *SMALL[1:]), pid=200, tid=200)
            samples += ran(start + 14, start + 20, (*inner, *FREE[1:]), pid=200, tid=200)
        assert len(found(extra=samples)) == many, inner


def test_lines_of_one_function_that_change_protections_by_turns_are_one_change() -> None:
    first, second = ((f"main (a.py:{line})@/app/a.py", *PROTECTED[1:]) for line in (3, 5))
    (one,) = found((40, first), (30, second))
    assert (one.site.line, one.cure.id, one.cost_ns) == (3, "protect-less", 70 * MS)
    (one,) = found((30, first), (40, second))
    assert one.site.line == 3, "about as much: the first"
    (one,) = found((10, first), (60, second))
    assert one.site.line == 5
    elsewhere = ("other (a.py:9)@/app/a.py", *PROTECTED[1:])
    assert [each.cost_ns for each in found((40, first), (30, elsewhere))] == [40 * MS, 30 * MS]


def test_entering_the_kernel_to_change_a_mapping_is_a_part_of_that() -> None:
    entered = ("main@/app", "munmap@/usr/lib/libc.so.6", "entry_SYSCALL_64_after_hwframe", "do_syscall_64")
    read = ("main@/app", "read@/usr/lib/libc.so.6", *entered[2:])
    (one,) = found(*((10, SMALL), (2, FREE), (2, entered), (2, read)) * 4)
    assert one.cost_ns == 56 * MS


def test_what_a_handler_does_counts_where_its_signals_come() -> None:
    handler = ("main@/app", "writes@/app", "__restore_rt@/libc.so.6", "handler@/app", *PROTECTED[1:])
    first, *others = found((40, ("main@/app", "writes@/app", *DENIED[1:])), (30, handler))
    assert (first.site.place, first.cure.id, first.cost_ns, others) == ("writes", "track-writes", 70 * MS, [])


def test_signals_of_a_timer_are_no_cost_of_pages() -> None:
    timer = ("main@/app", "__x64_sys_rt_sigreturn", "restore_sigcontext")
    assert found((50, timer)) == []


def test_small_parts_of_the_work_are_not_worth_a_line() -> None:
    # Huge pages save 70 % of it, and a twentieth of 200 ms is 10 ms.
    assert found((14, SMALL)) == []
    (one,) = found((15, SMALL))
    assert one.saving.likely_ns >= pages.LEAST_SHARE * 200 * MS


def test_huge_pages_cure_no_huge_pages() -> None:
    assert found((50, HUGE)) == []


def test_the_small_pages_at_the_ends_of_memory_in_huge_pages_are_not_cured_by_huge_pages() -> None:
    assert found((50, HUGE), (40, SMALL)) == []
    assert [one.cure.id for one in found((40, HUGE), (50, SMALL))] == ["huge-pages"]


def test_what_large_memory_in_huge_pages_costs_each_time_is_to_be_measured() -> None:
    (one,) = found(*((39, HUGE), (1, FREE)) * 5)
    assert (one.cure.id, one.cost_ns, bool(one.unknown)) == ("reuse-memory", 200 * MS, True)
    assert found((97, HUGE), (3, FREE)) == [], "freed after the last page is made"
    assert not found(*((10, HUGE), (2, FREE)) * 5)[0].unknown, "much is freed"


MEASURED = prices(
    touch_huge=100_000,
    refill_copy_new=300_000,
    refill_copy_kept=210_000,
    refill_add_new=400_000,
    refill_add_kept=360_000,
)
"""Memory that stays saves nine tenths of zeroing it where it is copied to, and four tenths in a sum."""
BY_COPY = ("main@/app", "__memmove_evex_unaligned_erms@/libc.so.6", *HUGE[1:])


@pytest.mark.parametrize(
    ("fill", "low", "likely", "high"), [(BY_COPY, 0.72, 0.9, 1.0), (HUGE, 0.32, 0.65, 1.0)], ids=["copied", "other"]
)
def test_what_memory_in_huge_pages_saves_that_stays_is_what_the_machine_measured(
    fill: Sequence[str], low: float, likely: float, high: float
) -> None:
    (one,) = found(*((39, fill), (1, FREE)) * 5, book=MEASURED)
    assert (one.cure.id, one.cost_ns, one.unknown) == ("reuse-memory", 200 * MS, "")
    of_huge, of_small = (low, likely, high), pages._AGAIN.small
    expected = [195 * MS * huge + 5 * MS * small for huge, small in zip(of_huge, of_small, strict=True)]
    assert [one.saving.low_ns, one.saving.likely_ns, one.saving.high_ns] == pytest.approx(expected, abs=2)
    assert any("90 % of zeroing" in text and "40 % where a sum" in text for text in one.basis)


def test_huge_pages_of_memory_that_is_made_once_are_no_matter_of_keeping_it() -> None:
    assert found((50, HUGE), book=MEASURED) == []


def test_pages_of_small_objects_of_python_are_nothing_that_a_program_can_keep() -> None:
    made = ("main@/app", "_PyObject_Malloc@/python", "allocate_from_new_pool@/python", *SMALL[1:])
    freed = ("main@/app", "_PyObject_Free@/python", "__munmap@/libc.so.6", *FREE[1:])
    assert found(*((30, made), (5, freed)) * 5) == []
    large = ("main@/app", "_PyObject_Malloc@/python", "_int_malloc@/libc.so.6", *SMALL[1:])
    assert [one.cure.id for one in found(*((30, large), (5, FREE)) * 5)] == ["reuse-memory"]


def test_a_mapping_that_stays_needs_neither_to_be_made_nor_to_be_given_back() -> None:
    mapping = ("main@/app", "__x64_sys_mmap", "ksys_mmap_pgoff", "mmap_region")
    (one,) = found(*((4, MAPPED), (6, mapping)) * 5)
    assert one.cure.id == "map-at-once"
    assert one.saving.likely_ns == pytest.approx((0.6 * 20 + 0.95 * 30) * MS, abs=2)


def rising_to(*mib: int) -> MemoryLog:
    """The program's memory every 10 ms."""
    time_ns = np.arange(len(mib)) * 10 * MS
    held = ProcessMemory(100, "app", time_ns, {"rss": np.array(mib, np.int64) << 20})
    return MemoryLog(time_ns, {}, (held,))


def test_memory_that_shrinks_while_huge_pages_are_made_is_made_again() -> None:
    twice = ((50, HUGE), (5, ELSEWHERE), (50, HUGE))
    (one,) = found(*twice, memory=rising_to(100, 400, 100, 300, 200, 400))
    assert one.unknown
    assert found(*twice, memory=rising_to(100, 200, 300, 280, 400, 500)) == []
    assert found((100, HUGE), memory=rising_to(100, 400, 100, 300, 200, 400)) == []
    assert found((100, SMALL), memory=rising_to(100, 400, 100, 300, 200, 400))[0].cure.id == "huge-pages"


def titles(*parts: tuple[int, Sequence[str]], extra: Sequence[Sample] = ()) -> list[str]:
    return [one.title for one in found(*parts, extra=extra)]


@pytest.mark.parametrize(
    "parts",
    [
        [(50, SMALL), (20, FREE)],
        [(20, SMALL), (5, FREE), (20, SMALL), (5, FREE), (20, SMALL)],
        [(20, SMALL), (2, ELSEWHERE), (20, SMALL), (10, FREE)],
        [(20, SMALL), (20, (*SMALL[:1], "helper@/app")), (20, SMALL), (10, FREE)],
        [(20, SMALL), (20, ELSEWHERE), (20, SMALL)],
    ],
    ids=["freed after it", "an expression", "a glimpse of another line", "what it calls", "kept"],
)
def test_a_line_that_may_have_run_once_makes_nothing_each_time(parts: list[tuple[int, Sequence[str]]]) -> None:
    (one,) = titles(*parts)
    assert "each time" not in one


def test_what_another_thread_gives_back_is_not_what_a_line_made() -> None:
    """The other thread runs while the critical one waits for it."""
    lock = ("main@/app", "pthread_join@/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule")
    turn = [*ran(0, 20, SMALL), *waited(20, 40, lock), *ran(40, 60, SMALL), *waited(60, 80, lock), *ran(80, 200)]
    theirs = [sample for start in (20, 60) for sample in ran(start, start + 20, ("worker@/app", *FREE[1:]), tid=101)]
    assert not [one for one in pages.page_costs(scene(recorded([*turn, *theirs]))) if "each time" in one.title]


def test_each_place_counts_and_frees_belong_to_the_heaviest() -> None:
    release = ("release@/app", *FREE[1:])
    first, second = found((45, OTHER), (4, release), (45, OTHER), (4, release), (30, SMALL))
    assert (first.site.place, first.cost_ns, first.cure.id) == ("other", 98 * MS, "reuse-memory")
    assert (second.site.place, second.cost_ns, second.cure.id) == ("main", 30 * MS, "huge-pages")


def test_what_is_given_back_elsewhere_in_turn_with_it_was_made_again() -> None:
    release = ("release@/app", *FREE[1:])
    turn = ((25, OTHER), (15, SMALL), (10, release))
    assert {one.cure.id for one in found(*turn, *turn)} == {"reuse-memory"}


def test_a_place_that_is_passed_once_makes_nothing_again() -> None:
    release = ("release@/app", *FREE[1:])
    loop = ((20, OTHER), (10, release))
    first, second = found((30, SMALL), *loop, *loop, *loop)
    assert (first.site.place, first.cure.id) == ("other", "reuse-memory")
    assert (second.site.place, second.cure.id) == ("main", "huge-pages")


def test_faults_inside_calls_of_cuda_are_those_calls() -> None:
    assert found((50, SMALL), calls=[to_gpu(0, 50, 1 << 20)]) == []


def test_pins_that_no_call_was_recorded_for_are_told_by_samples() -> None:
    pin = ("main@/app", "io_uring_register", "pin_user_pages", "handle_mm_fault", "do_anonymous_page")
    (once,) = found((50, pin))
    assert (once.cost_ns, once.cure.id) == (50 * MS, "touch-then-register")
    (again,) = found(*((25, pin), (10, ("release@/app", *FREE[1:]))) * 2)
    assert (again.site.place, again.cost_ns, again.cure.id) == ("main", 70 * MS, "pool-pinned")


def test_giving_back_alone_says_not_what_was_filled() -> None:
    assert found((50, FREE)) == []


def test_few_pages_of_large_mappings_are_made_where_most_are() -> None:
    mapping = ("main@/app", "__x64_sys_mmap", "do_mmap", "mmap_region", "__mmap_region")
    (one,) = found(*((4, SMALL), (4, mapping), (4, FREE)) * 5, (10, OTHER))
    assert (one.site.place, one.cost_ns, one.cure.id) == ("main", 60 * MS, "reuse-memory")


def test_children_that_become_programs_cost_what_their_forks_do() -> None:
    """The line that waits for them is as it should be."""
    forks = ("begin@/app", *FORK[2:])
    waits = ("finish@/app", "wait4@/libc.so.6", "__x64_sys_wait4", "kernel_wait4", "do_wait", "schedule", "__schedule")
    becomes = ("__x64_sys_execve", "begin_new_exec", "exec_mmap", "mmput", "exit_mmap", "unmap_vmas")
    samples = [*ran(0, 20, forks), *waited(20, 60, waits), *ran(60, 200)]
    child = ran(20, 60, ("child@/app", *becomes), pid=200, tid=200)
    (one,) = pages.page_costs(scene(recorded([*samples, *child])))
    assert (one.site.place, one.cure.id, one.cost_ns) == ("begin", "spawn", 60 * MS)


JOIN = ("finish@/app", "wait4@/libc.so.6", "__x64_sys_wait4", "kernel_wait4", "do_wait", "schedule", "__schedule")


def joined(
    *exits: tuple[int, int], child: Sequence[str] = ("child@/app",), forks: int = 20, renamed: bool = False
) -> list[Candidate]:
    """What is found where the program forks, computes, waits from 60 to 100 ms for a child, and goes on; `exits` are
    the processes that end, and when.
    """
    samples = [*ran(0, forks, FORK), *ran(forks, 60), *waited(60, 100, JOIN), *ran(100, 200)]
    samples += ran(20, 24, child, pid=200, tid=200)
    made = recorded(samples)
    table = ExitTable.of(
        len(exits),
        time_ns=[when * MS for _, when in exits],
        pid=[pid for pid, _ in exits],
        tid=[pid for pid, _ in exits],
    )
    names = {(200, 200): ((21 * MS, "other"),)} if renamed else {}
    return list(pages.page_costs(scene(replace(made, exits=table, renamed=names))))


def test_a_wait_for_a_forked_child_that_is_recorded_no_longer_costs_what_its_fork_does() -> None:
    (one,) = joined((200, 61))
    assert (one.site.place, one.cure.id, one.cost_ns) == ("fork", "spawn", 60 * MS)
    assert any("40 ms of it is waiting for forked processes" in words for words in one.basis)
    (before,) = joined((200, 59))
    assert before.cost_ns == 60 * MS


@pytest.mark.parametrize(
    ("exits", "renamed", "child"),
    [
        ([], False, ("child@/app",)),
        ([(200, 90)], False, ("child@/app",)),
        ([(200, 120)], False, ("child@/app",)),
        ([(100, 61)], False, ("child@/app",)),
        ([(200, 61)], True, ("child@/app",)),
        ([(200, 61)], False, ("child@/app", "__x64_sys_execve", "begin_new_exec")),
        ([(200, 61), (201, 95)], False, ("child@/app",)),
        ([(201, 61), (200, 62)], True, ("child@/app",)),
    ],
    ids=[
        "not recorded",
        "worked until then",
        "ends later",
        "itself",
        "another name",
        "another program",
        "another child",
        "another program after it",
    ],
)
def test_other_waits_for_children_are_no_cost_of_a_fork(
    exits: list[tuple[int, int]], renamed: bool, child: Sequence[str]
) -> None:
    (one,) = joined(*exits, child=child, renamed=renamed)
    assert one.cost_ns == 20 * MS
    assert len(one.basis) == 0


@pytest.mark.parametrize("forks", [0, 9])
def test_the_end_of_a_child_costs_nothing_where_its_fork_costs_little(forks: int) -> None:
    assert joined((200, 61), forks=forks) == []


def test_run_without_faults_has_nothing_to_cure() -> None:
    assert found() == []
