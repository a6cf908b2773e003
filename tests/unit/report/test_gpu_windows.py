"""A report of GPU work that was recorded in windows: a sample is told as one, and no sum of it passes for the whole."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np

from pinprof.analyze import Run, analyze
from pinprof.analyze.activity.headline import activity_headline
from pinprof.analyze.restriction import part_of
from pinprof.analyze.selection import Part, Selection
from pinprof.data.activity import GpuOpTable, GpuWindowTable
from pinprof.data.model import Capture
from pinprof.report.export import trace
from pinprof.report.gather import build
from pinprof.report.sections.quality import Quality
from pinprof.report.sections.timeline import OverTime
from tests.support.activities import export


def windowed(capture: Capture) -> Capture:
    """The same with its GPU work in eight windows of a fifth of its time."""
    assert capture.activity is not None
    ops = capture.activity.gpu_ops
    begin, end = int(ops.start_ns.min()), int(ops.end_ns.max())
    edges = np.linspace(begin, end, 41).astype(np.int64)
    windows = GpuWindowTable.of(
        8, start_ns=edges[:-1:5], end_ns=edges[1::5], pid=int(ops.pid[0]), chance=0.2, lived_ns=end
    )
    of = np.searchsorted(windows.start_ns, ops.start_ns, "right") - 1
    inside = ops.take((of >= 0) & (ops.start_ns < windows.end_ns[of]))
    activity = replace(
        capture.activity,
        gpu_ops=GpuOpTable.empty(),
        windows=windows,
        window_ops=inside,
        recorded=capture.activity.recorded - {"cuda"} | {"gpu windows", "cuda calls"},
    )
    return replace(capture, activity=activity)


def analysed() -> Run:
    return analyze(windowed(export("pageable").capture))


def test_no_sum_of_a_sample_passes_for_the_whole() -> None:
    whole, told = (build(run).to_json()["activity"] for run in (export("pageable"), analysed()))
    assert whole["busy_ns"] > 0
    assert (told["kernels"], told["busy_ns"], told["copies"], told["devices"]) == (0, 0, [], [])
    assert told["unrecorded"] == ["copies", "kernels"]
    (sample,) = told["sampled"]
    assert sample["windows"] == 8
    busy = whole["busy_ns"] / (sample["lived_ns"])
    assert sample["busy"]["low"] <= busy <= sample["busy"]["high"]
    assert whole["sampled"] == []


def test_what_windows_say_is_said_as_such() -> None:
    run = analysed()
    assert run.activity
    assert "GPU 0 worked" in activity_headline(run.activity)
    assert "not recorded" not in activity_headline(run.activity)
    quality = Quality.of(build(run))
    assert quality is not None
    assert any(note.startswith("By the windows in which the GPU's work was rec") for note in quality.notes)
    assert not any("was not recorded, only the calls" in note for note in quality.notes)


def test_the_timeline_and_the_trace_show_the_windows_beside_their_work() -> None:
    run = analysed()
    section = OverTime.of(build(run))
    assert section is not None
    lanes = {(lane.heading, lane.title): lane for lane in section.timeline.lanes}
    assert lanes["GPU", "work recorded"].total == 8
    assert ("GPU 0", "copies H2D") in lanes
    stream = io.StringIO()
    trace.write(run, stream)
    events = json.loads(stream.getvalue())
    events = events["traceEvents"] if isinstance(events, dict) else events
    assert sum(event.get("cat") == "gpu_window" for event in events) == 8


def test_a_part_by_threads_has_no_sample() -> None:
    capture = analysed().capture
    asked = (Part(Selection(), 1), Part(Selection(), 1, threads=np.zeros(0, np.int64)))
    everything, some = (part_of(capture, part) for part in asked)
    assert everything.activity
    assert len(everything.activity.windows) == 8
    assert some.activity
    assert len(some.activity.windows) == len(some.activity.window_ops) == 0
