"""The sentence on top, and the explanation of a leaf."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinprof.analyze import Run, analyze
from pinprof.base.errors import UsageError
from pinprof.data.model import Event
from pinprof.report.explanation import explain
from tests.support.stacks import CLOCK, FAULTS, OFF_CPU, Range, Sample, capture
from tests.unit.analyze.test_rules import MS, STACKS, mixed


def test_a_pinning_call_is_named_as_the_scenario_names_it() -> None:
    samples = [Sample(STACKS["pin.faultin"], MS, time_ns=time) for time in range(87)]
    samples += [Sample(STACKS["pin.walk"], MS, time_ns=time) for time in range(7)]
    samples += [Sample(["main@/app"], MS, time_ns=time) for time in range(6)]
    data = capture(samples, [Range("alloc", 0, 100)], scenario={"name": "pinned", "calls": {"alloc": "cudaMallocHost"}})
    assert analyze(data).headline == "94 % of cudaMallocHost is pin_user_pages; 87 % is creating the pages."


def test_a_host_emulation_is_named_so() -> None:
    scenario = {"name": "uvm", "backend": "host", "calls": {"alloc": "IORING_REGISTER_BUFFERS"}}
    pinning = capture([Sample(STACKS["pin.walk"])] * 100, [Range("alloc", 0, 1)], scenario=scenario)
    assert analyze(pinning).headline.startswith("100 % of IORING_REGISTER_BUFFERS (host emulation) is pin_user_pages")
    serving = capture([Sample(["userfaultfd_ioctl"])] * 100, [Range("iteration", 0, 1)], scenario=scenario)
    assert analyze(serving).headline.startswith("100 % of uvm (host emulation) is userfaultfd filling pages")


def test_pinning_pages_that_exist_is_said_so() -> None:
    data = capture([Sample(STACKS["pin.walk"])] * 100, [Range("register", 0, 1)])
    assert analyze(data).headline == ("100 % of the register range is pin_user_pages, of pages that already exist.")


def test_without_a_pinning_call_the_outermost_range_is_told_by_its_memory_costs() -> None:
    data = mixed({"fault.anon": 52, "copy.staging": 25})
    told = " is page faults; 25 % is staging copies by the driver (100 ms sampled)."
    assert analyze(data).headline == "52 % of the work range" + told
    scenario = {"name": "pageable", "backend": "host"}
    named = replace(data, manifest=capture([], scenario=scenario).manifest)
    assert analyze(named).headline == "52 % of pageable (host emulation)" + told


def test_a_program_without_ranges_is_told_by_all_its_time() -> None:
    assert analyze(capture([Sample(STACKS["uvm.cpu_fault"], MS)] * 100)).headline == (
        "100 % of the CPU time is CPU faults on managed memory (100 ms sampled)."
    )


def test_a_program_without_memory_costs_is_told_so() -> None:
    assert analyze(mixed({})).headline == ("100 % of the work range is the program's own code; memory costs are low.")


def test_a_recording_without_the_kernels_part_does_not_say_that_memory_is_no_matter() -> None:
    data = mixed({})
    manifest = replace(data.manifest, collectors=({"name": "native", "options": {"kernel": False}},))
    found = analyze(replace(data, manifest=manifest))
    assert found.headline == (
        "This recording cannot show host-memory costs, because the kernel was not sampled; run `pinprof doctor` for "
        "the fix. 100 % of its 100 ms of cpu-clock is in main."
    )
    status = {verdict.rule: verdict.status for verdict in found.findings}
    assert status["sampling-gap"] == "fired"
    assert "clear" not in status.values()
    assert found.findings[0].severity == "warning"
    assert "pinprof doctor" in found.findings[0].advice


def test_a_kernel_without_names_is_not_taken_for_one_without_memory_costs() -> None:
    def of(unnamed: int) -> Run:
        stacks = [["main@/app", "[kernel.kallsyms]"]] * unnamed + [["main@/app"]] * (100 - unnamed)
        return analyze(capture([Sample(stack, MS, time_ns=time * MS) for time, stack in enumerate(stacks)]))

    found = of(60)
    assert found.answer.startswith(
        "This recording cannot show host-memory costs, because kernel functions have no names; give the recording "
        "kernel's kallsyms with --kallsyms. 40 % of its 100 ms"
    )
    status = {verdict.rule: verdict.status for verdict in found.findings}
    for rule in ("first-touch", "first-touch-in-pin", "freeing", "compaction", "managed-cpu-faults", "no-huge-pages"):
        assert status[rule] == "not-assessable"
    assert found.opportunities is not None
    assert any("--kallsyms" in line for line in found.opportunities.unseen)
    named = of(10)
    assert named.answer.startswith("Nothing to gain")
    assert {verdict.rule: verdict.status for verdict in named.findings}["first-touch"] == "clear"


def test_a_recording_without_time_is_told_by_what_it_counts() -> None:
    data = capture([Sample(["main@/app", "memset@/libc.so.6"], 64)] * 97, events=(FAULTS,))
    found = analyze(data)
    assert found.headline == (
        "This recording cannot show host-memory costs, because it samples page faults, not time on processors; record "
        "with `pinprof record`. 100 % of its 6,208 faults is in memset."
    )
    assert {verdict.status for verdict in found.findings if verdict.rule != "sampling-gap"} == {"not-assessable"}


def test_events_inside_the_kernel_are_told_by_what_called_it() -> None:
    switch = Event("sched:sched_switch", "events", 1, None)
    asleep = ["main@/app", "read@/libc.so.6", "do_syscall_64", "schedule", "__schedule"]
    thread = ["kthread", "schedule", "__schedule"]
    found = analyze(capture([Sample(asleep, 1)] * 97 + [Sample(thread, 1)] * 20, events=(switch,)))
    assert found.headline == (
        "This recording cannot show host-memory costs, because it samples sched:sched_switch, not time on processors; "
        "record with `pinprof record`. 83 % of its 117 events of sched:sched_switch is in read."
    )


def test_what_was_counted_between_samples_has_an_amount_and_no_place() -> None:
    counted = Event("sched:sched_stat_runtime", "ns", None, None, counted=True)
    stack = ["main@/app", "asm_sysvec_apic_timer_interrupt", "update_curr"]
    found = analyze(capture([Sample(stack, MS)] * 200, events=(counted,)))
    assert found.headline == (
        "This recording cannot show host-memory costs, because it samples sched:sched_stat_runtime (counted between "
        "samples), not time on processors; record with `pinprof record`. It counted 200 ms of "
        "sched:sched_stat_runtime; where is not known."
    )
    assert dict(found.events[0].by_leaf) == {"lost.place": 200 * MS}
    assert {verdict.status for verdict in found.findings if verdict.rule != "sampling-gap"} == {"not-assessable"}


def test_an_unknown_leaf_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"There is no cause 'pin\.fault'.*pin\.faultin"):
        explain(analyze(capture([Sample(["main@/app"])])), "pin.fault")


def test_a_level_names_its_leaves() -> None:
    with pytest.raises(UsageError, match=r"'pin' is a group.*pin\.faultin, pin\.walk"):
        explain(analyze(capture([Sample(["main@/app"])])), "pin")


def test_a_leaf_without_samples_is_explained_all_the_same() -> None:
    text = str(explain(analyze(capture([Sample(["main@/app"])])), "pin.faultin"))
    assert "This recording has no samples with this cause." in text


def test_the_stack_marks_the_frame_that_decided() -> None:
    explanation = explain(analyze(mixed({"fault.anon": 40})), "fault.anon")
    (stack,) = explanation.stacks
    assert [step.frame.symbol for step in stack.steps if step.decided] == ["do_anonymous_page"]
    assert "▶ do_anonymous_page" in str(explanation)
    assert "40 % (40 ms)" in str(explanation)


def test_too_few_samples_carry_neither_a_share_nor_a_verdict() -> None:
    stack = ["main@/app", "do_syscall_64", "__x64_sys_munmap", "unmap_region"]
    clock = replace(CLOCK, name="cpu-clock/freq=999/", period=None, freq_hz=999)
    found = analyze(capture([Sample(stack, MS, time_ns=time) for time in range(96)], events=(clock,)))
    assert (
        found.headline
        == "There are too few samples to show where the time went: 96 of CPU time (96 ms); 97 are needed."
    )
    assert {verdict.status for verdict in found.findings} == {"not-assessable", "fired"}
    (gap,) = [verdict for verdict in found.findings if verdict.status == "fired"]
    assert gap.evidence[0].startswith("Only 96 samples were taken")
    assert "higher --frequency" in gap.advice
    enough = analyze(capture([Sample(stack, MS, time_ns=time) for time in range(97)], events=(clock,)))
    assert enough.headline == "100 % of the CPU time is freeing pages (97 ms sampled)."


@pytest.mark.parametrize("clock", [CLOCK, replace(CLOCK, period=None, freq_hz=999)])
def test_without_samples_of_time_neither_waits_nor_page_faults_tell_where_it_went(clock: Event) -> None:
    faults = [Sample(["main@/app"], 64, time_ns=time, event=1) for time in range(200)]
    waits = [Sample(["main@/app"], MS, time_ns=time, event=2) for time in range(200)]
    found = analyze(capture([*faults, *waits], [Range("work", 0, 300)], events=(clock, FAULTS, OFF_CPU)))
    assert (
        found.headline == "There are too few samples to show where the time went: 0 of CPU time (0 ns); 97 are needed."
    )
    assert {verdict.status for verdict in found.findings} == {"not-assessable", "fired"}


def test_a_pinning_call_of_few_samples_is_no_headline() -> None:
    busy = [Sample(["main@/app"], MS, time_ns=time * MS) for time in range(200)]
    pins = [Sample(STACKS["pin.walk"], MS, time_ns=(200 + time) * MS) for time in range(20)]
    data = capture([*busy, *pins], [Range("init", 0, 200 * MS), Range("alloc", 200 * MS, 220 * MS)])
    assert "pin_user_pages" not in analyze(data).headline


def test_an_answer_that_cannot_be_given_leaves_the_sentence_about_the_samples() -> None:
    data = capture([Sample(["main@/app"], MS, time_ns=time * MS) for time in range(9)])
    found = analyze(data)
    assert found.opportunities is not None
    assert found.opportunities.headline == ""
    assert (
        found.answer
        == found.headline
        == ("There are too few samples to show where the time went: 9 of CPU time (9 ms); 97 are needed.")
    )


def test_counts_of_which_nothing_is_known_are_called_samples_once() -> None:
    data = capture(
        [Sample(["asm_exc_page_fault"], 170)], events=(Event("samples", "samples", None, None, merged=True),)
    )
    assert analyze(data).headline == (
        "100 % of the samples is page faults (170 samples), if these are samples of CPU time."
    )


def test_idle_cpus_of_a_profiler_that_counts_samples_are_called_so() -> None:
    event = Event("samples", "samples", None, None, merged=True)
    idle = Sample(["do_idle", "cpuidle_enter_state"], 900)
    made = capture(
        [idle, Sample(["worker_thread", "process_one_work"], 50), Sample(["main@/app"], 50)], events=(event,)
    )
    low = "memory costs are low, if these are samples of CPU time"
    assert analyze(made).headline == f"90 % of the samples is idle CPUs; {low}."


def test_sums_of_periods_are_not_taken_for_as_many_samples() -> None:
    # perf script of eleven samples of cpu-clock at 99 Hz, through stackcollapse-perf.pl.
    event = Event("samples", "samples", None, None, merged=True)
    rows = [(["main@/app", "read@/libc.so.6", "vfs_read"], 7), (["main@/app"], 2), (["idle@/app"], 1)]
    made = capture([Sample(stack, 10_101_010 * count) for stack, count in rows], events=(event,))
    assert analyze(made).headline == "There are too few samples to find the causes: 10 of samples; 97 are needed."
    many = capture([Sample(stack, 1000 * count + 1) for stack, count in rows], events=(event,))
    assert not analyze(many).events[0].too_few


def test_idle_cpus_are_no_answer() -> None:
    idle = [Sample(["do_idle", "cpuidle_enter_state"], MS, time_ns=time) for time in range(900)]
    busy = [Sample(["main@/app", "asm_exc_page_fault", "do_anonymous_page"], MS, time_ns=time) for time in range(100)]
    assert analyze(capture(idle + busy)).headline == "100 % of the time of busy CPUs is page faults (100 ms sampled)."
    assert analyze(capture(idle + busy[:96])).headline == (
        "There are too few samples to show where the time of busy CPUs went: 96 of 996; 97 are needed."
    )
    assert analyze(capture(idle)).headline == "All CPUs were idle."
