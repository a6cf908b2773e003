"""What the recorder takes is an event of its own, and counts nowhere else."""

from __future__ import annotations

from pinprof.analyze import analyze
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

MAIN = ["main@/app", "cudaMemcpy@/libcudart.so.13"]
TRAP = [*MAIN, "asm_exc_int3", "irqentry_exit_to_user_mode", "uprobe_notify_resume", "handler_chain"]
RETURN = ["main@/app", "[uprobes]@[uprobes]", "entry_SYSCALL_64_after_hwframe", "do_syscall_64"]


def test_probes_are_no_time_of_the_program() -> None:
    samples = [
        Sample(MAIN, 600, 0),
        Sample(TRAP, 100, 600),
        Sample([*TRAP, "uprobe_dispatcher", "perf_tp_event", "__pi_memcpy"], 50, 700),
        Sample(RETURN, 30, 750),
        Sample([*RETURN, "__x64_sys_uretprobe", "_copy_to_user"], 20, 780),
    ]
    analysis = analyze(capture(samples, [Range("step", 0, 1000)]))
    own, recorder = analysis.events
    assert dict(own.by_leaf) == {"user.libcuda": 600}
    assert recorder.event.name == "recorder"
    assert recorder.event.unit == "ns"
    assert dict(recorder.by_leaf) == {"self.probe": 200}
    assert own.total + recorder.total == sum(sample.weight for sample in samples)
    (step,) = analysis.ranges
    assert step.event(own.event).total == 600


def test_a_wait_on_the_way_out_of_a_probe_is_a_wait() -> None:
    samples = [Sample(MAIN, 600, 0), Sample([*RETURN, "exit_to_user_mode_loop", "schedule"], 50, 600, event=1)]
    events = analyze(capture(samples, events=(CLOCK, OFF_CPU))).events
    assert [result.event for result in events] == [CLOCK, OFF_CPU]
    assert "self.probe" not in events[1].by_leaf


def test_a_recording_without_probes_has_no_such_event() -> None:
    assert [result.event.name for result in analyze(capture([Sample(MAIN, 600, 0)])).events] == [CLOCK.name]
