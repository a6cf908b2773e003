"""A window of time of a capture: what is in it, and what reaches across its edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.data.activity import Activity, ApiCallTable, GpuOpTable, SchedTable
from pinprof.data.memory_log import MemoryLog, ProcessMemory
from pinprof.data.model import Capture
from pinprof.data.time_window import TimeWindow
from tests.support.small_capture import small_capture

WINDOW = TimeWindow(100, 200)


def made() -> Capture:
    """Calls and copies of 1000 bytes before, across, inside, across and behind the window."""
    start, end = np.array([0, 50, 110, 150, 200]), np.array([100, 150, 160, 250, 300])
    capture = small_capture([(0, 1, 0)] * 4, [("main", 0)], [(-1, 0)])
    return replace(
        capture,
        samples=replace(capture.samples, time_ns=np.array([99, 100, 199, 200])),
        activity=Activity(
            "test",
            calls=ApiCallTable.of(5, start_ns=start, end_ns=end),
            gpu_ops=GpuOpTable.of(5, start_ns=start, end_ns=end, size_bytes=1000),
            sched=SchedTable.of(3, time_ns=np.array([99, 100, 200])),
        ),
        memory=MemoryLog(
            np.array([99, 150]), {"pgfault": np.array([1, 2])},
            (ProcessMemory(1, "app", np.array([99, 150]), {"rss": np.array([3, 4])}),
             ProcessMemory(2, "gone", np.array([99]), {"rss": np.array([5])})),
        ),
    )  # fmt: skip


def activity_of(capture: Capture) -> Activity:
    assert capture.activity is not None
    return capture.activity


def test_what_reaches_across_an_edge_is_cut_there_and_its_bytes_in_proportion() -> None:
    work = activity_of(WINDOW.cut(made())).gpu_ops
    assert list(zip(work.start_ns.tolist(), work.end_ns.tolist(), work.size_bytes.tolist(), strict=True)) == [
        (100, 150, 500), (110, 160, 1000), (150, 200, 500),
    ]  # fmt: skip


def test_every_recorded_table_is_cut() -> None:
    part = WINDOW.cut(made())
    assert part.samples.time_ns.tolist() == [100, 199]
    assert activity_of(part).calls.start_ns.tolist() == [100, 110, 150]
    assert activity_of(part).sched.time_ns.tolist() == [100]
    assert part.memory is not None
    assert part.memory.machine["pgfault"].tolist() == [2]
    assert [(one.pid, one.values["rss"].tolist()) for one in part.memory.processes] == [(1, [4])]


def test_a_blocks_capture_has_only_what_began_in_it_whole() -> None:
    block = activity_of(WINDOW.begun(made()))
    assert block.gpu_ops.start_ns.tolist() == [110, 150]
    assert block.gpu_ops.end_ns.tolist() == [160, 250]
    assert block.gpu_ops.size_bytes.tolist() == [1000, 1000]
    assert block.sched.time_ns.tolist() == [100]


@pytest.mark.parametrize("window", [TimeWindow(), TimeWindow(end_ns=301), TimeWindow(0)])
def test_a_window_around_the_recording_has_all_of_it(window: TimeWindow) -> None:
    whole, part = made(), window.cut(made())
    assert part.samples.time_ns.tolist() == whole.samples.time_ns.tolist()
    assert activity_of(part).gpu_ops.size_bytes.tolist() == [1000] * 5
    assert len(window.edges) == sum(abs(edge) < 1 << 62 for edge in (window.start_ns, window.end_ns))


def test_nothing_is_left_of_memory_that_was_observed_at_other_times() -> None:
    assert TimeWindow(1000).cut(made()).memory is None
