"""Faults whose handler alone does not say what they are: the samples of one place decide together."""

from __future__ import annotations

from pinprof.analyze import analyze
from tests.support.stacks import Sample, capture

FAULT = "asm_exc_page_fault exc_page_fault handle_mm_fault __handle_mm_fault "
WRITE, FILE = FAULT + "do_wp_page", FAULT + "do_fault"
CLEARS, COPIES = " vma_alloc_folio_noprof clear_page_erms", " copy_mc_to_kernel"
TO_FILE, READS = " do_page_mkwrite ext4_page_mkwrite", " __do_fault filemap_fault"


def leaves(*parts: tuple[int, str, str]) -> dict[str, int]:
    """Leaf → samples, of so many samples of each stack under each function of the program."""
    stacks = [f"main@/app {caller}@/app {stack}".split() for count, caller, stack in parts for _ in range(count)]
    return analyze(capture([Sample(stack, 1) for stack in stacks])).events[0].by_leaf


def test_the_first_write_to_a_page_is_what_some_samples_of_its_place_show() -> None:
    assert leaves((9, "f", WRITE), (2, "f", WRITE + CLEARS)) == {"fault.zero": 11}
    assert leaves((9, "f", WRITE), (2, "f", WRITE + COPIES)) == {"fault.cow": 11}
    assert leaves((9, "f", WRITE), (2, "f", WRITE + TO_FILE)) == {"fault.shared": 11}
    assert leaves((9, "f", WRITE)) == {"fault.cow": 9}


def test_kernels_that_clear_what_they_copy_to_copy() -> None:
    assert leaves((9, "f", WRITE), (5, "f", WRITE + CLEARS), (4, "f", WRITE + COPIES)) == {"fault.cow": 18}
    assert leaves((9, "f", WRITE), (50, "f", WRITE + CLEARS), (1, "f", WRITE + COPIES)) == {"fault.zero": 60}


def test_each_place_is_judged_by_its_own_samples_first() -> None:
    found = leaves((9, "f", WRITE), (3, "f", WRITE + CLEARS), (8, "g", WRITE), (4, "g", WRITE + COPIES))
    assert found == {"fault.zero": 12, "fault.cow": 12}
    assert leaves((9, "f", WRITE), (3, "g", WRITE + CLEARS)) == {"fault.zero": 12}


def test_handlers_of_files_that_copy_are_of_private_mappings() -> None:
    assert leaves((6, "f", FILE), (3, "f", FILE + READS), (3, "f", FILE + COPIES)) == {"fault.cow": 12}
    found = leaves((30, "f", FILE + READS), (1, "f", FILE + COPIES), (2, "loads", FILE + COPIES))
    assert found == {"fault.file": 31, "fault.cow": 2}


def test_shared_memory_is_no_private_mapping_because_a_library_is_loaded() -> None:
    shared = FILE + " __do_fault shmem_fault shmem_get_folio_gfp clear_page_erms"
    assert leaves((50, "f", shared), (9, "loads", FILE + COPIES)) == {"fault.file": 50, "fault.cow": 9}


def test_pages_that_are_made_while_they_are_pinned_are_not_asked() -> None:
    pin = "entry_SYSCALL_64 do_syscall_64 pin_user_pages __get_user_pages handle_mm_fault __handle_mm_fault do_wp_page"
    assert leaves((9, "f", pin + CLEARS)) == {"pin.faultin": 9}
