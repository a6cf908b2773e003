"""Counters that perf read at samples, from files written byte by byte: groups, threads, processors, damage."""

from __future__ import annotations

import struct

import pytest

from pinprof.analyze import analyze
from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.read.perf import chunk as chunks
from tests.support import perf_file as pf
from tests.support.perf_file import MAPPED, Reader

GROUP = perf.FORMAT_GROUP | perf.FORMAT_ID
INHERIT = 1 << 1
KIND = pf.BASIC | perf.SAMPLE_READ | perf.SAMPLE_IDENTIFIER


def specs(read_format: int = GROUP, *, flags: int = 0, kind: int = KIND) -> list[pf.Spec]:
    """A clock that samples, and page faults that are read with it; two processors have ids of their own."""
    flags |= pf.SAMPLE_ID_ALL | pf.USE_CLOCKID
    return [
        pf.Spec(kind, config=0, period=4000, flags=flags | pf.FREQ, read_format=read_format, ids=(10, 11)),
        pf.Spec(kind, config=2, period=0, flags=flags, read_format=read_format, ids=(20, 21)),
    ]


def group(*counters: tuple[int, int], behind: int = 0, times: int = 0) -> bytes:
    """A READ field of a group: (id, value) of each counter."""
    words = [len(counters), *(7,) * times]
    for number, value in counters:
        words += [value, number, *(0,) * behind]
    return struct.pack(f"<{len(words)}Q", *words)


def sums(capture: Capture) -> dict[str, tuple[int, int]]:
    """Per event how many samples it has, and their weight."""
    found = {}
    for number, event in enumerate(capture.events):
        mine = capture.samples.event == number
        found[event.name] = int(mine.sum()), int(capture.samples.weight[mine].sum())
    return found


@pytest.mark.parametrize(
    ("read_format", "behind", "times"),
    [(GROUP, 0, 0), (GROUP | perf.FORMAT_LOST, 1, 0), (31, 1, 2)],
    ids=["ids", "lost", "times"],
)
def test_what_the_others_of_a_group_counted_is_theirs(
    capture_of: Reader, read_format: int, behind: int, times: int
) -> None:
    clock, faults = specs(read_format)
    records = pf.mmap2(clock, *MAPPED)
    for time, (ns, count) in enumerate([(250, 10), (510, 10), (740, 33)], 1):
        raw = group((10, ns), (20, count), behind=behind, times=times)
        records += pf.sample(clock, event_id=10, time=time, period=1, read=raw)
    capture = capture_of(pf.file_mode([clock, faults], records))
    assert sums(capture) == {"cpu-clock": (3, 740), "page-faults": (2, 33)}
    assert capture.samples.weight.tolist() == [250, 10, 260, 230, 23]
    assert capture.samples.time_ns.tolist() == [1, 1, 2, 3, 3]
    assert [(event.unit, event.period, event.counted) for event in capture.events] == [
        ("ns", None, False),
        ("faults", None, True),
    ]
    assert set(capture.samples.stack.tolist()) == {int(capture.samples.stack[0])}
    assert not capture.samples.address[capture.samples.event == 1].any()


def test_each_processor_and_each_thread_of_an_inherited_group_counts_by_itself(capture_of: Reader) -> None:
    clock, faults = specs(flags=INHERIT)
    # In file order the second processor's samples come first, as perf writes its buffers.
    rows = [
        (5, 7, 11, 21, 100, 4), (9, 7, 11, 21, 150, 5), (2, 7, 10, 20, 300, 10),
        (4, 8, 10, 20, 40, 2), (6, 7, 10, 20, 350, 11), (8, 8, 10, 20, 90, 2),
    ]  # fmt: skip
    records = pf.mmap2(clock, *MAPPED)
    for time, tid, own, other, ns, count in rows:
        records += pf.sample(clock, event_id=own, time=time, tid=tid, read=group((own, ns), (other, count)))
    capture = capture_of(pf.file_mode([clock, faults], records))
    assert sums(capture) == {"cpu-clock": (6, 350 + 150 + 90), "page-faults": (5, 11 + 5 + 2)}


def test_in_a_group_that_is_not_inherited_whoever_ran_is_counted_together(capture_of: Reader) -> None:
    clock, faults = specs()
    records = pf.mmap2(clock, *MAPPED)
    for time, tid, ns, count in [(1, 7, 100, 4), (2, 8, 180, 9), (3, 7, 300, 9)]:
        records += pf.sample(clock, event_id=10, time=time, tid=tid, read=group((10, ns), (20, count)))
    capture = capture_of(pf.file_mode([clock, faults], records))
    assert sums(capture) == {"cpu-clock": (3, 300), "page-faults": (2, 9)}


@pytest.mark.parametrize("inherited", [False, True])
def test_a_counter_that_is_read_alone_weighs_its_samples_unless_threads_share_it(
    capture_of: Reader, *, inherited: bool
) -> None:
    (clock, _) = specs(perf.FORMAT_ID, flags=INHERIT if inherited else 0)
    records = b"".join(
        pf.sample(clock, event_id=10, time=time, period=100, read=struct.pack("<2Q", value, 10))
        for time, value in ((1, 130), (2, 250))
    )
    capture = capture_of(pf.file_mode([clock], records))
    assert capture.samples.weight.tolist() == ([100, 100] if inherited else [130, 120])


def test_counters_without_ids_are_said_not_to_be_known(capture_of: Reader) -> None:
    clock, faults = specs(perf.FORMAT_GROUP)
    raw = struct.pack("<3Q", 2, 130, 9)
    capture = capture_of(pf.file_mode([clock, faults], pf.sample(clock, event_id=10, period=77, read=raw)))
    assert sums(capture) == {"cpu-clock": (1, 77), "page-faults": (0, 0)}
    assert any("have no ids" in note for note in capture.losses.notes)


def test_a_reading_that_cannot_be_true_counts_nothing(capture_of: Reader) -> None:
    clock, faults = specs()
    records = b""
    for time, ns, count in [(1, 100, 5), (2, 200, 3), (3, 300, (1 << 64) - 1), (4, 400, 3 + (1 << 50))]:
        records += pf.sample(clock, event_id=10, time=time, read=group((10, ns), (20, count), (99, 1)))
    # A number of counters that the record has no room for.
    records += pf.sample(clock, event_id=10, time=5, read=struct.pack("<Q", 1 << 40))
    capture = capture_of(pf.file_mode([clock, faults], records))
    assert sums(capture) == {"cpu-clock": (4, 400), "page-faults": (1, 5)}
    assert any("4 readings of counters belong to no event" in note for note in capture.losses.notes)
    assert capture.losses.corrupt_bytes > 0


def test_counters_of_many_chunks_are_those_of_one(capture_of: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, faults = specs()
    records = pf.mmap2(clock, *MAPPED)
    for time in range(1, 4000):
        records += pf.sample(clock, event_id=10, time=time, read=group((10, 250 * time), (20, 3 * time)))
    raw = pf.file_mode([clock, faults], records)
    expected = {"cpu-clock": (3999, 250 * 3999), "page-faults": (3999, 3 * 3999)}
    assert sums(capture_of(raw)) == expected
    monkeypatch.setattr(chunks, "_REMEMBERED", 1)
    monkeypatch.setattr("pinprof.read.perf.stream.CHUNK_BYTES", 1 << 16)
    assert sums(capture_of(raw)) == expected


def test_where_something_was_counted_is_not_told_as_its_cause(capture_of: Reader) -> None:
    clock, faults = specs()
    records = pf.mmap2(clock, *MAPPED)
    for time in range(1, 200):
        records += pf.sample(clock, event_id=10, time=time, read=group((10, 10**6 * time), (20, 3 * time)))
    events = analyze(capture_of(pf.file_mode([clock, faults], records))).events
    assert dict(events[0].by_leaf) == {"user.app": 199 * 10**6}
    assert dict(events[1].by_leaf) == {"lost.place": 3 * 199}


def test_a_clock_that_was_only_counted_is_no_sampled_time(capture_of: Reader) -> None:
    faults, clock = specs()
    faults.config, faults.flags, faults.period, clock.config = 2, clock.flags, 100, 0
    records = pf.mmap2(clock, *MAPPED)
    for time in range(1, 200):
        records += pf.sample(faults, event_id=10, time=time, read=group((10, 100 * time), (20, 10**6 * time)))
    run = analyze(capture_of(pf.file_mode([faults, clock], records)))
    assert [(event.name, event.total) for event in run.events] == [("page-faults", 19_900), ("cpu-clock", 199 * 10**6)]
    assert run.headline.startswith(
        "This recording cannot show host-memory costs, because it samples page faults, not time on processors"
    )


@pytest.mark.parametrize("inherited", [False, True])
def test_threads_that_counters_were_not_inherited_by_are_said_to_be_missing(
    capture_of: Reader, *, inherited: bool
) -> None:
    spec = pf.Spec(flags=pf.SAMPLE_ID_ALL | pf.USE_CLOCKID | (INHERIT if inherited else 0))
    records = pf.mmap2(spec, *MAPPED) + pf.fork(spec, 8, 7, time=1) + pf.fork(spec, 7, 7, tid=9, time=2)
    records += pf.sample(spec, time=3)
    features = pf.Features().command("perf", "record", "-g", "--", "app")
    run = analyze(capture_of(pf.file_mode([spec], records, features)))
    said = [gap.text for gap in run.gaps if gap.kind == "unsampled"]
    assert bool(said) != inherited
    if said:
        assert said[0].startswith("perf did not record 2 threads and processes that the program started")
