"""Which samples a range counts, and which instances are one range."""

from __future__ import annotations

from pinprof.analyze import RangeResult, Run, analyze
from tests.support.stacks import Range, Sample, capture

APP = ["main@/app"]


def only(result: Run, name: str) -> RangeResult:
    (found,) = [entry for entry in result.ranges if entry.name == name]
    return found


def total(result: Run, name: str) -> int:
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
    assert [(entry.path.names, entry.domain, entry.events[0].total) for entry in result.ranges] == [
        (("x",), "pinprof", 10),
        (("x", "copy"), "pinprof", 5),
        (("y",), "pinprof", 10),
        (("y", "copy"), "pinprof", 5),
        (("y", "copy"), "other", 1),
    ]


def test_nesting_is_a_matter_of_one_thread() -> None:
    ranges = [Range("outer", 0, 10, tid=1, pid=1), Range("inner", 2, 4, depth=1, tid=2, pid=1)]
    result = analyze(capture([Sample(APP, 1, pid=1, tid=1)], ranges))
    assert only(result, "inner").path.names == ("inner",)


def test_on_cpu_time_is_that_of_the_ranges_own_thread() -> None:
    samples = [Sample(APP, 5, pid=1, tid=1), Sample(APP, 7, pid=1, tid=2)]
    known = analyze(capture(samples, [Range("a", 0, 1, pid=1, tid=1), Range("b", 0, 1, pid=1, tid=-1)]))
    assert only(known, "a").own_thread_ns == 5
    assert only(known, "b").own_thread_ns is None
