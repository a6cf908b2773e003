"""Events that the agent wrote of NVTX → ranges: what matches, what is inherited, and what survives damage."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.nvtx import file as nvtx_file
from pinprof.read.nvtx.file import NvtxKind
from pinprof.read.nvtx.injection import DEEPEST, LoadedNvtx, combine, read_folder
from tests.support.examples import examples
from tests.support.nvtx_events import PAGE, Writer


def loaded(*writers: Writer) -> LoadedNvtx:
    files = [nvtx_file.parse(writer.bytes()) for writer in writers]
    return combine([file for file in files if file is not None])


def rows(found: LoadedNvtx) -> list[tuple[str, str, int, int, int, int]]:
    table = found.ranges
    columns = (table.start_ns, table.end_ns, table.tid, table.depth)
    return list(zip(table.domain, table.name, *(column.tolist() for column in columns), strict=True))


def test_pushes_and_pops_nest_within_their_thread_and_domain() -> None:
    writer = Writer()
    writer.say(NvtxKind.DOMAIN, 1, "app", value=5)
    writer.say(NvtxKind.PUSH, 10, "outer")
    writer.say(NvtxKind.PUSH, 12, "other thread", tid=101)
    writer.say(NvtxKind.PUSH, 20, "inner", domain=5)
    writer.say(NvtxKind.POP, 30)
    writer.say(NvtxKind.POP, 40, domain=5)
    writer.say(NvtxKind.POP, 50, tid=101)
    assert rows(loaded(writer)) == [
        ("", "outer", 10, 30, 100, 0),
        ("", "other thread", 12, 50, 101, 0),
        ("app", "inner", 20, 40, 100, 1),
    ]


def test_starts_end_in_any_thread_and_are_nobodys_parents() -> None:
    writer = Writer()
    writer.say(NvtxKind.START, 10, "one", value=1)
    writer.say(NvtxKind.PUSH, 15, "pushed")
    writer.say(NvtxKind.START, 20, "two", value=2)
    writer.say(NvtxKind.END, 30, value=1, tid=101)
    writer.say(NvtxKind.POP, 35)
    writer.say(NvtxKind.END, 40, value=2)
    assert rows(loaded(writer)) == [
        ("", "one", 10, 30, 100, 0),
        ("", "pushed", 15, 35, 100, 0),
        ("", "two", 20, 40, 100, 1),
    ]


def test_open_ranges_end_with_the_last_event_and_ends_of_nothing_are_counted() -> None:
    writer = Writer(lost=3)
    writer.say(NvtxKind.POP, 1)
    writer.say(NvtxKind.PUSH, 10, "open")
    writer.say(NvtxKind.PUSH, 20, "closed")
    writer.say(NvtxKind.POP, 30)
    writer.say(NvtxKind.END, 40, value=9)
    writer.say(NvtxKind.START, 50, "never ended", value=10)
    writer.say(NvtxKind.MARK, 60, "last", tid=101)
    found = loaded(writer)
    assert rows(found) == [
        ("", "open", 10, 60, 100, 0),
        ("", "closed", 20, 30, 100, 1),
        ("", "never ended", 50, 60, 100, 1),
    ]
    assert (found.open_ranges, found.unmatched, found.lost) == (2, 2, 3)
    assert len(found.notes) == 3


def test_a_loop_that_never_pops_stays_shallow() -> None:
    writer = Writer()
    for number in range(1000):
        writer.say(NvtxKind.PUSH, number, "again")
    found = loaded(writer)
    assert len(found.ranges) == DEEPEST
    assert found.too_deep == 1000 - DEEPEST


def test_names_come_from_registered_strings_of_their_process_and_domain() -> None:
    writer = Writer()
    writer.say(NvtxKind.DOMAIN, 1, "größe", value=1)
    writer.say(NvtxKind.STRING, 2, "registered", value=2, domain=1)
    writer.say(NvtxKind.CATEGORY, 3, "no name of anything", value=2, category=2)
    for number, (domain, text, registered) in enumerate(
        [(1, None, 2), (0, "own", 0), (0, None, 77), (9, "x" * 1024, 0), (0, "", 0)]
    ):
        begin = 10 + 2 * number
        writer.say(NvtxKind.PUSH, begin, text, domain=domain, registered=registered, cut=len(text or "") > 1000)
        writer.say(NvtxKind.POP, begin + 1, domain=domain)
    writer.say(NvtxKind.THREAD_NAME, 50, "speaker", value=101)
    writer.say(NvtxKind.MARK, 60, "mark", domain=1)
    found = loaded(writer)
    assert list(zip(found.ranges.domain, found.ranges.name, strict=True)) == [
        ("größe", "registered"),
        ("", "own"),
        ("", "(no name)"),
        ("domain 9", "x" * 1024 + "…"),
        ("", "(no name)"),
    ]
    assert found.cut == 1
    assert found.thread_names == {(100, 101): "speaker"}
    marks = found.marks
    assert [(marks.names[n], marks.names[d]) for n, d in zip(marks.name, marks.domain, strict=True)] == [
        ("mark", "größe")
    ]


def test_a_forked_child_inherits_what_its_ancestors_defined() -> None:
    parent, child, grandchild = Writer(100, 1), Writer(101, 2, parent=1), Writer(102, 3, parent=2)
    parent.say(NvtxKind.DOMAIN, 1, "inherited", value=1)
    child.say(NvtxKind.STRING, 2, "its string", value=2)
    parent.say(NvtxKind.STRING, 3, "another string of that number", value=2)
    grandchild.say(NvtxKind.PUSH, 10, domain=1, registered=2)
    grandchild.say(NvtxKind.POP, 20, domain=1)
    assert rows(loaded(grandchild, child, parent)) == [("inherited", "its string", 10, 20, 100, 0)]
    # Without their files, the numbers are shown.
    assert rows(loaded(grandchild)) == [("domain 1", "(no name)", 10, 20, 100, 0)]
    # Damaged files may claim to be each other's parents.
    one, other = Writer(100, 1, parent=2), Writer(101, 2, parent=1)
    one.say(NvtxKind.PUSH, 1, domain=5)
    assert rows(loaded(one, other)) == [("domain 5", "(no name)", 1, 1, 100, 0)]


def test_a_chunk_that_passes_to_another_thread_keeps_both_apart() -> None:
    writer = Writer()
    writer.say(NvtxKind.PUSH, 10, "first")
    writer.chunks[0][0].append((11, 2 << 32 | 101, 0, 0, 0, NvtxKind.THREAD, 0, 0))
    writer.say(NvtxKind.PUSH, 12, "second")  # what lies behind the taking is the second thread's
    writer.say(NvtxKind.POP, 13)
    assert rows(loaded(writer)) == [("", "first", 10, 13, 100, 0), ("", "second", 12, 13, 101, 0)]


_EVENT = st.tuples(
    st.sampled_from([NvtxKind.PUSH, NvtxKind.POP, NvtxKind.START, NvtxKind.END]),
    st.integers(1, 3),  # thread
    st.integers(0, 2),  # domain
    st.integers(1, 4),  # number of a start
)


@given(st.lists(_EVENT, max_size=100))
@examples(50)
def test_matching_is_that_of_stacks(events: list[tuple[NvtxKind, int, int, int]]) -> None:
    writer = Writer()
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    started: dict[int, int] = {}
    expected: dict[int, int] = {}
    unmatched = number = 0
    for time, (kind, tid, domain, which) in enumerate(events, 1):
        value = which
        if kind is NvtxKind.START:
            number += 1  # as the library numbers them: never twice
            value = number
            started[value] = time
        elif kind is NvtxKind.END and value not in started:
            value += 1000  # nor does anything end before it starts
        writer.say(kind, time, f"at {time}", tid=tid, domain=domain, value=value)
        if kind is NvtxKind.PUSH:
            stacks[tid, domain].append(time)
        elif kind is NvtxKind.POP and stacks[tid, domain]:
            expected[stacks[tid, domain].pop()] = time
        elif kind is NvtxKind.END and value in started:
            expected[started.pop(value)] = time
        elif kind in (NvtxKind.POP, NvtxKind.END):
            unmatched += 1
    for left in (*stacks.values(), started.values()):
        expected |= dict.fromkeys(left, len(events))
    found = loaded(writer)
    assert dict(zip(found.ranges.start_ns.tolist(), found.ranges.end_ns.tolist(), strict=True)) == expected
    assert found.unmatched == unmatched
    assert all(name == f"at {start}" for name, start in zip(found.ranges.name, found.ranges.start_ns, strict=True))


def whole_file() -> bytes:
    writer = Writer()
    writer.say(NvtxKind.DOMAIN, 1, "app", value=1)
    for number in range(300):
        writer.say(NvtxKind.PUSH, 10 + number, f"range {number % 7}", domain=number % 2, tid=100 + number % 3)
        writer.say(NvtxKind.POP, 500 + number, domain=number % 2, tid=100 + number % 3)
    return writer.bytes()


WHOLE = whole_file()


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=40), st.integers(0, len(WHOLE))
)
@examples(60)
def test_no_damage_crashes_the_reader(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    for damaged in (bytes(data), bytes(data[:length])):
        file = nvtx_file.parse(damaged)
        found = combine([] if file is None else [file])
        assert np.all(found.ranges.end_ns >= found.ranges.start_ns)


@given(st.binary(max_size=3 * PAGE))
@examples(30)
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    for guess in (data, WHOLE[:PAGE] + data, WHOLE[: PAGE + 16] + data):
        file = nvtx_file.parse(guess)
        combine([] if file is None else [file])


def test_what_is_no_such_file_is_counted(tmp_path: Path) -> None:
    (tmp_path / "1-1.bin").write_bytes(b"")
    (tmp_path / "2-1.bin").write_bytes(b"something else")
    (tmp_path / "3-1.bin").write_bytes(WHOLE)
    (tmp_path / "4-1.bin").mkdir()
    (tmp_path / "5-1.bin").write_bytes(WHOLE.replace(b"PINPNVTX\x01", b"PINPNVTX\x02"))
    os.mkfifo(tmp_path / "6-1.bin")
    found = read_folder(tmp_path)
    assert len(found.ranges) == 300
    assert found.damaged == 5


def test_one_of_a_kind_is_told_as_one() -> None:
    (writer := Writer()).say(NvtxKind.PUSH, 10, "alone")
    (note,) = loaded(writer).notes
    assert note == "1 NVTX range without an end: assumed to end with the process."


@pytest.mark.parametrize("length", [PAGE + 40, PAGE + 500, 2 * PAGE - 1])
def test_a_file_cut_short_keeps_its_whole_records(length: int) -> None:
    found = nvtx_file.parse(WHOLE[:length])
    assert found is not None
    assert found.damaged > 0
