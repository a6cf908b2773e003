"""Switch-outs and switch records become waits with a beginning, an end and a reason."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof import read
from pinprof.analyze import analyze
from pinprof.analyze.completeness import gaps_of
from pinprof.data import perf_format as perf
from pinprof.data.model import READY, Capture
from pinprof.read.perf import records as rec
from pinprof.read.perf.off_cpu import IN, LONGEST_SAMPLE_NS, OUT, PREEMPTED, Switches, waits
from tests.support.perf_file import BASIC, FREQ, SAMPLE_ID_ALL, Spec, file_mode, mmap2, record, sample, trailer

CLOCK = Spec(sample_type=BASIC | perf.SAMPLE_IDENTIFIER, ids=(1,))
SWITCHES = Spec(sample_type=BASIC | perf.SAMPLE_IDENTIFIER, config=rec.CONTEXT_SWITCHES, period=1, ids=(2,))
BOTH = [CLOCK, SWITCHES]


def switch(way: int, *, time: int, tid: int = 7, pid: int = 7, wide: bool = False) -> bytes:
    body = (struct.pack("<ii", 9, 9) if wide else b"") + trailer(CLOCK, time=time, pid=pid, tid=tid, event_id=1)
    misc = {IN: 0, OUT: perf.MISC_SWITCH_OUT, PREEMPTED: perf.MISC_SWITCH_OUT | perf.MISC_SWITCH_OUT_PREEMPT}[way]
    return record(perf.RECORD_SWITCH_CPU_WIDE if wide else perf.RECORD_SWITCH, body, misc)


def leave(time: int, tid: int = 7, pid: int = 7) -> bytes:
    return sample(SWITCHES, time=time, tid=tid, pid=pid, event_id=2, period=1)


def ends(time: int, tid: int = 7, pid: int = 7) -> bytes:
    body = struct.pack("<iiiiQ", pid, 1, tid, 1, time) + trailer(CLOCK, time=time, pid=pid, tid=tid, event_id=1)
    return record(perf.RECORD_EXIT, body)


def read_back(tmp_path: Path, *records: bytes) -> Capture:
    path = tmp_path / "perf.data"
    path.write_bytes(file_mode(BOTH, mmap2(CLOCK, 0x400000, 0x10000, "/app") + b"".join(records)))
    return read.read(path)


def off_cpu(capture: Capture) -> list[tuple[int, int, bool]]:
    """(begin, length, could have run on) of every wait."""
    number = next(number for number, event in enumerate(capture.events) if event.spans)
    samples = capture.samples
    assert samples.wait is not None
    rows = np.flatnonzero(samples.event == number).tolist()
    return [(int(samples.time_ns[row]), int(samples.weight[row]), bool(samples.wait[row] & READY)) for row in rows]


@pytest.mark.parametrize("wide", [False, True])
def test_a_wait_lasts_from_the_switch_behind_the_sample_to_the_next_switch_in(tmp_path: Path, wide: bool) -> None:
    capture = read_back(
        tmp_path,
        leave(100), switch(OUT, time=101, wide=wide),
        leave(120, tid=8), switch(PREEMPTED, time=121, tid=8, wide=wide),
        switch(IN, time=150, tid=8, wide=wide), switch(IN, time=400, wide=wide),
        sample(CLOCK, time=410, event_id=1),
    )  # fmt: skip
    assert off_cpu(capture) == [(101, 299, False), (121, 29, True)]
    assert capture.losses.switching_ns == 2
    assert [(event.name, event.unit, event.spans) for event in capture.events] == [
        ("cpu-clock", "ns", False), ("off-cpu", "ns", True),
    ]  # fmt: skip


def test_a_thread_that_never_comes_back_waits_until_the_recording_ends(tmp_path: Path) -> None:
    capture = read_back(tmp_path, leave(100), switch(OUT, time=101), sample(CLOCK, time=900, tid=8, event_id=1))
    assert off_cpu(capture) == [(101, 799, False)]


def test_joined_waits_begin_where_their_sample_says_and_no_recorder_has_that_time(tmp_path: Path) -> None:
    early, late = 100, 100 + LONGEST_SAMPLE_NS + 1
    capture = read_back(tmp_path, leave(early), switch(OUT, time=late), switch(IN, time=late + 50))
    assert off_cpu(capture) == [(early, late + 50 - early, False)]
    assert capture.losses.switching_ns == 0


@pytest.mark.parametrize(("each_ns", "said"), [(50_000, "at least 500 µs of the 1 ms of CPU time"), (4_000, "")])
def test_what_recording_switches_took_is_said_where_it_matters(tmp_path: Path, each_ns: int, said: str) -> None:
    switches = b"".join(
        leave(at) + switch(OUT, time=at + each_ns) + switch(IN, time=at + 90_000)
        for at in range(1_000_000, 2_000_000, 100_000)
    )
    capture = read_back(tmp_path, sample(CLOCK, time=900, period=1_000_000, event_id=1), switches)
    assert capture.losses.switching_ns == 10 * each_ns
    texts = [gap.text for gap in gaps_of(capture) if gap.kind == "switches"]
    assert len(texts) == bool(said)
    assert all(said in text for text in texts)


def test_waits_of_damaged_times_still_sum(tmp_path: Path) -> None:
    out = [leave(100 + tid, tid=tid) + switch(OUT, time=100 + tid, tid=tid) for tid in range(1, 9)]
    capture = read_back(tmp_path, *out, switch(IN, time=2**63 - 1, tid=1))
    assert 0 < sum(capture.samples.weight.tolist()) < 2**63
    assert sum(result.total for result in analyze(capture).events) == sum(capture.samples.weight.tolist())
    assert "weights are impossibly large" in " ".join(capture.losses.notes)


def test_the_last_switch_of_a_thread_that_has_ended_is_no_wait(tmp_path: Path) -> None:
    capture = read_back(
        tmp_path, leave(50, tid=8), switch(OUT, time=51, tid=8), ends(90, tid=8),
        ends(100), leave(110), switch(OUT, time=111), sample(CLOCK, time=900, tid=9, event_id=1),
    )  # fmt: skip
    assert off_cpu(capture) == [(51, 39, False), (111, 0, False)]


def test_without_switch_records_the_event_stays_what_it_is(tmp_path: Path) -> None:
    capture = read_back(tmp_path, leave(100), leave(120))
    assert [(event.name, event.unit) for event in capture.events] == [
        ("cpu-clock", "ns"),
        ("context-switches", "events"),
    ]
    assert capture.samples.weight.tolist() == [1, 1]


@pytest.mark.parametrize("sampling", [{"period": 10}, {"flags": SAMPLE_ID_ALL | FREQ}])
def test_an_event_that_samples_some_switches_only_tells_no_waits(tmp_path: Path, sampling: dict[str, int]) -> None:
    some = replace(SWITCHES, **sampling)
    path = tmp_path / "perf.data"
    records = mmap2(CLOCK, 0x400000, 0x10000, "/app") + leave(100) + switch(OUT, time=101) + switch(IN, time=150)
    path.write_bytes(file_mode([CLOCK, some], records))
    assert [event.spans for event in read.read(path).events] == [False, False]


def test_kernel_threads_idle_loops_and_dead_threads_do_not_wait(tmp_path: Path) -> None:
    capture = read_back(
        tmp_path, leave(100, tid=0, pid=0), switch(OUT, time=101, tid=0, pid=0), leave(102, tid=3, pid=3),
        switch(OUT, time=103, tid=3, pid=3), leave(103, tid=-1),
        leave(104), switch(OUT, time=105), switch(IN, time=109),
    )  # fmt: skip
    assert off_cpu(capture) == [(105, 4, False)]


def test_a_record_too_short_for_its_trailer_is_counted(tmp_path: Path) -> None:
    capture = read_back(tmp_path, leave(100), record(perf.RECORD_SWITCH, struct.pack("<Q", 1)), switch(IN, time=105))
    assert capture.losses.corrupt_bytes == 16
    assert off_cpu(capture) == [(100, 5, False)]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.booleans()), max_size=40))
def test_waits_of_many_threads_in_any_order_are_those_that_were_written(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    now = dict.fromkeys((1, 2, 3), 0)
    left, rows, expected = [], [], []
    for tid, runs, waits_for, taken in steps:
        begin = now[tid] + runs
        now[tid] = end = begin + waits_for
        left.append((begin, tid))
        rows += [(begin, tid, PREEMPTED if taken else OUT), (end, tid, IN)]
        expected.append((end, taken))
    rows.sort(key=lambda row: (-row[0], row[1], row[2] == IN))

    def column(values: list[int], kind: type) -> np.ndarray:
        return np.array(values, kind)

    switches = Switches(
        column([row[0] for row in rows], np.int64), np.full(len(rows), 5, np.int32),
        column([row[1] for row in rows], np.int32), column([row[2] for row in rows], np.uint8),
    )  # fmt: skip
    found = waits(
        column([begin for begin, _ in left], np.int64), np.full(len(left), 5, np.int32),
        column([tid for _, tid in left], np.int32), switches, {}, 10_000,
    )  # fmt: skip
    assert list(zip(found.end_ns.tolist(), found.ready.tolist(), strict=True)) == expected
