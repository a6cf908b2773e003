"""Threads of pinprof and CUPTI inside the program have no samples and no names; all others keep theirs."""

from __future__ import annotations

import pytest

from pinprof.read.recording_threads import NAME, without_recording_threads
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture

START = ("clone3@/lib/libc.so.6", "start_thread@/lib/libc.so.6")
WORKER = (*START, "work@/opt/nvidia/cu13/lib/libcupti.so.13")
PROGRAM = Sample(("main@/home/me/train", "read@/lib/libc.so.6"))
THREADS = {(100, 100): "train", (100, 101): "train", (100, 102): NAME, (100, 103): "loader"}


def test_workers_and_the_recorder_are_left_out_and_said() -> None:
    seen = capture(
        [
            PROGRAM,
            Sample((*WORKER, "cuEventQuery@/lib/libcuda.so.1"), tid=101, weight=3_000_000),
            Sample((*WORKER, "schedule"), tid=101, event=1, weight=900_000_000),
            Sample(("schedule",), tid=101, event=1),
            Sample((*START, "nap@/cache/libpinprof_inside.0123456789ab.so"), tid=102, weight=2_000_000),
            Sample((*START, "load@/home/me/train"), tid=103),
        ],
        threads=THREADS,
        events=(CLOCK, OFF_CPU),
    )
    left = without_recording_threads(seen)
    assert set(left.samples.tid.tolist()) == {100, 103}
    assert left.threads == {(100, 100): "train", (100, 103): "loader"}
    assert [note for note in left.losses.notes if "left out" in note and "5 ms" in note]


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([Sample(("flush@/opt/libcupti.so.13",))], id="the main thread, its stack cut"),
        pytest.param(
            [Sample(("run@/home/me/train", "flush@/opt/libcupti.so.13"), tid=103)], id="a thread that calls CUPTI"
        ),
        pytest.param(
            [Sample(WORKER, tid=103), Sample((*START, "load@/home/me/train"), tid=103)], id="a cut stack among others"
        ),
        pytest.param([Sample(("flush@/home/me/libcuptix.so",), tid=103)], id="a library of another name"),
        pytest.param([], id="nothing"),
    ],
)
def test_threads_of_the_program_stay(samples: list[Sample]) -> None:
    seen = capture([PROGRAM, *samples], threads={(100, 100): "train", (100, 103): "loader"})
    assert without_recording_threads(seen) is seen
