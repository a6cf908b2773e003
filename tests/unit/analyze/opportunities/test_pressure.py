"""The kernel frees memory, makes room for huge pages or balances nodes: the cause is named, and huge pages are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pinprof.analyze.opportunities import pages, pressure
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.scene import Scene
from pinprof.data.model import Capture
from tests.support.scenes import FAULT, HUGE, MAIN, MS, SMALL, prices, ran, recorded, scene, waited

ALLOCATES = (*FAULT, "do_anonymous_page", "vma_alloc_folio_noprof", "__alloc_pages_slowpath.constprop.0")
FREES = ("do_try_to_free_pages", "shrink_node", "shrink_lruvec", "shrink_folio_list")
CHARGED = (
    *FAULT,
    "do_anonymous_page",
    "__mem_cgroup_charge",
    "try_charge_memcg",
    "try_to_free_mem_cgroup_pages",
    *FREES,
)
NONE_LEFT = (*ALLOCATES, "try_to_free_pages", *FREES)
OVER_HIGH = (*MAIN, "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "exit_to_user_mode_loop",
             "__mem_cgroup_handle_over_high", "reclaim_high", "try_to_free_mem_cgroup_pages", *FREES)  # fmt: skip
COMPACTS = (*ALLOCATES, "__alloc_pages_direct_compact", "try_to_compact_pages", "compact_zone_order", "compact_zone")
FOR_HUGE = (*FAULT, "do_huge_pmd_anonymous_page", *NONE_LEFT[len(FAULT) :])
HINTED = (*FAULT, "do_numa_page", "numa_migrate_check")
SCANS = (*MAIN, "asm_sysvec_apic_timer_interrupt", "irqentry_exit_to_user_mode", "task_work_run", "task_numa_work",
         "change_prot_numa")  # fmt: skip
DROPS = (*MAIN, "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_fadvise64", "generic_fadvise",
         "mapping_try_invalidate", "mapping_evict_folio", "try_to_free_buffers")  # fmt: skip
LOADS = (*FAULT, "do_fault", "__do_fault", "filemap_fault", "filemap_add_folio", "__mem_cgroup_charge", "charge_memcg")
NOT_YET = (*MAIN, "app")


def run(*parts: tuple[int, Sequence[str]], changed: Capture | None = None) -> Scene:
    samples, now = [], 0
    for duration, stack in (*parts, (400, NOT_YET)):
        samples += ran(now, now + duration, stack)
        now += duration
    return scene(changed or recorded(samples))


@pytest.mark.parametrize(
    ("stack", "cure", "says"),
    [
        (CHARGED, "memory-limit", "its control group has reached its memory limit"),
        (OVER_HIGH, "memory-limit", "its control group has reached its memory limit"),
        (NONE_LEFT, "memory-limit", "the machine has none left"),
        (COMPACTS, "defer-compaction", "to make room for huge ones"),
        (FOR_HUGE, "defer-compaction", "to make room for huge ones"),
        (HINTED, "bind-memory", "NUMA balancing"),
        (SCANS, "bind-memory", "NUMA balancing"),
    ],
)
def test_what_the_kernel_does_has_a_cure_of_its_own(stack: Sequence[str], cure: str, says: str) -> None:
    (one,) = pressure.memory_pressure(run((100, stack)))
    assert (one.cure.id, one.cost_ns, one.site.place) == (cure, 100 * MS, "main")
    assert says in one.title
    assert 0 < one.saving.low_ns <= one.saving.likely_ns <= one.saving.high_ns == 100 * MS


@pytest.mark.parametrize("stack", [SMALL, LOADS, DROPS, NOT_YET])
def test_memory_that_is_there_or_that_the_program_drops_itself_is_no_pressure(stack: Sequence[str]) -> None:
    assert list(pressure.memory_pressure(run((100, stack)))) == []


def test_few_samples_of_it_are_chance_and_one_wait_is_not() -> None:
    assert list(pressure.memory_pressure(run((4, CHARGED)))) == []
    samples = [
        *ran(0, 100, NOT_YET),
        *waited(100, 104, (*CHARGED, "reclaim_throttle", "schedule")),
        *ran(104, 300, MAIN),
    ]
    (one,) = pressure.memory_pressure(scene(recorded(samples)))
    assert one.cost_ns == 4 * MS


def test_limit_of_the_control_group_is_said_where_it_is_known() -> None:
    made = recorded(ran(0, 100, CHARGED))
    limited = replace(made, manifest=replace(made.manifest, host={"memory_limit_bytes": 512 << 20}))
    (one,) = pressure.memory_pressure(scene(limited))
    assert "The control group may use 512 MiB of memory." in [evidence.text for evidence in one.evidence]
    (unknown,) = pressure.memory_pressure(scene(made))
    assert not any("control group may" in evidence.text for evidence in unknown.evidence)


@pytest.mark.parametrize(("huge", "saved"), [(0, 90), (100, 40), (300, 0)])
def test_small_pages_in_place_of_huge_ones_are_paid_for(huge: int, saved: int) -> None:
    samples = [*ran(0, 100, COMPACTS), *ran(100, 100 + huge, HUGE), *ran(100 + huge, 800, NOT_YET)]
    (one,) = pressure.memory_pressure(scene(recorded(samples), prices(touch_huge=100_000)))
    assert one.saving.likely_ns == pytest.approx(saved * MS, abs=MS)
    assert any("in place of all huge ones" in text for text in one.basis) == bool(huge)


def huge_pages(found: Sequence[Candidate]) -> list[str]:
    return [one.cure.id for one in found]


@pytest.mark.parametrize(("pressed", "left"), [(19, ["huge-pages"]), (20, [])])
@pytest.mark.parametrize("stack", [CHARGED, NONE_LEFT, COMPACTS])
def test_huge_pages_are_no_cure_where_the_kernel_has_to_find_the_memory(
    stack: Sequence[str], pressed: int, left: list[str]
) -> None:
    assert huge_pages(list(pages.page_costs(run((100, SMALL))))) == ["huge-pages"]
    assert huge_pages(list(pages.page_costs(run((100, SMALL), (pressed, stack))))) == left
