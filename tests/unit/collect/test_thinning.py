"""Thinning records: fewer of them, the same sums for every thread, and every event."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.collect import native
from pinprof.collect.native.events import CALL_ENTER, WAKEUPS, event, standard, wakeups
from pinprof.collect.native.perf_file import PerfFile
from pinprof.collect.native.short_lived import ShortLivedProcesses
from pinprof.collect.native.thinning import JOINED_NS, Thinner
from pinprof.collect.pace import STOPPED
from pinprof.data import perf_format as perf
from pinprof.data.model import SampleTable
from pinprof.read import read
from tests.support.perf_file import record

SPECS = standard(frequency=1000, fault_period=64, off_cpu=True, kernel=True)
CLOCK, FAULTS, WAITS, DUMMY = range(4)
EVENTS = [(spec, [number + 1]) for number, spec in enumerate(SPECS)]
MS = 1_000_000
LATE = 1 << 62
EXIT_NS = 90 * MS


def sample(which: int, tid: int, time: int, period: int = MS) -> bytes:
    kind = SPECS[which].attr.sample_type
    parts = [
        (perf.SAMPLE_IDENTIFIER, struct.pack("<Q", which + 1)),
        (perf.SAMPLE_IP, struct.pack("<Q", 0x401000 + tid)),
        (perf.SAMPLE_TID, struct.pack("<ii", 7, tid)),
        (perf.SAMPLE_TIME, struct.pack("<Q", time)),
        (perf.SAMPLE_ADDR, struct.pack("<Q", 0x5000)),
        (perf.SAMPLE_CPU, struct.pack("<II", 1, 0)),
        (perf.SAMPLE_PERIOD, struct.pack("<Q", period)),
        (perf.SAMPLE_CALLCHAIN, struct.pack("<QQ", 1, 0x401000 + tid)),
    ]
    return record(perf.RECORD_SAMPLE, b"".join(raw for bit, raw in parts if kind & bit))


def trailer(tid: int, time: int) -> bytes:
    return struct.pack("<iiQIIQ", 7, tid, time, 1, 0, DUMMY + 1)


def wait(tid: int, start: int, end: int) -> list[bytes]:
    """A thread's stack is taken, it leaves a processor, and returns."""
    left = record(perf.RECORD_SWITCH, trailer(tid, start), perf.MISC_SWITCH_OUT)
    return [sample(WAITS, tid, start - 10), left, record(perf.RECORD_SWITCH, trailer(tid, end))]


def gone(tid: int, time: int) -> bytes:
    return record(perf.RECORD_EXIT, struct.pack("<iiiiQ", 7, 1, tid, 7, time) + trailer(tid, time))


def mapped() -> bytes:
    body = struct.pack("<iiQQQIIQQII", 7, 7, 0x400000, 0x10000, 0, 8, 1, 5, 6, 5, 2) + b"/opt/app".ljust(16, b"\0")
    return record(perf.RECORD_MMAP2, body + trailer(7, 0), perf.MISC_USER)


def thinned(step: int, drains: Sequence[Sequence[bytes]], horizons: Sequence[int] = ()) -> list[bytes]:
    thinner = Thinner(EVENTS, seed=3)
    thinner.step = step
    out: list[bytes] = []
    for number, drain in enumerate(drains):
        horizon = horizons[number] if horizons else LATE
        out += map(bytes, thinner.thin(bytearray(b"".join(drain)), horizon))
    out += thinner.flush()
    assert thinner.held_bytes == 0
    assert thinner.step
    return out


def table(tmp_path: Path, pieces: Sequence[bytes]) -> tuple[SampleTable, list[str]]:
    """What reading makes of records."""
    path = tmp_path / "perf.data"
    path.unlink(missing_ok=True)
    file = PerfFile(path, EVENTS)
    file.write([mapped(), *pieces])
    file.finish({})
    file.close()
    capture = read(path)
    assert (capture.losses.corrupt_bytes, capture.losses.unknown_records) == (0, 0)
    return capture.samples, [event.name for event in capture.events]


def sums(samples: SampleTable, *, threads: bool = True) -> Counter[tuple[int, int]]:
    """By event and thread, or of all threads."""
    found: Counter[tuple[int, int]] = Counter()
    for which, tid, weight in zip(samples.event.tolist(), samples.tid.tolist(), samples.weight.tolist(), strict=True):
        found[which, tid if threads else 0] += weight
    return found


def program(seed: int, threads: int, length: int, start: int = 0) -> list[bytes]:
    """Records of some threads in order of time: samples of time and faults, and waits that follow each other."""
    draw = random.Random(seed)
    timed: list[tuple[int, bytes]] = []
    for tid in range(7, 7 + threads):
        now = start + draw.randrange(MS)
        for _ in range(length):
            now += draw.randrange(1000, MS)
            what = draw.randrange(3)
            if what == WAITS:
                end = now + draw.choice((20_000, 300_000, 2 * MS, 40 * MS))
                left, out, back = wait(tid, now, end)
                timed += [(now, left), (now + 10, out), (end, back)]
                now = end
            else:
                timed.append((now, sample(what, tid, now, period=draw.randrange(900_000, 1_100_000))))
        timed.append((now + 10, gone(tid, now + 10)))
    timed.sort(key=lambda entry: entry[0])
    return [raw for _, raw in timed]


@pytest.mark.slow
@given(
    st.integers(0, 1000), st.integers(1, 5), st.sampled_from([1, 3, 6, 14, STOPPED]), st.integers(1, 7), st.booleans()
)
def test_sums_stay_what_they_are_of_every_thread_that_still_runs_and_of_every_event(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    threads: int,
    step: int,
    drains: int,
    end: bool,
) -> None:
    folder = tmp_path_factory.mktemp("sums")
    records = [raw for raw in program(seed, threads, 60, start=40_000 * MS) if end or raw[0] != perf.RECORD_EXIT]
    whole, _ = table(folder, records)
    # Two rings, read one after another, some drains in all.
    size = -(-len(records) // drains)
    parts = [records[first : first + size] for first in range(0, len(records), size)]
    few, _ = table(folder, thinned(step, [[*part[::2], *part[1::2]] for part in parts]))
    assert sums(few, threads=not end) == sums(whole, threads=not end)
    assert len(few) <= len(whole)


def test_many_become_one_in_so_many_with_their_weight(tmp_path: Path) -> None:
    records = [sample(which, tid, MS * at) for at in range(1600) for tid in (7, 8) for which in (CLOCK, FAULTS)]
    few, names = table(tmp_path, thinned(4, [records]))
    assert names[:2] == ["cpu-clock", "page-faults"]
    assert 380 < len(few) < 420
    for which, unit in ((CLOCK, MS), (FAULTS, 64)):
        mine = few.weight[few.event == which]
        assert mine.sum() == 3200 * unit
        assert 12 * unit < np.median(mine) < 20 * unit
        assert mine.max() <= 31 * unit
        assert len(set(mine.tolist())) > 10, "at random, in step with nothing"


@pytest.mark.slow
def test_what_is_rare_keeps_its_share(tmp_path: Path) -> None:
    # Of each thread's time, a tenth at one address: bursts of three at a beat that a regular choice would fall in with.
    records = [sample(CLOCK, tid if at % 32 > 2 else 99, MS * at) for at in range(16_000) for tid in (7, 8)]
    few, _ = table(tmp_path, thinned(4, [records]))
    rare = few.weight[few.tid == 99].sum() / few.weight.sum()
    assert rare == pytest.approx(3 / 32, abs=4 * (3 / 32 / len(few)) ** 0.5)


def test_short_waits_are_joined_and_long_ones_stay(tmp_path: Path) -> None:
    short = [raw for at in range(1, 101) for raw in wait(7, at * MS, at * MS + MS // 2)]
    long = wait(7, 200 * MS, 290 * MS)
    few, names = table(tmp_path, thinned(1, [[*short, *long]]))
    off_cpu = names.index("off-cpu")
    rows = np.flatnonzero(few.event == off_cpu)
    assert few.weight[rows].sum() == 140 * MS
    assert 10 <= len(rows) <= 15
    assert few.weight[rows].min() >= 2 * JOINED_NS
    # They do not overlap: what was left out lies before what is kept.
    ends = few.time_ns[rows] + few.weight[rows]
    assert (few.time_ns[rows][1:] >= ends[:-1]).all()


def waking(waker: int, woken: int, time: int) -> bytes:
    """One delivery of a wake-up: sched_waking's fields behind a call chain of two addresses."""
    raw = struct.pack("<HBBi16siii", 300, 0, 0, waker, b"python", woken, 120, 1)
    parts = (struct.pack("<QQiiQ", 50, 0x401000, 7, waker, time), struct.pack("<II", 1, 0))
    chain = struct.pack("<QQQ", 2, 0x401000, 0x402000)
    return record(perf.RECORD_SAMPLE, b"".join(parts) + chain + struct.pack("<I", len(raw)) + raw)


def test_wake_ups_go_with_the_waits_that_they_end() -> None:
    spec = wakeups(300)
    fields = perf.SAMPLE_IDENTIFIER | perf.SAMPLE_IP | perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_CPU
    assert spec.name == WAKEUPS
    assert spec.attr.sample_type == fields | perf.SAMPLE_CALLCHAIN | perf.SAMPLE_RAW
    thinner = Thinner([*EVENTS, (spec, [50])], seed=3)
    thinner.step = 6
    records: list[bytes] = []
    for at in range(1, 401):
        left, out, back = wait(7, at * MS, at * MS + MS // 2)
        records += [left, out, waking(8, 7, at * MS + MS // 2 - 500), waking(8, 7, at * MS + MS // 2 - 400), back]
        # Threads that are no concern of this recording are woken as well.
        records.append(waking(8, 99, at * MS + MS // 2))
    long, out, back = wait(9, MS, 900 * MS)
    records += [long, out]
    written = b"".join(map(bytes, thinner.thin(bytearray(b"".join(records)), 600 * MS)))
    last = waking(7, 9, 899 * MS)
    written += b"".join(map(bytes, thinner.thin(bytearray(last + last + last + back), 1000 * MS)))

    def woken(tid: int) -> int:
        return written.count(struct.pack("<16siii", b"python", tid, 120, 1))

    kept = thinner.counts.kept["off-cpu"] - 1
    assert 1 <= kept <= 10
    assert woken(7) == 2 * kept
    assert woken(99) == 2
    assert woken(9) == 2, "a long wait is written before its wake-up comes"


def test_a_return_on_another_processor_that_is_read_first(tmp_path: Path) -> None:
    left, out, back = wait(7, 10 * MS, 30 * MS)
    # The ring in which it returned was read before the other had what came first.
    pieces = thinned(1, [[back], [left, out]], horizons=[9 * MS, 40 * MS])
    few, _ = table(tmp_path, pieces)
    assert few.weight.tolist() == [20 * MS]


def test_a_wait_that_began_before_thinning_ends(tmp_path: Path) -> None:
    left, out, back = wait(7, 10 * MS, 10 * MS + 1000)
    few, _ = table(tmp_path, [left, out, *thinned(5, [[back]])])
    assert few.weight.tolist() == [1000]


def test_going_back_to_everything_leaves_nothing_behind() -> None:
    thinner = Thinner(EVENTS)
    thinner.step = 6
    thinner.thin(bytearray(b"".join(program(1, 3, 50)[:-3])), LATE)
    assert not thinner.idle
    thinner.step = 0
    thinner.thin(bytearray(), LATE)
    assert thinner.idle


def test_threads_that_come_and_go_leave_nothing_behind() -> None:
    thinner = Thinner(EVENTS)
    thinner.step = 8
    for tid in range(100, 1100):
        now = tid * 100 * MS
        records = [sample(CLOCK, tid, now), sample(FAULTS, tid, now), *wait(tid, now, now + 1000), gone(tid, now + MS)]
        thinner.thin(bytearray(b"".join(records)), now + EXIT_NS)
        assert thinner.held_bytes < 4000


@pytest.mark.slow
def test_short_processes_share_samples_and_most_leave_no_record(tmp_path: Path) -> None:
    thinner = Thinner(EVENTS)
    thinner.step = 5
    many, step, out = 2000, 20 * MS, [b""]
    for number in range(many):
        pid, now = 100 + number, (1 + number) * step
        fork = struct.pack("<IIIIQ", pid, 7, pid, 7, now) + trailer(pid, now)
        named = struct.pack("<ii", pid, pid) + b"true".ljust(8, b"\0") + trailer(pid, now + 1)
        samples = [_of(pid, raw) for raw in (sample(CLOCK, pid, now + 2), *wait(pid, now + 13, now + MS))]
        end = record(perf.RECORD_EXIT, struct.pack("<iiiiQ", pid, 7, pid, 7, now + 2 * MS) + trailer(pid, now + 2 * MS))
        records = [record(perf.RECORD_FORK, fork), record(perf.RECORD_COMM, named), *samples, end]
        out += map(bytes, thinner.thin(bytearray(b"".join(records)), now))
        assert thinner.held_bytes < 4000
    out += thinner.flush()
    kinds = Counter(raw[0] for raw in _apart(b"".join(out)))
    samples, _ = table(tmp_path, out)
    assert sums(samples, threads=False) == {(CLOCK, 0): many * MS, (WAITS, 0): many * (MS - 13)}
    # Of single samples one in 32 is kept, and one for 32 of the others. Waits of a millisecond are kept when they are
    # 64 together, and where their process is told of anyway.
    assert np.count_nonzero(samples.event == CLOCK) == pytest.approx(2 * many / 32, abs=25)
    assert np.count_nonzero(samples.event == WAITS) == pytest.approx(many / 64 + many / 32, abs=25)
    assert kinds[perf.RECORD_FORK] == kinds[perf.RECORD_COMM] == kinds[perf.RECORD_EXIT]
    # Whose sample and whose wait are chosen at different times is told of twice.
    told = len(np.unique(samples.tid))
    assert told <= kinds[perf.RECORD_FORK] <= 1.2 * told < many / 8


def test_a_process_that_starts_another_is_told_of_before_it() -> None:
    processes = ShortLivedProcesses()
    assert processes.forked(8, 7, 8, b"8 begins") == []
    assert processes.take_record(8, b"8 maps") == []
    assert processes.forked(8, 8, 80, b"8 has a thread") == []
    assert processes.forked(9, 8, 9, b"9 begins") == [b"8 begins", b"8 maps", b"8 has a thread"]
    assert processes.take_record(8, b"8 maps more") == [b"8 maps more"]
    processes.ended(8, 8)
    assert processes.release(8) == []
    assert processes.release(9) == [b"9 begins"]
    processes.ended(8, 80)
    processes.ended(9, 9)
    assert not len(processes)
    assert processes.take_record(9, b"late") == [b"late"]


def test_a_process_of_which_a_sample_is_read_before_its_beginning_is_shown() -> None:
    processes = ShortLivedProcesses()
    assert processes.release(8, early=True) == []
    assert processes.forked(8, 7, 8, b"8 begins") == [b"8 begins"]


@pytest.mark.slow
def test_short_processes_take_no_memory_once_they_are_gone() -> None:
    """Those whose sample or wait stands for others are told of after their end."""
    thinner, step, sizes = Thinner(EVENTS), 20 * MS, []
    thinner.step = 5
    tracemalloc.start()
    try:
        for number in range(6000):
            pid, now = 100 + number, (1 + number) * step
            fork = struct.pack("<IIIIQ", pid, 7, pid, 7, now) + trailer(pid, now)
            samples = [_of(pid, raw) for raw in (sample(CLOCK, pid, now + 2), *wait(pid, now + 13, now + MS))]
            end = struct.pack("<iiiiQ", pid, 7, pid, 7, now + 2 * MS) + trailer(pid, now + 2 * MS)
            records = [record(perf.RECORD_FORK, fork), *samples, record(perf.RECORD_EXIT, end)]
            thinner.thin(bytearray(b"".join(records)), now)
            if number % 2000 == 1999:
                # Other threads of this process, and what other tests left, are not the thinner's.
                own = tracemalloc.take_snapshot().filter_traces(
                    [tracemalloc.Filter(True, str(Path(native.__file__).parent / "*"))]
                )
                sizes.append(sum(trace.size for trace in own.traces))
    finally:
        tracemalloc.stop()
    # 4,000 processes more; one number each would be 32 bytes and its place in a table.
    assert sizes[0] > 0
    assert sizes[2] - sizes[0] < 10_000


def _of(pid: int, raw: bytes) -> bytes:
    """A record of another process."""
    place = 24 if raw[0] == perf.RECORD_SAMPLE else len(raw) - 32
    return raw[:place] + struct.pack("<i", pid) + raw[place + 4 :]


def _apart(raw: bytes) -> list[bytes]:
    """Single records."""
    found = []
    while raw:
        size = struct.unpack_from("<H", raw, 6)[0]
        found.append(raw[:size])
        raw = raw[size:]
    return found


def test_other_records_pass_as_they_are() -> None:
    tracepoint = event(CALL_ENTER, perf.TYPE_TRACEPOINT, 1, 1, kernel=True)
    thinner = Thinner([*EVENTS, (tracepoint, [9])])
    thinner.step = STOPPED
    body = struct.pack("<QQiiQII", 9, 0x401000, 7, 7, MS, 1, 0)
    named = record(perf.RECORD_COMM, struct.pack("<ii", 7, 7) + bytes(8) + trailer(7, MS))
    other = [record(perf.RECORD_SAMPLE, body), mapped(), gone(7, MS), named]
    assert b"".join(thinner.thin(bytearray(b"".join(other)), LATE)) == b"".join(other)
