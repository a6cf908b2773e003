"""The stored Python stacks: several segments as one, and files that are damaged or hostile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.python.stacks import load
from tests.support.examples import examples


def one(start: int, times: list[int], stacks: list[int], **more: Any) -> dict[str, Any]:
    frames = [["main", "/app/train.py", 3], ["load", "/app/train.py", 8]]
    thread = {"pid": 7, "tid": 9, "name": "T", "times": times, "stacks": stacks}
    made = {"start_ns": start, "end_ns": start + 100, "uncertainty_ns": 5, "frames": frames}
    return made | {"stacks": [[-1, 0], [0, 1]], "threads": [thread], "unnamed_threads": 0} | more


def write(path: Path, *segments: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(gzip.compress(json.dumps(raw).encode() + b"\n") for raw in segments))
    return path


def at(path: Path, *times: int) -> list[list[str]]:
    found = load(path)
    stacks = found.at(7, 9, np.array(times, np.int64)).tolist()
    return [[found.frames[frame][0] for frame in found.chain(stack)] for stack in stacks]


def test_a_stack_lasts_until_the_next(tmp_path: Path) -> None:
    path = write(tmp_path / "stacks", one(1000, [10, 20, 30], [0, 1, -1]))
    assert at(path, 1009, 1010, 1029, 1030, 1060) == [[], ["main"], ["main"], ["main", "load"], []]
    assert load(path).at(7, 8, np.array([1020])).tolist() == [-1], "another thread"
    assert load(path).names == {(7, 9): "T"}


def test_where_two_segments_overlap_the_later_one_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "stacks", one(1000, [0, 100], [1, -1]), one(1050, [0, 100], [0, -1]))
    assert at(path, 1049, 1050, 1149, 1150) == [["main", "load"], ["main"], ["main"], []]
    assert len(load(path).frames) == 2, "what both have is kept once"


def looked(**more: Any) -> dict[str, Any]:
    thread = {"pid": 7, "tid": 9, "name": "T", "times": [5000, 4000], "lasts": [2000, 0], "stacks": [0, 1]}
    return one(1000, [], []) | {"threads": [thread | more], "looks": {"7": [1, 4, 1, 1, 2]}}


def test_a_look_says_when_it_saw_a_thread(tmp_path: Path) -> None:
    path = write(tmp_path / "stacks", looked(windows=[[-3, 0, 2, -1], [2, 0, 0, 30], [5, 0, 4, 12]]))
    since, begun, ended, stack = load(path).windows(7, 9)
    assert begun.tolist() == [5700, 8200, 9900]
    assert (since.tolist(), ended.tolist(), stack.tolist()) == ([5500, 8200, 6900], [6200, 8600, 11_100], [0, 0, 1])
    assert load(path).looks(7, 9).time.tolist() == [6000, 8000, 10_000], "the second one did not see it"
    since, begun, ended, _ = load(write(path, looked())).windows(7, 9)
    assert since.tolist() == begun.tolist() == ended.tolist() == [6000, 7000, 8000, 10_000], "in older recordings"
    for columns in ([[1], [0], [1, 1]], [[1] * 9, [0] * 9, [1] * 9], [[1 << 40], [0], [1]], [[1], [0]]):
        assert load(write(path, looked(windows=columns))).damaged


def test_a_file_cut_off_or_damaged_gives_what_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "stacks", one(1000, [10], [0]), one(2000, [10], [1]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert at(path, 1010, 2010) == [["main"], ["main", "load"]], "the text was whole before the checksum"
    path.write_bytes(whole[: len(whole) // 2 + 20])
    assert at(path, 1010, 2010) == [["main"], ["main"]]
    assert load(path).damaged
    path.write_bytes(b"no gzip")
    assert load(path).damaged
    path.write_bytes(b"")
    assert not load(path).threads


def test_a_frame_with_an_impossible_line_keeps_its_segment(tmp_path: Path) -> None:
    made = one(1000, [10], [0])
    function, file, _ = made["frames"][0]
    made["frames"][0] = [function, file, -456211038340751748]
    loaded = load(write(tmp_path / "stacks", made))
    assert loaded.frames[0] == (function, file, 0)
    assert loaded.impossible_lines == 1
    assert not loaded.damaged
    assert at(tmp_path / "stacks", 1010) == [["main"]]


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": [[0, 0]]},
        {"stacks": [[-1, 9]]},
        {"stacks": [[-2, 0]]},
        {"frames": [["main"]]},
        {"threads": [{"pid": 7, "tid": 9, "name": "T", "times": [1, -5], "stacks": [0, 0]}]},
        {"threads": [{"pid": 7, "tid": 9, "name": "T", "times": [1], "stacks": [7]}]},
        {"threads": [{"pid": 7, "tid": 9, "name": "T", "times": [1], "stacks": [0, 1]}]},
        {"threads": [{"pid": 7}]},
        {"start_ns": 1 << 200},
        {"threads": 4},
    ],
)
def test_a_segment_that_is_not_as_documented_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write(tmp_path / "stacks", one(1000, [10], [0]) | change, one(2000, [10], [1]))
    found = load(path)
    assert found.damaged
    assert at(path, 1010, 2010) == [[], ["main", "load"]]


@given(st.binary(max_size=200))
@examples(50)
def test_any_bytes_are_read_without_a_crash(data: bytes) -> None:
    path = Path("/dev/shm") / "pinprof-test-stacks"
    for content in (data, gzip.compress(data), gzip.compress(b'{"frames": [' + data)):
        path.write_bytes(content)
        load(path)
    path.unlink()


def test_a_look_at_a_generator_that_stopped_meanwhile_is_none(tmp_path: Path) -> None:
    frames = [["<genexpr>", "/app/train.py", 3], ["main", "/app/train.py", 8]]
    path = write(tmp_path / "stacks", looked() | {"frames": frames, "stacks": [[-1, 1], [-1, 0]]})
    assert load(path).looks(7, 9).stack.tolist() == [0, 0, 0]
    path = write(tmp_path / "stacks", looked() | {"frames": frames})
    assert load(path).looks(7, 9).stack.tolist() == []
    called = looked() | {"frames": frames, "stacks": [[-1, 1], [0, 0]]}
    assert load(write(tmp_path / "stacks", called)).looks(7, 9).stack.tolist() == [0, 0, 0, 1]
