"""Waits and memory on the timeline: a lane per thread, a curve per kind of memory."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np

from pinprof.analyze import analyze
from pinprof.analyze.memory import summarise_memory
from pinprof.data.activity import MarkTable
from pinprof.data.memory_log import MemoryLog, ProcessMemory
from pinprof.report import gather
from pinprof.report.export import trace as export_trace
from pinprof.report.page import html
from pinprof.report.rows import pools
from pinprof.report.sections.lines import main_threads
from pinprof.report.sections.memory import Memory
from pinprof.report.sections.timeline import OverTime
from pinprof.report.sections.timeline.lanes import timeline
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

SLEEP = ["main@/app", "do_syscall_64", "hrtimer_nanosleep", "do_nanosleep", "schedule"]
MS = 1_000_000
MIB = 1 << 20
SAMPLES = [Sample(["main@/app"], MS, MS), Sample(SLEEP, 6 * MS, 2 * MS, event=1), Sample(["main@/app"], MS, 9 * MS)]
LOG = MemoryLog(
    time_ns=np.array([0, 5, 9]) * MS,
    machine={"pgfault": np.array([10, 60, 110]), "nr_free_pages": np.array([9, 3, 5])},
    processes=(
        ProcessMemory(
            7, "app", np.array([0, 5, 9]) * MS,
            {"rss": np.array([1, 40, 2]) * MIB, "pinned": np.array([0, 0, 0]), "shmem": np.array([0, 8, 0]) * MIB},
        ),
    ),
)  # fmt: skip


def test_a_thread_has_a_lane_of_what_it_waited_for() -> None:
    ranges = [Range("outer", 0, 10 * MS, 0, 100, 100), Range("other", 3 * MS, 4 * MS, 0, 100, 101)]
    found = timeline(analyze(capture(SAMPLES, ranges, events=(CLOCK, OFF_CPU))))
    assert found is not None
    (lane,) = [lane for lane in found.lanes if lane.kind == "wait"]
    assert (lane.title, lane.total) == ("waits", 1)
    assert [found.names[name] for name in lane.spans.name.tolist()] == ["wait.sleep"]
    assert (lane.spans.start_ns.tolist(), lane.spans.end_ns.tolist()) == ([2 * MS], [8 * MS])
    assert {found.styles[style].level for style in lane.spans.style.tolist()} == {"wait"}


def test_without_recorded_waits_there_is_no_such_lane() -> None:
    found = timeline(analyze(capture(SAMPLES[::2], events=(CLOCK,))))
    assert found is not None
    assert not [lane for lane in found.lanes if lane.kind == "wait"]


def test_equal_threads_share_a_row_with_their_number() -> None:
    pool = [Sample(["main@/app"], MS, MS, tid=tid) for tid in range(101, 105)]
    names = {(100, 100): "app-1", **{(100, tid): f"app-{tid}" for tid in range(101, 105)}}
    ranges = [Range("own", 0, 10 * MS, 0, 100, 104)]
    found = timeline(analyze(capture([*SAMPLES[::2], *pool], ranges, threads=names)))
    assert found is not None
    rows = {density.heading: (density.threads, int(density.weight.sum())) for density in found.densities}
    assert rows == {"app-104 · 104": (1, MS), "app-1 · 100": (1, 2 * MS), "app-* × 3": (3, 3 * MS)}
    assert {heading: len(threads) for heading, threads in found.threads.items()} == {
        "app-104 · 104": 1, "app-1 · 100": 1, "app-* × 3": 3,
    }  # fmt: skip
    assert found.left_out == 0


def test_pools_are_threads_of_one_process_that_have_names() -> None:
    names = {(1, 1): "a", (1, 2): "OpenBLAS 1", (1, 3): "OpenBLAS 22", (1, 4): "thread 4", (1, 5): "thread 5"}
    names |= {(2, 6): "OpenBLAS 3", (2, 7): "Thread-? (serve)", (2, 8): "Thread-9 (serve)"}
    assert pools(names) == {"OpenBLAS * × 2": [(1, 2), (1, 3)], "Thread-* (serve) × 2": [(2, 7), (2, 8)]}
    assert main_threads({"w-1": 9, "main": 5, "w-22": 3, "": 1, "io": 1}) == "w-* × 2, main + 1 more"


def test_marks_have_a_lane_under_their_threads_ranges() -> None:
    none = np.zeros(2, np.int32)
    marks = MarkTable(
        np.array([2, 7]) * MS, np.array([0, 1], np.int32), none, none + 100, none + 100, ("epoch 1", "epoch 2")
    )
    found = timeline(analyze(replace(capture(SAMPLES, events=(CLOCK, OFF_CPU)), marks=marks)))
    assert found is not None
    (lane,) = [lane for lane in found.lanes if lane.kind == "mark"]
    assert (lane.heading, lane.total) == ("test · 100", 2)
    assert [found.names[name] for name in lane.spans.name.tolist()] == ["epoch 1", "epoch 2"]
    assert not (lane.spans.end_ns - lane.spans.start_ns).any()


def test_memory_is_curves_peaks_and_sentences() -> None:
    data = gather.build(analyze(replace(capture(SAMPLES, events=(CLOCK, OFF_CPU)), memory=LOG)))
    over_time, memory = OverTime.of(data), Memory.of(data)
    assert over_time is not None
    assert memory is not None
    assert [(use.title, use.level_bytes.tolist()) for use in over_time.timeline.memory] == [
        ("resident", [MIB, 40 * MIB, 2 * MIB]), ("shared", [0, 8 * MIB, 0]),
    ]  # fmt: skip
    assert ("40 MiB", "resident, peak") in memory.tiles
    figure = memory.figure
    assert figure is not None
    assert [trace["y"] for trace in figure["data"]] == [[1, 40, 2], [0, 8, 0]]
    told = memory.to_json()["memory"]
    assert told["peak"] == {"rss_bytes": 40 * MIB, "pinned_bytes": 0, "shmem_bytes": 8 * MIB}
    assert told["growth"] == {"pgfault": 100}
    assert told["lowest_free_bytes"] == 3 * 4096
    # No page-fault event was recorded, so nothing is said of faults that it does not see.
    assert memory.notes == ["Memory was sampled only 3 times, so short peaks may be missing."]


def test_what_was_over_before_the_first_look_has_figures_but_no_curve() -> None:
    log = replace(LOG, processes=())
    data = gather.build(analyze(replace(capture(SAMPLES, events=(CLOCK, OFF_CPU)), memory=log)))
    page = html.render(data)
    assert "free on the machine, minimum" in page
    assert 'data-plot="memory"' not in page


def test_faults_of_a_quiet_machine_are_not_blamed_on_pins() -> None:
    quiet, busy = (
        Memory(replace(found, looks=99, program_faults=64, growth={"pgfault": faults}), 0).notes
        for found in [summarise_memory(replace(capture(SAMPLES, events=(CLOCK, OFF_CPU)), memory=LOG))]
        if found is not None
        for faults in (90, 9000)
    )
    assert quiet == []
    assert "The other 8,936 occurred during pins" in busy[0]


def test_a_trace_has_a_track_of_waits_under_each_thread_that_waited() -> None:
    stream = io.StringIO()
    export_trace.write(analyze(capture(SAMPLES, events=(CLOCK, OFF_CPU))), stream)
    events = json.loads(stream.getvalue())["traceEvents"]
    (wait,) = [event for event in events if event.get("cat") == "wait"]
    causes = [event for event in events if event.get("cat") == "cause"]
    assert (wait["name"], wait["dur"], wait["args"]["function"]) == ("wait.sleep", 6000.0, "schedule")
    assert {event["name"] for event in causes} == {"user.app"}
    # The time that the first sample stands for is before it; a wait begins where it says.
    assert wait["ts"] - min(event["ts"] for event in causes) == 2000.0
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"test: causes", "test: waits"} <= names
