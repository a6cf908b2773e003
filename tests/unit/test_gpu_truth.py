"""The command that compares pinprof with nsys on a GPU, without one: its tables, its command line, its runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.read import ReadOptions, read
from tests.support.activities import KIB, Op, OpKind, activity, kernel, migration, to_device, to_host
from tests.support.nsys_file import real, write_export
from tests.truth.gpu import agreement, measure, overhead, profilers, runs
from tests.truth.gpu.runs import DEFAULT, NATIVE, NONE, NSYS, RECORDERS, WHOLE, Program, Run
from tests.truth.gpu.table import Table
from tests.truth.gpu.work import Work, of_activity, of_export

TO_GPU, PINNED_IN = "to the GPU", "host to device, pinned to device"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["both.sqlite", "uvm.sqlite"])
def test_of_a_real_export_sql_and_pinprofs_reader_find_the_same_work(name: str) -> None:
    path = real(name)
    by_sql, by_pinprof = of_export(path), of_activity(read(path, ReadOptions()).activity)
    assert by_sql == by_pinprof
    assert by_sql.kernels


def test_work_is_summed_by_direction_and_kinds_of_memory() -> None:
    operations = [
        to_device(0, 10, KIB), to_device(20, 30, KIB), to_host(40, 50, 3 * KIB, 0), kernel(60, 160),
        migration(200, 210, 64 * KIB, 2), migration(220, 230, 4 * KIB, 2, back=True), Op(OpKind.SYNC, 300, 400),
    ]  # fmt: skip
    assert of_activity(activity((), operations)) == Work(
        {PINNED_IN: (2, 2 * KIB), "device to host, device to pageable": (1, 3 * KIB)},
        1,
        100,
        {TO_GPU: 64 * KIB, "to the host": 4 * KIB},
    )
    assert of_activity(None) == Work()


def test_an_export_without_gpu_work_holds_none(tmp_path: Path) -> None:
    assert of_export(write_export(tmp_path / "empty.sqlite", {"META": [{"a": 1}]})) == Work()


THEIRS = Work({PINNED_IN: (100, 4096)}, 50, 10_000, {TO_GPU: 1_000})


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (THEIRS, []),
        (replace(THEIRS, kernel_ns=10_200, migrations={TO_GPU: 1_030}), []),
        (replace(THEIRS, kernel_ns=10_201), ["time of kernels, ns"]),
        (replace(THEIRS, migrations={TO_GPU: 969}), [f"bytes migrated {TO_GPU}"]),
        (replace(THEIRS, copies={PINNED_IN: (99, 4096)}), [f"copies {PINNED_IN}"]),
        (replace(THEIRS, kernels=51), ["kernels"]),
        (replace(THEIRS, copies={}), [f"copies {PINNED_IN}", f"bytes {PINNED_IN}"]),
    ],
)
def test_counts_are_exact_and_times_have_a_limit(ours: Work, wrong: list[str]) -> None:
    table = Table("Agreement", agreement.COLUMNS)
    agreement.compare(table, "copies", THEIRS, ours)
    assert [row["what"] for row in table.data if not row["holds"]] == wrong
    assert len(table.rows) == 5


def test_what_nsys_has_none_of_is_no_agreement() -> None:
    table = Table("Agreement", agreement.COLUMNS)
    agreement.compare(table, "copies", Work(), THEIRS)
    assert not any(row["holds"] for row in table.data if row["pinprof"])
    assert "nsys has none" in table.markdown()


def told(whole_s: float, call_ns: float) -> dict[str, Any]:
    return {"whole_ns": whole_s * 1e9, "calls": 1000, "calls_ns": call_ns * 1000}


def test_growth_is_that_within_a_round() -> None:
    table = Table("Overhead", overhead.COLUMNS)
    plain, traced = [told(1, 100), told(2, 200), {}], [told(1.1, 150), told(2.2, 300), told(9, 900)]
    overhead.add(table, "copies", {NONE: plain, DEFAULT: traced, NSYS: [{}, {}, {}]})
    none, default = table.data
    assert (none["growth"], none["call_ns"]) == (0, 150)
    assert (round(default["fastest"], 6), none["outside_ns"]) == (0.1, 1.5e9 - 150_000)
    assert (round(default["growth"], 6), default["call_growth"], default["call_ns"]) == (0.1, 0.5, 300)
    assert table.notes == ["copies grows by 10.0% under the default: more than 5%."]


def test_a_profile_is_whole_or_not() -> None:
    table = Table("Profilers", profilers.COLUMNS)
    profilers.compare(table, "torch.profiler", DEFAULT, {"kernels": 5, "copies": 2}, {"kernels": 5})
    assert [(row["what"], row["whole"]) for row in table.data] == [("copies", False), ("kernels", True)]
    assert profilers.events(THEIRS) == {"kernels": 50, "copies": 100}


def test_a_program_says_its_result_and_a_failed_one_why(tmp_path: Path) -> None:
    code = "import sys; sys.path[:0]; from say import say; say(3, 30, events={'kernels': 1})"
    one = runs.run(NONE, [sys.executable, "-c", code], tmp_path / "place")
    assert one.problem == ""
    assert (one.result["calls"], one.result["calls_ns"], one.result["events"]) == (3, 30, {"kernels": 1})
    assert runs.run(NONE, [sys.executable, "-c", "raise SystemExit('no GPU')"], tmp_path / "place").problem == (
        "status 1: no GPU"
    )
    assert "No such file" in runs.run(NONE, [str(tmp_path / "nothing")], tmp_path / "place").problem


def test_recorders_are_those_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\n")
    nsys.chmod(0o755)
    monkeypatch.setenv("NSYS", str(nsys))
    lines = {name: runs.under(name, ["./a.out", "1"], tmp_path) for name in RECORDERS}
    assert lines[NONE] == ["./a.out", "1"]
    assert all(line[-2:] == ["./a.out", "1"] for line in lines.values())
    assert "--gpu=off" in lines[NATIVE]
    assert not any(word.startswith("--gpu") for word in lines[DEFAULT])
    assert "--gpu=cupti" in lines[WHOLE]
    assert lines[NSYS][:2] == [str(nsys), "profile"]


def test_programs_that_cannot_be_compiled_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *read_back*) echo "no such GPU" >&2; exit 1;; esac\n: >"$3"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("NVCC", str(compiler))
    programs, notes = runs.own_programs(tmp_path, ("copies", "read_back", "train"), 1000)
    assert [program.name for program in programs] == ["copies", "train"]
    assert programs[0].command == (str(tmp_path / "copies"), "1000")
    assert notes == ["read_back was not compiled: no such GPU"]
    assert {path.stem for path in runs.HERE.glob("*.cu")} == {
        "copies",
        "read_back",
        "batches",
        "callback",
        "kernels",
        "managed",
        "register",
        "start",
    }


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Runs that take no time: what was run under what. A run under nsys leaves a real export, as pinprof a capture."""
    seen: list[tuple[str, str]] = []

    def run(recorder: str, command: Sequence[str], place: Path, *, export: bool = False) -> Run:
        seen.append((recorder, Path(command[-1]).name))
        if "broken" in command:
            return Run("status 1: no GPU")
        file = real("both.sqlite")
        result = {**told(1 + 0.01 * RECORDERS.index(recorder), 100), "events": {"kernels of the GPU": 7}}
        return Run("", result, file if recorder == WHOLE else None, file if export else None)

    monkeypatch.setattr(runs, "run", run)
    monkeypatch.setattr(
        runs, "own_programs", lambda _place, names, _count: ([Program(name, (name,)) for name in names], ["a note"])
    )
    return seen


def test_the_command_writes_three_tables(
    stand_in: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(overhead, "time", SimpleNamespace(sleep=waited.append))
    status = measure.main([str(tmp_path), "--case", "mine=./mine --fast", "--case", "bad=./x broken", "--rounds", "2"])
    text = (tmp_path / "results.md").read_text("utf-8")
    document = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert status == 0
    assert list(document["tables"]) == ["agreement", "overhead", "profilers"]
    assert "- bad was not compared: nsys: status 1: no GPU; pinprof: status 1: no GPU." in text
    agreed = document["tables"]["agreement"]["rows"]
    assert {row["program"] for row in agreed} == {"mine", "copies", "read_back", "batches", "train"}
    costs = document["tables"]["overhead"]["rows"]
    assert {row["program"] for row in costs} >= {"pageable", "pinned", "zerocopy", "uvm", "copies", "launches", "mine"}
    assert {row["recorder"] for row in costs} == set(RECORDERS)
    assert all(len(row["rounds"]) == 2 for row in costs)
    count = len(RECORDERS)
    first, second = stand_in[12 : 12 + count], stand_in[12 + count : 12 + 2 * count]
    assert waited == [overhead.SETTLE_S] * (sum(len(row["rounds"]) for row in costs) + 2 * len(RECORDERS))
    assert [name for name, _ in first] != [name for name, _ in second]
    assert {name for name, _ in first} == {name for name, _ in second} == set(RECORDERS)
    assert all(row["whole"] for row in document["tables"]["profilers"]["rows"])
    assert text.count("- bad under none") == 1
    assert len([command for _, command in stand_in if command == "broken"]) == 2 + len(RECORDERS)


def test_only_the_tables_that_are_asked_for_are_made(
    stand_in: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "of_export", lambda _path: Work(kernels=1))
    assert measure.main([str(tmp_path), "--only", "agreement"]) == 1
    assert list(json.loads((tmp_path / "results.json").read_text("utf-8"))["tables"]) == ["agreement"]
    assert {name for name, _ in stand_in} == {NSYS, WHOLE}


@pytest.mark.parametrize("words", [["--case", "nothing"], ["--case", "a="], ["--only", "speed"]])
def test_what_is_no_case_or_table_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as refused:
        measure.main([str(tmp_path / "out"), *words])
    assert refused.value.code == 2
    assert not (tmp_path / "out").exists()
