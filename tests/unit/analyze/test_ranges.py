"""Which samples a range counts, and which instances are one range."""

from __future__ import annotations

from pinprof.analyze import Analysis, RangeResult, analyze, build_tree, in_range
from tests.stacks import Range, Sample, capture

APP = ["main@/app"]


def only(result: Analysis, name: str) -> RangeResult:
    (found,) = [entry for entry in result.ranges if entry.name == name]
    return found


def total(result: Analysis, name: str) -> int:
    return only(result, name).events[0].total


def test_ranges_are_half_open() -> None:
    samples = [Sample(APP, 1, time_ns=time) for time in (9, 10, 19, 20)]
    assert total(analyze(capture(samples, [Range("a", 10, 20)])), "a") == 2


def test_a_range_counts_all_threads_of_its_process_and_no_other() -> None:
    samples = [Sample(APP, 1, pid=1, tid=1), Sample(APP, 10, pid=1, tid=2), Sample(APP, 100, pid=3, tid=3)]
    assert total(analyze(capture(samples, [Range("a", 0, 1, pid=1, tid=1)])), "a") == 11


def test_a_range_counts_kernel_threads_but_not_idle_cpus() -> None:
    kernel = ["ret_from_fork_asm", "kthread", "replayable_faults_isr_bottom_half[nvidia_uvm]"]
    samples = [
        Sample(APP, 1, pid=1, tid=1),
        Sample(kernel, 10, pid=70, tid=70),
        Sample(kernel, 100, pid=0, tid=0),
        Sample(["cpu_startup_entry", "do_idle"], 1000, pid=0, tid=0),
    ]
    for pid in (1, -1):
        assert total(analyze(capture(samples, [Range("a", 0, 1, pid=pid, tid=pid)])), "a") == 111


def test_a_range_of_a_process_that_was_never_sampled_counts_everything() -> None:
    samples = [Sample(APP, 1, pid=1), Sample(APP, 10, pid=2)]
    assert total(analyze(capture(samples, [Range("a", 0, 1, pid=4000)])), "a") == 11


def test_instances_add_up_and_overlapping_ones_count_a_sample_once() -> None:
    samples = [Sample(APP, 1, time_ns=time) for time in range(10)]
    ranges = [Range("a", 0, 4, tid=1), Range("a", 2, 6, tid=2), Range("a", 8, 9, tid=1)]
    entry = only(analyze(capture(samples, ranges)), "a")
    assert (entry.count, entry.wall_ns, entry.events[0].total) == (3, 9, 7)
    assert (entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns) == (1, 4, 4)


def test_a_name_is_another_range_under_another_parent_or_domain() -> None:
    ranges = [
        Range("x", 0, 10),
        Range("copy", 0, 5, depth=1),
        Range("y", 10, 20),
        Range("copy", 10, 15, depth=1),
        Range("copy", 16, 17, depth=1, domain="other"),
    ]
    result = analyze(capture([Sample(APP, 1, time_ns=time) for time in range(20)], ranges))
    assert [(entry.path, entry.domain, entry.events[0].total) for entry in result.ranges] == [
        (("x",), "pinprof", 10),
        (("x", "copy"), "pinprof", 5),
        (("y",), "pinprof", 10),
        (("y", "copy"), "pinprof", 5),
        (("y", "copy"), "other", 1),
    ]


def test_nesting_is_a_matter_of_one_thread() -> None:
    ranges = [Range("outer", 0, 10, tid=1, pid=1), Range("inner", 2, 4, depth=1, tid=2, pid=1)]
    result = analyze(capture([Sample(APP, 1, pid=1, tid=1)], ranges))
    assert only(result, "inner").path == ("inner",)


def test_on_cpu_time_is_that_of_the_ranges_own_thread() -> None:
    samples = [Sample(APP, 5, pid=1, tid=1), Sample(APP, 7, pid=1, tid=2)]
    known = analyze(capture(samples, [Range("a", 0, 1, pid=1, tid=1), Range("b", 0, 1, pid=1, tid=-1)]))
    assert only(known, "a").own_thread_ns == 5
    assert only(known, "b").own_thread_ns is None


def test_the_call_tree_of_a_range_holds_what_the_range_counts() -> None:
    samples = [Sample([*APP, "f@/app"], 1, time_ns=1), Sample(APP, 2, time_ns=2), Sample(APP, 4, time_ns=9)]
    result = analyze(capture(samples, [Range("a", 0, 5)]))
    tree = build_tree(result, 0, in_range(result, "a"))
    assert int(tree.self_weight.sum()) == total(result, "a") == 3


def test_the_call_tree_keeps_parents_first_and_names_causes() -> None:
    fault = ["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page"]
    samples = [Sample([*APP, *fault], 7), Sample(APP, 3), Sample([], 5), Sample(["other@/app"], 1, event=0)]
    result = analyze(capture(samples))
    tree = build_tree(result, 0)
    names = [tree.frames.symbol[frame] for frame in tree.frame]
    assert names == ["main", *fault, "other"]
    assert tree.total_weight.tolist() == [10, 7, 7, 7, 7, 1]
    assert tree.self_weight.tolist() == [3, 0, 0, 0, 7, 1]
    assert all(parent < node for node, parent in enumerate(tree.parent.tolist()))
    assert tree.no_stack == 5
    from pinprof.analyze import CATEGORIES

    assert [CATEGORIES[leaf].name for leaf in tree.leaf[[0, 1, 5]]] == ["fault.anon", "fault.anon", "user.app"]
    assert tree.decided[4] == 4
    assert [depth for _, depth in tree.walk()] == [0, 1, 2, 3, 4, 0]
