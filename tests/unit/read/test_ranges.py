"""Ranges are read as the program wrote them; what it could not finish writing is counted, never fatal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CaptureError, FormatError
from pinprof.read.ranges import parse_ranges, read_ranges, summable
from tests.support.work import calls


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in objects)


def test_ranges_are_ordered_by_start_with_the_outer_one_first() -> None:
    loaded = parse_ranges(
        lines(
            {"name": "alloc", "start": 10, "end": 20},
            {"name": "iteration", "start": 10, "end": 90},
            {"name": "init", "start_ns": 20, "end_ns": 40, "domain": "pinprof", "pid": 7, "tid": 8, "depth": 5},
        )
    )
    table = loaded.table
    assert table.name == ("iteration", "alloc", "init")
    assert table.start_ns.tolist() == [10, 10, 20]
    assert table.end_ns.tolist() == [90, 20, 40]
    assert table.depth.tolist() == [0, 1, 5]
    assert table.domain == ("", "", "pinprof")
    assert table.pid.tolist() == [-1, -1, 7]
    assert table.tid.tolist() == [-1, -1, 8]
    assert loaded.notes == ()


def test_depth_counts_the_open_ranges_of_the_same_thread_only() -> None:
    table = parse_ranges(
        lines(
            {"name": "a", "start": 0, "end": 10, "tid": 1},
            {"name": "overlaps", "start": 5, "end": 30, "tid": 1},
            {"name": "after a", "start": 10, "end": 12, "tid": 1},
            {"name": "other thread", "start": 6, "end": 7, "tid": 2},
        )
    ).table
    assert dict(zip(table.name, table.depth.tolist(), strict=True)) == {
        "a": 0,
        "overlaps": 1,
        "other thread": 0,
        "after a": 1,
    }


def test_a_crashed_programs_open_range_ends_with_the_last_time_seen() -> None:
    loaded = parse_ranges(
        lines({"name": "iteration", "start": 5}, {"name": "alloc", "start": 6, "end": 44})
        + b'{"name":"init","start":50,"e'
    )
    assert loaded.table.name == ("iteration", "alloc")
    assert loaded.table.end_ns.tolist() == [44, 44]
    assert (loaded.open_ranges, loaded.bad_lines) == (1, 1)
    assert len(loaded.notes) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"Collecting data...",
        b"[1]",
        b"{}",
        b'{"name": 3, "start": 1, "end": 2}',
        b'{"name": "x", "start": 9, "end": 2}',
        b'{"name": "x", "start": -1, "end": 2}',
        b'{"name": "x", "start": 1, "end": 9223372036854775808}',
        b'{"name": "x", "start": "1", "end": 2}',
        b'{"name": "x", "start": true, "end": 2}',
        b'{"name": "x", "start": NaN, "end": 2}',
        b'{"name": "x", "start": 1, "end": Infinity}',
        b'{"name": "x", "start": ' + b"1" * 5000 + b"}",
        b"[" * 100000,
        b'{"name": "\xff", "start": 1, "end": 2}',
    ],
)
def test_a_bad_line_is_counted_and_the_others_read(line: bytes) -> None:
    loaded = parse_ranges(lines({"name": "a", "start": 1, "end": 2}) + line + b"\n")
    assert loaded.table.name == ("a",)
    assert loaded.bad_lines == 1


def test_names_can_always_be_written() -> None:
    table = parse_ranges(b'{"name": "\\ud800<script>", "domain": "\\udfff", "start": 1, "end": 2}\n').table
    assert table.name[0].encode() == b"?<script>"
    assert table.domain[0].encode() == b"?"


def test_a_file_of_something_else_is_refused_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "ranges.jsonl"
    path.write_text("milk\nbread\n")
    with pytest.raises(FormatError, match="start_ns"):
        read_ranges(path)
    path.write_text('{"name":"al')
    assert read_ranges(path).bad_lines == 1
    path.write_bytes(b"")
    assert len(read_ranges(path).table) == 0
    with pytest.raises(CaptureError, match="absent"):
        read_ranges(tmp_path / "absent")


def inside_each_other(count: int) -> bytes:
    return b"".join(b'{"name":"i","start":%d,"end":%d,"tid":1}\n' % (i, 2 * count) for i in range(count))


@pytest.mark.slow
def test_ranges_inside_each_other_are_read_in_linear_time() -> None:
    assert calls(lambda: parse_ranges(inside_each_other(4000))) < 2.2 * calls(
        lambda: parse_ranges(inside_each_other(2000))
    )
    assert parse_ranges(inside_each_other(10**5)).table.depth.tolist() == list(range(10**5))


bounds = st.integers(0, 60)
nested = st.lists(st.tuples(bounds, bounds, st.sampled_from([1, 2])), min_size=1, max_size=25)


@given(nested)
def test_derived_depth_is_the_number_of_earlier_ranges_still_open(entries: list[tuple[int, int, int]]) -> None:
    objects = [{"name": str(tid), "start": a, "end": a + b, "tid": tid} for a, b, tid in entries]
    table = parse_ranges(lines(*objects)).table
    assert len(table) == len(entries)
    rows = list(zip(table.start_ns.tolist(), table.end_ns.tolist(), table.tid.tolist(), strict=True))
    for index, (start, _, tid) in enumerate(rows):
        enclosing = [row for row in rows[:index] if row[2] == tid and row[1] > start]
        assert table.depth[index] == len(enclosing)


@given(st.binary(max_size=300))
def test_any_bytes_parse(text: bytes) -> None:
    loaded = parse_ranges(text)
    assert len(loaded.table) + loaded.bad_lines == sum(bool(line.strip()) for line in text.split(b"\n"))


def test_ranges_as_long_as_time_can_be_are_left_out_so_that_sums_hold() -> None:
    longest = {"name": "forged", "start_ns": 0, "end_ns": 2**63 - 1, "pid": 7}
    some = [{"name": "step", "start_ns": start, "end_ns": start + 10, "pid": 7} for start in (5, 25)]
    table, notes = summable(parse_ranges(lines(longest, *some, longest)).table)
    assert table.name == ("step", "step")
    assert notes == ("2 ranges last impossibly long and left out: the file is damaged.",)
    assert summable(table) == (table, ())
