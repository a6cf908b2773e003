"""`memory.jsonl` as columns: gaps are filled, damage is counted, sums are over the processes that were there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze.memory import summarise_memory
from pinprof.data.memory_log import MemoryLog
from pinprof.read.memory import read_memory
from tests.support.stacks import CLOCK, FAULTS, Sample, capture


def line(time: int, *processes: dict[str, Any], **machine: int) -> str:
    return json.dumps({"t": time, "machine": machine, "processes": processes}) + "\n"


def log(tmp_path: Path, *text: str) -> MemoryLog | None:
    path = tmp_path / "memory.jsonl"
    path.write_text("".join(text))
    return read_memory(path)


def test_columns_and_what_was_not_said_again(tmp_path: Path) -> None:
    found = log(
        tmp_path,
        line(10, {"pid": 7, "name": "app", "rss": 100, "huge": 64}, pgfault=5),
        line(20, {"pid": 7, "rss": 300}, {"pid": 8, "name": "child", "rss": 50}, pgfault=9),
        line(30, {"pid": 7, "rss": 200}, pgfault=11, compact_stall=1),
    )
    assert found is not None
    assert found.time_ns.tolist() == [10, 20, 30]
    assert {name: values.tolist() for name, values in found.machine.items()} == {
        "pgfault": [5, 9, 11], "compact_stall": [1, 1, 1],
    }  # fmt: skip
    app, child = found.processes
    assert (app.pid, app.name, app.values["huge"].tolist()) == (7, "app", [64, 64, 64])
    assert (child.name, child.time_ns.tolist(), child.values["rss"].tolist()) == ("child", [20], [50])


@pytest.mark.parametrize(
    "damage",
    [
        "not json\n", "[1]\n", '{"t": -1}\n', '{"t": true}\n', '{"t": 15, "machine": {}, "processes": []}',
        '{"t": 10, "machine": {}, "processes": []}\n', "[" * 100_000 + "\n",
    ],
)  # fmt: skip
def test_lines_that_are_no_look_are_left_out_and_counted(tmp_path: Path, damage: str) -> None:
    found = log(tmp_path, line(10, {"pid": 7, "rss": 1}), damage)
    assert found is not None
    assert (found.time_ns.tolist(), found.bad_lines) == ([10], 1)


def test_values_that_are_no_amount_are_left_out(tmp_path: Path) -> None:
    found = log(tmp_path, line(10, {"pid": 7, "rss": -5, "shmem": "x", "pinned": 3}, {"pid": "no"}, pgfault=1 << 70))
    assert found is not None
    assert {name: values.tolist() for name, values in found.processes[0].values.items()} == {"pinned": [3]}
    assert found.machine == {}


def test_pages_are_columns_and_odd_ones_are_left_out(tmp_path: Path) -> None:
    odd: list[Any] = [
        [1, 2], [1, 2, 0, 0], "x", None, [-1, 0, 0], [4096, -3, 0], [4096, 0, 2], [4096, 1 << 15, 0], [1 << 63, 0, 0],
        [4096.0, 0, 0], [True, 0, 0], {"a": 1}, [[4096], 0, 0],
    ]  # fmt: skip
    found = log(
        tmp_path,
        line(10, {"pid": 7, "rss": 1, "pages": [[4096, 0, 1], *odd, [8192, -1, -1]]}, {"pid": 8, "pages": "none"}),
        line(20, {"pid": 8, "pages": [[4096, 3, 0]]}, {"pages": [[4096, 3, 0]]}),
    )
    assert found is not None
    pages = found.pages
    assert pages.time_ns.tolist() == [10, 10, 20]
    assert (pages.pid.tolist(), pages.address.tolist()) == ([7, 7, 8], [4096, 8192, 4096])
    assert (pages.node.tolist(), pages.huge.tolist()) == ([0, -1, 3], [1, -1, 0])
    assert found.processes[0].values["rss"].tolist() == [1]


def test_no_line_has_more_pages_than_a_look_can_find(tmp_path: Path) -> None:
    found = log(tmp_path, line(10, {"pid": 7, "pages": [[4096 * page, 0, 0] for page in range(10_000)]}))
    assert found is not None
    assert len(found.pages) == 4096


def test_an_empty_log_is_none(tmp_path: Path) -> None:
    assert log(tmp_path) is None


def test_peaks_are_of_all_processes_together_and_counters_grow(tmp_path: Path) -> None:
    found = log(
        tmp_path,
        line(10, {"pid": 7, "rss": 100, "threads": 1}, pgfault=5, nr_free_pages=9, nr_foll_pin_acquired=1),
        line(
            20, {"pid": 7, "rss": 300, "threads": 1}, {"pid": 8, "rss": 50, "threads": 3}, pgfault=905, nr_free_pages=4
        ),
        line(30, {"pid": 7, "rss": 320, "threads": 1}, pgfault=1005, nr_free_pages=8, nr_foll_pin_acquired=21),
    )
    faults = [Sample(["main@/app"], 64, number, event=1) for number in range(10)]
    data = replace(capture([Sample(["main@/app"]), *faults], events=(CLOCK, FAULTS)), memory=found)
    result = summarise_memory(data)
    assert result is not None
    assert (result.peak["rss"], result.peak["threads"], result.processes) == (350, 4, 2)
    assert result.lowest_free_bytes == 4 * 4096
    assert result.growth == {"pgfault": 1000, "nr_foll_pin_acquired": 20}
    assert (result.program_faults, result.hidden_faults) == (640, 360)
