"""The order of the passes, what a stack alone cannot say, and that no weight is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import CATEGORIES, LEAF, WORK_ATTRIBUTES, analyze
from pinprof.analyze.attribution.attribute import walk
from pinprof.analyze.attribution.heuristics import LOOP_ADDRESSES, LOOP_SAMPLES, in_loop
from pinprof.analyze.attribution.matching import kernel_frame, normalise
from pinprof.data.model import Capture
from tests.support.examples import examples
from tests.support.stacks import CLOCK, FAULTS, Range, Sample, capture
from tests.support.work import calls

LIBCUDA = "[libcuda.so.580.159.04]@/usr/lib/libcuda.so.580.159.04"
FAULT = ["main@/app", "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page"]


def leaf_of(stack: list[str]) -> str:
    (leaf,) = analyze(capture([Sample(stack)])).events[0].by_leaf
    return leaf


def decided_by(stack: list[str]) -> str:
    data = capture([Sample(stack)])
    found = walk(data.stacks)
    return data.stacks.frames.symbol[data.stacks.frame[found.decided[data.samples.stack[0]]]]


@pytest.mark.parametrize(
    ("symbol", "plain"),
    [
        ("__x64_sys_mmap", "sys_mmap"),
        ("__arm64_sys_mmap", "sys_mmap"),
        ("__se_sys_mmap", "sys_mmap"),
        ("__do_sys_mmap", "sys_mmap"),
        ("uvm_vm_fault_entry.part.0", "uvm_vm_fault_entry"),
        ("pofs_get_folio.part.0.isra.0", "pofs_get_folio"),
        ("__alloc_frozen_pages_noprof", "__alloc_frozen_pages"),
        ("alloc.constprop.0.cold", "alloc"),
        ("do_fault.llvm.1234", "do_fault"),
        ("__pfx_do_fault", "do_fault"),
        ("__pi_clear_page", "clear_page"),
        ("do_fault+0x1f/0x200", "do_fault"),
        ("do_fault.localalias", "do_fault"),
    ],
)
def test_names_lose_what_compilers_and_kernels_add(symbol: str, plain: str) -> None:
    assert normalise(symbol) == plain


def test_an_interrupt_takes_the_sample_from_the_work_it_interrupts() -> None:
    assert leaf_of([*FAULT, "asm_sysvec_apic_timer_interrupt", "handle_softirqs"]) == "sys.irq"


def test_work_on_the_way_out_of_an_interrupt_is_the_tasks_own() -> None:
    way_out = ["asm_sysvec_apic_timer_interrupt", "irqentry_exit_to_user_mode", "exit_to_user_mode_loop"]
    assert leaf_of(["main@/app", *way_out, "task_work_run", "____fput", "shmem_evict_inode"]) == "free.shmem"


def test_an_interrupt_on_the_way_out_of_an_interrupt_is_an_interrupt() -> None:
    way_out = ["asm_common_interrupt", "exit_to_user_mode_loop", "asm_sysvec_reschedule_ipi"]
    assert leaf_of(["main@/app", *way_out]) == "sys.irq"


def test_a_timer_in_the_middle_of_a_driver_call_is_not_the_drivers_interrupt() -> None:
    assert leaf_of(["rm_ioctl[nvidia]", "asm_sysvec_apic_timer_interrupt"]) == "sys.irq"


def test_the_innermost_specific_frame_wins() -> None:
    stack = ["nv_dma_map_alloc[nvidia]", "dma_map_sg_attrs", "swiotlb_map"]
    assert (leaf_of(stack), decided_by(stack)) == ("dma.bounce", "swiotlb_map")
    assert leaf_of(["nv_dma_map_alloc[nvidia]", "nv_alloc_system_pages[nvidia]"]) == "rm.sysmem"


def test_the_outermost_named_uvm_frame_wins_over_later_ones_and_over_unnamed_ones() -> None:
    stack = ["uvm_ioctl[nvidia_uvm]", "uvm_api_free[nvidia_uvm]", "uvm_migrate[nvidia_uvm]"]
    assert (leaf_of(stack), decided_by(stack)) == ("uvm.free", "uvm_api_free")


def test_memory_management_under_uvm_stays_uvm() -> None:
    assert leaf_of(["uvm_api_migrate[nvidia_uvm]", "get_user_pages", "handle_mm_fault", "do_anonymous_page"]) == (
        "uvm.migrate"
    )


def test_uvm_rules_match_only_frames_of_the_uvm_module() -> None:
    assert leaf_of(["uvm_api_migrate[nvidia]"]) == "rm.other"
    assert leaf_of(["os_lock_user_pages[nvidia_uvm]"]) == "uvm.other"
    assert leaf_of(["pin_user_pages@/app"]) == "user.app"


def test_modules_are_known_by_brackets_and_by_file() -> None:
    assert leaf_of(["uvm_api_free[nvidia-uvm]"]) == "uvm.free"


def test_only_what_lies_inside_the_nearest_context_tells_its_kind() -> None:
    # The outer fault is anonymous, the inner one has no handler yet.
    assert leaf_of([*FAULT, "asm_exc_page_fault", "exc_page_fault"]) == "fault.entry"


def test_a_fault_taken_while_reading_arguments_of_a_pin_is_a_fault() -> None:
    pin = ["os_lock_user_pages[nvidia]", "pin_user_pages"]
    assert leaf_of(["main@/app", *pin, "asm_exc_page_fault", "exc_page_fault"]) == "fault.entry"


def test_populating_stays_populating_although_it_walks_with_get_user_pages() -> None:
    stack = ["__mm_populate", "populate_vma_page_range", "__get_user_pages", "handle_mm_fault", "do_anonymous_page"]
    assert leaf_of(["main@/app", *stack]) == "populate"


def test_a_pinner_outweighs_a_borrower_on_the_same_stack() -> None:
    borrow = ["process_vm_rw", "pin_user_pages_remote", "follow_page_pte"]
    assert leaf_of(borrow) == "pin.transient"
    assert leaf_of(["os_lock_user_pages[nvidia]", *borrow]) == "pin.walk"


def test_unmapping_a_file_that_keeps_its_pages_is_not_freeing() -> None:
    assert leaf_of(["sys_munmap", "unmap_page_range"]) == "free.unmap"
    assert leaf_of(["sys_ftruncate", "unmap_mapping_range", "unmap_page_range"]) == "mm.vma"


def test_truncating_shared_memory_stays_freeing_while_it_unmaps() -> None:
    stack = ["shmem_evict_inode", "shmem_undo_range", "unmap_mapping_folio", "unmap_page_range"]
    assert leaf_of(stack) == "free.shmem"


def test_the_kernel_never_calls_user_code_so_kernel_addresses_outside_it_are_ignored() -> None:
    assert leaf_of(["[unknown]", "main@/app"]) == "user.app"


def test_the_deciding_frame_of_a_fault_in_a_pin_is_the_fault_handler() -> None:
    stack = ["main@/app", "os_lock_user_pages[nvidia]", "pin_user_pages", "__get_user_pages", "handle_mm_fault"]
    assert decided_by(stack) == "handle_mm_fault"
    assert decided_by(stack[:-1]) == "__get_user_pages"


def test_a_copy_is_staging_when_libcuda_is_at_most_six_frames_away() -> None:
    path = [f"f{number}@/app" for number in range(5)]
    assert leaf_of([LIBCUDA, *path, "memcpy@/usr/lib/libc.so.6"]) == "copy.staging"
    assert leaf_of([LIBCUDA, *path, "f5@/app", "memcpy@/usr/lib/libc.so.6"]) == "copy.user"


def test_kernel_threads_of_uvm_service_gpu_faults_whatever_their_stack_says() -> None:
    stack = ["ret_from_fork_asm", "kthread", "schedule"]
    for name, leaf in (("UVM GPU1 BH", "uvm.gpu_fault"), ("UVM GPU12 KC", "uvm.gpu_fault"), ("UVM tools", "sys.sched")):
        assert list(analyze(capture([Sample(stack)], threads={(100, 100): name})).events[0].by_leaf) == [leaf]


def test_the_idle_task_is_never_taken_for_a_uvm_thread() -> None:
    idle = Sample(["cpu_startup_entry", "do_idle"], pid=0, tid=0)
    assert list(analyze(capture([idle], threads={(0, 0): "UVM GPU1 BH"})).events[0].by_leaf) == ["sys.idle"]


def copy_loop(samples: int, addresses: int, stack: list[str] | None = None) -> list[Sample]:
    return [
        Sample(stack or ["main@/app", LIBCUDA, LIBCUDA], time_ns=number, ip=0x1000 + 8 * (number % addresses))
        for number in range(samples)
    ]


def test_a_tight_loop_of_libcuda_inside_a_copy_range_is_staging_and_marked_heuristic() -> None:
    result = analyze(capture(copy_loop(LOOP_SAMPLES, LOOP_ADDRESSES), [Range("h2d", 0, 1000)])).events[0]
    assert result.by_work == {"copy.staging": {"copy": 20_000_000}}
    assert result.heuristic == result.total


@pytest.mark.parametrize(
    ("samples", "addresses", "name"),
    [(LOOP_SAMPLES - 1, LOOP_ADDRESSES, "h2d"), (LOOP_SAMPLES, LOOP_ADDRESSES - 1, "h2d"), (50, 6, "alloc")],
)
def test_too_few_samples_too_few_addresses_or_no_copy_range_prove_no_staging(
    samples: int, addresses: int, name: str
) -> None:
    data = capture(copy_loop(samples, addresses), [Range(name, 0, 1000)])
    assert list(analyze(data).events[0].by_leaf) == ["user.libcuda"]


def test_a_copy_function_on_the_stack_replaces_the_copy_range() -> None:
    stack = ["main@/app", "cudaMemcpy@/app", LIBCUDA]
    assert list(analyze(capture(copy_loop(20, 6, stack))).events[0].by_leaf) == ["copy.staging"]


def test_the_scenarios_call_tells_that_a_phase_copies() -> None:
    data = capture(copy_loop(20, 6), [Range("phase", 0, 1000)], scenario={"calls": {"phase": "cuMemcpyHtoD"}})
    assert list(analyze(data).events[0].by_leaf) == ["copy.staging"]


def test_a_loop_that_reads_the_clock_is_polling_even_inside_a_copy_range() -> None:
    spin = ["main@/app", LIBCUDA, LIBCUDA]
    clock = [Sample([*spin, "[libc.so.6]@/usr/lib/libc.so.6", "[vdso]@[vdso]"], time_ns=100 + n) for n in range(5)]
    result = analyze(capture([*copy_loop(20, 6, spin), *clock], [Range("h2d", 0, 1000)])).events[0]
    assert result.by_work == {"sync.poll": {"gpuwait": 25_000_000}}


def test_rare_clock_reads_do_not_turn_a_copy_into_polling() -> None:
    loop = ["main@/app", LIBCUDA, LIBCUDA]
    clock = [Sample([*loop, "[vdso]@[vdso]"], time_ns=500)]
    result = analyze(capture([*copy_loop(100, 6, loop), *clock], [Range("h2d", 0, 1000)])).events[0]
    assert result.by_leaf == {"copy.staging": 100_000_000, "sync.poll": 1_000_000}


def test_a_stripped_libc_copies_inside_a_copy_range_even_with_a_single_instruction() -> None:
    data = capture(copy_loop(20, 1, ["main@/app", "[libc.so.6]@/usr/lib/libc.so.6"]), [Range("d2h", 0, 1000)])
    assert list(analyze(data).events[0].by_leaf) == ["copy.user"]


def test_addresses_out_of_reach_of_each_other_are_no_loop() -> None:
    assert not in_loop(np.arange(40, dtype=np.uint64) * np.uint64(64)).any()


def test_events_are_kept_apart() -> None:
    data = capture([Sample(FAULT), Sample(["main@/app"], 64, event=1)], events=(CLOCK, FAULTS))
    clock, faults = analyze(data).events
    assert (clock.by_leaf, faults.by_leaf) == ({"fault.anon": 1_000_000}, {"user.app": 64})


def test_an_empty_capture_is_analysed() -> None:
    result = analyze(capture([]))
    assert (result.events[0].total, result.ranges, result.findings) == (0, (), ())
    assert result.headline == (
        "This recording cannot show host-memory costs, because it has no samples; record with `pinprof record`."
    )


VOCABULARY = [
    "main@/app", LIBCUDA, "memcpy@/usr/lib/libc.so.6", "[vdso]@[vdso]", "[libc.so.6]@/usr/lib/libc.so.6",
    "[anon]@[anon]",
    "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_ioctl", "__x64_sys_munmap", "asm_exc_page_fault",
    "exc_page_fault", "handle_mm_fault", "do_anonymous_page", "do_wp_page", "clear_page_erms", "_raw_spin_lock",
    "pin_user_pages", "__get_user_pages", "os_lock_user_pages[nvidia]", "rm_ioctl[nvidia]", "unpin_user_page",
    "populate_vma_page_range", "uvm_ioctl[nvidia_uvm]", "uvm_vm_fault_entry[nvidia_uvm]", "shmem_undo_range",
    "unmap_page_range", "unmap_mapping_range", "asm_common_interrupt", "exit_to_user_mode_loop", "do_idle",
    "handle_userfault", "io_pin_pages", "process_vm_rw", "drm_ioctl[drm]", "[unknown]", "ret_from_fork_asm",
]  # fmt: skip

SAMPLES = st.builds(
    Sample,
    stack=st.lists(st.sampled_from(VOCABULARY), max_size=12),
    weight=st.integers(1, 2**45),
    time_ns=st.integers(0, 100),
    pid=st.sampled_from([-1, 0, 7, 8]),
    tid=st.sampled_from([0, 7, 8, 9]),
    event=st.integers(0, 1),
    ip=st.integers(0, 2**64 - 1),
)
RANGES = st.builds(
    lambda name, start, length, depth, pid, tid: Range(name, start, start + length, depth, pid, tid),
    st.sampled_from(["a", "b", "h2d"]), st.integers(0, 100), st.integers(0, 60), st.integers(0, 2),
    st.sampled_from([-1, 7, 8, 55]), st.sampled_from([-1, 7, 8, 9]),
)  # fmt: skip


def weight_in(data: Capture, name: str) -> int:
    """What a range name counts, the slow way, where no process is known."""
    times = data.samples.time_ns
    inside = np.zeros(len(times), np.bool_)
    for own, start, end in zip(data.ranges.name, data.ranges.start_ns, data.ranges.end_ns, strict=True):
        inside |= (own == name) & (times >= start) & (times < end)
    return int(data.samples.weight[inside].sum())


@pytest.mark.slow
@examples(150)
@given(st.lists(SAMPLES, max_size=30), st.lists(RANGES, max_size=8))
def test_leaves_sum_to_the_total_exactly_everywhere(samples: list[Sample], ranges: list[Range]) -> None:
    data = capture(samples, ranges, events=(CLOCK, FAULTS))
    result = analyze(data)
    weights = [int(data.samples.weight[data.samples.event == number].sum()) for number in range(2)]
    assert [sum(event.by_leaf.values()) for event in result.events] == weights
    for event in (*result.events, *(event for entry in result.ranges for event in entry.events)):
        assert event.total == sum(event.by_leaf.values()) == sum(event.by_level.values())
        assert {leaf: sum(work.values()) for leaf, work in event.by_work.items()} == dict(event.by_leaf)
        assert all(weight <= event.total for weight in (*event.inclusive.values(), event.heuristic))
    for entry in result.ranges:
        assert all(part.total <= whole.total for part, whole in zip(entry.events, result.events, strict=True))


@pytest.mark.slow
@examples(100)
@given(st.lists(SAMPLES.filter(lambda sample: sample.pid != 0), min_size=1, max_size=20), st.lists(RANGES, max_size=6))
def test_a_flat_range_of_no_known_process_counts_every_sample_inside_once(
    samples: list[Sample], ranges: list[Range]
) -> None:
    flat = [Range(entry.name, entry.start_ns, entry.end_ns) for entry in ranges]
    data = capture(samples, flat, events=(CLOCK, FAULTS))
    for entry in analyze(data).ranges:
        assert sum(event.total for event in entry.events) == weight_in(data, entry.name)


def grown_capture(size: int, ranges: int) -> Capture:
    """Two stacks in that many samples, and that many ranges one after another under two names."""
    one = capture([Sample(FAULT), Sample(["main@/app"])], [Range("step", 0, 1)])
    generator = np.random.default_rng(1)
    grown = one.samples.take(np.resize(np.arange(len(one.samples)), size))
    samples = replace(grown, time_ns=np.sort(generator.integers(0, 10**9, size)))
    starts = np.arange(ranges, dtype=np.int64) * 10_000
    table = one.ranges
    return Capture(
        **{
            **one.__dict__,
            "samples": samples,
            "ranges": type(table)(
                name=("step", "h2d") * (ranges // 2),
                domain=("",) * ranges,
                start_ns=starts,
                end_ns=starts + 9_000,
                pid=np.full(ranges, 100, np.int32),
                tid=np.full(ranges, 100, np.int32),
                depth=np.zeros(ranges, np.int32),
            ),
        }
    )


@pytest.mark.slow
def test_neither_samples_nor_ranges_take_a_step_each() -> None:
    small, large = grown_capture(10_000, 1_000), grown_capture(200_000, 1_000)
    analyze(small)
    few = calls(lambda: analyze(small))
    # What is made a part at a time takes a step for each 65,536 samples.
    assert calls(lambda: analyze(large)) < 1.2 * few
    many = grown_capture(200_000, 20_000)
    assert {entry.count for entry in analyze(many).ranges} == {10_000}
    assert calls(lambda: analyze(grown_capture(10_000, 2_000))) < 2.2 * few


def test_indices_fit_their_tables() -> None:
    assert [CATEGORIES[index].name for index in LEAF.values()] == list(LEAF)
    assert WORK_ATTRIBUTES[-1] == "other"


@pytest.mark.parametrize("name", ["do_fault" + ".isra.0" * 9000, "+0x1" * 16_000, "_" * 60_000 + "isr"])
def test_names_longer_than_any_of_a_kernel_match_nothing_and_cost_little(name: str) -> None:
    assert kernel_frame(name, "") == kernel_frame("nobody_knows", "")
