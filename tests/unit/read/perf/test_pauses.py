"""What pauses of sampling hide comes back: each thread's time on processors and off them is what it was."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof import read
from pinprof.analyze.completeness import gaps_of
from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.read.perf.chains import NO_CHAIN
from pinprof.read.perf.off_cpu import IN, OUT, PREEMPTED, Switches, waits
from pinprof.read.perf.pauses import LONG_NS, Filled, Pauses, filled
from pinprof.read.perf.samples import RawSamples
from tests.support.perf_file import file_mode, mmap2, record, sample, trailer
from tests.unit.read.perf.test_off_cpu import BOTH, CLOCK, leave, off_cpu, switch

TIME, WAITS = 0, 1
"""Numbers of the events."""
EACH_NS = 100_000
"""Of a thread's time between two samples."""


@dataclass(frozen=True)
class Stint:
    """A thread on a processor, and then off it."""

    ran_ns: int
    waited_ns: int
    way: int


@dataclass
class Recording:
    """Samples and switches of some threads, as a recorder writes them."""

    samples: RawSamples
    switches: Switches
    exits: dict[tuple[int, int], int]
    """Each thread ends when it comes back for the last time."""
    ran_ns: dict[int, int]
    """Per thread the time on processors, of those that were sampled at all."""
    waited_ns: dict[tuple[int, int], int]
    """Per thread and way of leaving the time off them."""


STINTS = st.builds(
    Stint,
    st.integers(1_000, 3_000_000),
    st.one_of(st.integers(1_000, 900_000), st.integers(LONG_NS, 9 * LONG_NS)),
    st.sampled_from([OUT, PREEMPTED]),
)
PAUSES = st.lists(st.integers(0, 60_000_000), min_size=1, max_size=8, unique=True)


def recorded(threads: list[list[Stint]], pauses: Pauses) -> Recording:
    """Each thread runs its stints one after another; nothing in a pause is sampled."""
    samples: list[tuple[int, int, int, int]] = []
    switches: list[tuple[int, int, int]] = []
    ran, waited, exits = dict[int, int](), dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for tid, stints in enumerate(threads, 1):
        now, own, whole = 0, 0, 0
        for stint in stints:
            switches.append((now, tid, IN))
            dues = range(EACH_NS - own % EACH_NS, stint.ran_ns + 1, EACH_NS)
            samples += [(now + due, tid, TIME, EACH_NS) for due in dues]
            own, now, whole = own + stint.ran_ns, now + stint.ran_ns, whole + stint.ran_ns
            switches.append((now, tid, stint.way))
            samples.append((now, tid, WAITS, 0))
            waited[tid, stint.way] = waited.get((tid, stint.way), 0) + stint.waited_ns
            now += stint.waited_ns
        switches.append((now, tid, IN))
        ran[tid], exits[1, tid] = whole, now
    spans = list(zip(pauses.begin_ns.tolist(), pauses.end_ns.tolist(), strict=True))
    kept = [row for row in samples if not any(begin <= row[0] < end for begin, end in spans)]
    clock, of, source, period = np.array(kept or np.zeros((0, 4)), np.int64).T
    table = RawSamples.of(len(kept), clock=clock, pid=1, tid=of, source=source, period=period, chain=source * 10 + of)
    time, who, way = np.array(switches, np.int64).T
    return Recording(table, Switches.of(len(time), time_ns=time, pid=1, tid=who, way=way), exits, ran, waited)


def without_pauses(recording: Recording, pauses: Pauses) -> Filled:
    return filled(recording.samples, recording.switches, pauses, recording.exits, clocks=[TIME], waits=[WAITS])


@given(st.lists(st.lists(STINTS, min_size=1, max_size=20), min_size=1, max_size=3), PAUSES)
def test_every_thread_has_its_time_and_its_waits(threads: list[list[Stint]], turns: list[int]) -> None:
    pauses = Pauses.between([(time, not at % 2) for at, time in enumerate(sorted(turns))])
    recording = recorded(threads, pauses)
    found = without_pauses(recording, pauses)
    row = np.flatnonzero(found.samples.source == WAITS)
    table = found.samples.take(row)
    last = int(recording.switches.time_ns.max())
    outs = waits(table.clock, table.pid, table.tid, found.switches, recording.exits, last)
    unsampled = 0
    for tid, ran in recording.ran_ns.items():
        for way in (OUT, PREEMPTED):
            mine = (table.tid == tid) & (outs.ready == (way == PREEMPTED))
            wanted = recording.waited_ns.get((tid, way), 0)
            assert int((outs.end_ns - outs.begin_ns)[mine].sum()) == wanted
        mine = (found.samples.tid == tid) & (found.samples.source == TIME)
        if mine.any():
            # What is not in a pause is known as well as samples tell it.
            assert abs(int(found.samples.period[mine].sum()) - ran) <= EACH_NS * (2 + 2 * len(pauses))
        else:
            unsampled += ran
    assert found.unsampled_ns <= unsampled


def paused(*spans: tuple[int, int]) -> Pauses:
    return Pauses.between([turn for begin, end in spans for turn in ((begin, True), (end, False))])


def test_time_in_a_pause_goes_to_all_samples_of_the_window_behind_it() -> None:
    pauses = paused((1_000_000, 5_000_000))
    recording = recorded([[Stint(6_000_000, 1_000, OUT)]], pauses)
    period = without_pauses(recording, pauses).samples.period
    assert (
        period[recording.samples.source == TIME].tolist()
        == [EACH_NS] * 9
        + [EACH_NS + 4_000_000 // 11] * 11
        + [
            # What does not divide goes to the first.
        ]
        or period.sum() == 20 * EACH_NS + 4_000_000
    )
    behind = (recording.samples.clock > 5_000_000) & (recording.samples.source == TIME)
    assert np.ptp(period[behind]) <= 1
    assert (period[(recording.samples.clock < 1_000_000) & (recording.samples.source == TIME)] == EACH_NS).all()


def test_waits_of_a_pause_have_the_next_stack_of_their_thread_and_way() -> None:
    pauses = paused((0, 1_500_000))
    stints = [Stint(100_000, 200_000, way) for way in (OUT, PREEMPTED, OUT, OUT, PREEMPTED, OUT, PREEMPTED)]
    recording = recorded([stints], pauses)
    recording.samples.chain[:] = np.arange(len(recording.samples))
    found = without_pauses(recording, pauses).samples
    unseen = found.take(np.arange(len(recording.samples), len(found)))
    kept = recording.samples
    waited = kept.chain[kept.source == WAITS].tolist()
    assert sorted(unseen.chain.tolist()) == sorted(waited[:2])


def test_a_long_wait_that_begins_in_a_pause_has_no_stack() -> None:
    pauses = paused((0, 1_000_000))
    recording = recorded([[Stint(100_000, LONG_NS, OUT), Stint(2_000_000, 1_000, OUT)]], pauses)
    found = without_pauses(recording, pauses).samples
    assert found.chain[len(recording.samples) :].tolist() == [NO_CHAIN]
    assert found.unchained[len(recording.samples) :].all()


def test_a_long_wait_of_a_pause_has_the_stack_that_was_copied_meanwhile() -> None:
    pauses = paused((0, 1_000_000))
    stints = [Stint(100_000, LONG_NS, OUT), Stint(2_000_000, LONG_NS, OUT), Stint(1_000, 1_000, OUT)]
    recording = recorded([stints], pauses)
    in_first, in_second = 100_000 + LONG_NS // 2, 2_100_000 + LONG_NS + LONG_NS // 2
    copies = RawSamples.of(2, clock=[in_first, in_second], pid=1, tid=1, source=WAITS, chain=[77, 78])
    given = len(recording.samples)
    recording.samples = recording.samples.joined(copies)
    found = without_pauses(recording, pauses)
    # The second wait has a stack of its own.
    assert found.samples.chain[given:].tolist() == [77]
    assert not found.samples.unchained[given:].any()
    assert found.kept.tolist() == [True] * given + [False] * 2
    assert len(found.samples) == given + 1


def test_what_a_thread_without_a_sample_ran_is_counted() -> None:
    pauses = paused((0, 1_000_000))
    recording = recorded([[Stint(400_000, 1_000, OUT)], [Stint(3_000_000, 1_000, OUT)]], pauses)
    assert without_pauses(recording, pauses).unsampled_ns == 400_000


@pytest.mark.parametrize(
    ("turns", "begin", "end"),
    [
        ([], [], []),
        ([(5, True), (9, False)], [5], [9]),
        ([(9, False), (5, True)], [5], [9]),
        ([(4, False), (7, True)], [0, 7], [4, 1 << 62]),
        ([(1, True), (2, True), (3, False), (4, False)], [1], [3]),
    ],
)
def test_turns_become_pauses(turns: list[tuple[int, bool]], begin: list[int], end: list[int]) -> None:
    found = Pauses.between(turns)
    assert (found.begin_ns.tolist(), found.end_ns.tolist()) == (begin, end)


@given(PAUSES, st.lists(st.integers(0, 70_000_000), min_size=1, max_size=9))
def test_time_in_pauses_is_that_between_their_ends(turns: list[int], times: list[int]) -> None:
    pauses = Pauses.between([(time, not at % 2) for at, time in enumerate(sorted(turns))])
    spans = list(zip(pauses.begin_ns.tolist(), pauses.end_ns.tolist(), strict=True))
    for time, before in zip(times, pauses.before(np.array(times)), strict=True):
        assert before == sum(max(min(time, end) - begin, 0) for begin, end in spans)


def turn(time: int, *, on: bool, stream: int = 0) -> bytes:
    body = struct.pack("<QQQ", time, 1, stream) + trailer(CLOCK, time=time, event_id=1)
    return record(perf.RECORD_THROTTLE if on else perf.RECORD_UNTHROTTLE, body)


def read_back(tmp_path: Path, *records: bytes) -> Capture:
    path = tmp_path / "perf.data"
    path.write_bytes(file_mode(BOTH, mmap2(CLOCK, 0x400000, 0x10000, "/app") + b"".join(records)))
    return read.read(path)


def test_a_file_with_pauses_says_for_how_much_of_the_time_there_are_stacks(tmp_path: Path) -> None:
    ms = 1_000_000
    capture = read_back(
        tmp_path,
        switch(IN, time=0), sample(CLOCK, time=1 * ms, event_id=1, period=ms),
        leave(2 * ms), switch(OUT, time=2 * ms), switch(IN, time=3 * ms),
        turn(4 * ms, on=True), switch(OUT, time=10 * ms), switch(IN, time=12 * ms), turn(20 * ms, on=False),
        sample(CLOCK, time=21 * ms, event_id=1, period=ms), leave(22 * ms), switch(OUT, time=22 * ms),
        switch(IN, time=24 * ms), sample(CLOCK, time=24 * ms, event_id=1, period=ms),
    )  # fmt: skip
    assert off_cpu(capture) == [(2 * ms, ms, False), (10 * ms, 2 * ms, False), (22 * ms, 2 * ms, False)]
    assert capture.losses.paused_ns == 16 * ms
    # 14 of the 16 ms of the pause, in two parts.
    assert sorted(capture.samples.weight[capture.samples.event == 0].tolist()) == [ms, 8 * ms, 8 * ms]
    (gap,) = [gap for gap in gaps_of(capture) if gap.kind == "switches"]
    assert "only 30 % of the time" in gap.text


def test_the_kernels_own_throttling_is_no_pause(tmp_path: Path) -> None:
    capture = read_back(
        tmp_path, switch(IN, time=0), turn(4, on=True, stream=1), turn(8, on=False, stream=1),
        sample(CLOCK, time=9, event_id=1, period=3), leave(10), switch(OUT, time=10), switch(IN, time=12),
    )  # fmt: skip
    assert capture.losses.paused_ns == 0
    assert capture.samples.weight[capture.samples.event == 0].tolist() == [3]
