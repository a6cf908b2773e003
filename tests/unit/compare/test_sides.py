"""What cannot be compared is refused in one sentence, before anything is computed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.base.errors import CaptureError, PinprofError, UsageError
from pinprof.compare.results import ComparedWeights, Family
from pinprof.compare.runs import ComparedRun, Figure
from pinprof.compare.sides import program, recordings_of, refuse_incomparable
from pinprof.compare.stacks import EventStacks
from pinprof.data.manifest import Manifest
from pinprof.data.model import Dso, FrameTable, StackTable
from tests.support.command import pinprof

FOLDED = "main;work;fill 12\nmain;work 3\n"


def manifest(*command: str, **outcome: Any) -> Manifest:
    return Manifest(1, "0", command, {}, {}, (), outcome)


def stacks(*symbols: str) -> EventStacks:
    """One chain of the program's own functions."""
    count = len(symbols)
    table = StackTable(
        np.arange(-1, count - 1, dtype=np.int32),
        np.arange(count, dtype=np.int32),
        FrameTable(symbols, np.zeros(count, np.int32), np.zeros(count, np.uint8), (Dso("./prog", "", "file"),)),
    )
    rows = ComparedWeights.of(count, node=np.arange(count), weight=1, samples=1)
    return EventStacks(table, rows, "ns", False)


def run(identity: str, about: Manifest | None = None, event: str = "cpu-clock", *symbols: str) -> ComparedRun:
    figures: dict[tuple[Family, str], Figure] = {("phase", "work"): Figure(1e9, "work")}
    return ComparedRun(
        path=f"/x/{identity}.pinprof", manifest=about or manifest(), figures=figures, work={"run": 1.0},
        measured=frozenset({"phase"}), around={},
        named={}, found=(), stacks={event: stacks(*(symbols or ("fill", "copy")))}, period_ns=1e6, rates=None,
        tracing_ns=0, identity=identity,
    )  # fmt: skip


def refusal(before: list[ComparedRun], after: list[ComparedRun]) -> str:
    with pytest.raises(PinprofError) as refused:
        refuse_incomparable(before, after)
    return str(refused.value)


def test_sides_of_one_program_are_compared() -> None:
    refuse_incomparable([run("a"), run("b")], [run("c")])
    refuse_incomparable([run("a", manifest("./prog"))], [run("b", manifest("./prog", "cured"))])


def test_interrupted_recordings_are_refused() -> None:
    message = refusal([run("a", manifest(state="interrupted"))], [run("b", manifest(state="complete"))])
    assert "a.pinprof does not cover a whole run" in message
    assert "interrupted" in message


def test_empty_recordings_are_refused() -> None:
    message = refusal([run("a")], [replace(run("b"), figures={}, stacks={})])
    assert "b.pinprof is empty" in message


def test_one_recording_under_two_names_is_refused() -> None:
    assert "are the same recording" in refusal([run("a")], [replace(run("b"), identity="a")])
    assert "are the same recording" in refusal([run("a"), replace(run("b"), identity="a")], [run("c")])


def test_different_events_are_refused() -> None:
    message = refusal([run("a", event="cpu-clock")], [run("b", event="cycles")])
    assert "different events: cpu-clock before, cycles after" in message


def test_different_programs_are_refused_unless_their_functions_are_the_same() -> None:
    before = run("a", manifest("./one"), "cpu-clock", "main", "fill")
    after = run("b", manifest("./two"), "cpu-clock", "main", "sort")
    assert "different programs: one before, two after" in refusal([before], [after])
    refuse_incomparable([before], [after], any_program=True)
    refuse_incomparable([before], [run("c", manifest("./one-new"), "cpu-clock", "main", "fill.isra.0")])


def test_a_side_of_two_programs_is_refused() -> None:
    one, two = run("a", manifest("./one")), run("b", manifest("./two"), "cpu-clock", "sort")
    assert "on one side are of different programs: one, two" in refusal([one, two], [run("c", manifest("./one"))])


def test_profiles_of_no_command_are_told_apart_by_their_functions() -> None:
    message = refusal([run("a", None, "samples", "fill")], [run("b", None, "samples", "sort")])
    assert "no functions in common" in message


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/usr/bin/python3", "-u", "train.py", "--fast"), "train.py"),
        (("python3.12", "-m", "trainer.main"), "trainer.main (python)"),
        (("python3", "-c", "print(1)"), "python3"),
        (("./build/prog", "x.py"), "prog"),
        ((), ""),
    ],
)
def test_the_program_behind_a_command(command: tuple[str, ...], name: str) -> None:
    assert program(run("a", manifest(*command))) == name


def test_a_folder_holds_its_captures_and_not_the_pages_beside_them(tmp_path: Path) -> None:
    for name in ("b.folded", "a.folded", "a.html", "notes.md", ".hidden"):
        (tmp_path / name).write_text(FOLDED)
    assert [path.name for path in recordings_of([tmp_path])] == ["a.folded", "b.folded"]
    (tmp_path / "run.pinprof").mkdir()
    assert [path.name for path in recordings_of([tmp_path])] == ["run.pinprof"]


def test_folders_of_ranks_and_of_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="has no recordings"):
        recordings_of([tmp_path])
    (tmp_path / "rank-0.pinprof").mkdir()
    with pytest.raises(UsageError, match="ranks of one launch"):
        recordings_of([tmp_path])


def fails(*arguments: str | Path, status: int = 2) -> str:
    result = pinprof("diff", *arguments)
    assert result.returncode == status
    assert result.stderr.startswith("pinprof: error: ")
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def test_the_command_says_what_is_wrong_with_its_paths(tmp_path: Path) -> None:
    first, second = tmp_path / "first.folded", tmp_path / "second.folded"
    first.write_text(FOLDED)
    shutil.copy(first, second)
    assert "first.folded is listed twice" in fails(first, first)
    assert "are the same recording" in fails(first, second)
    (tmp_path / "link.folded").symlink_to(first)
    assert "listed twice" in fails(first, tmp_path / "link.folded")
    assert "1 path is given" in fails(first)
    assert "3 paths are given" in fails(first, second, first)
    assert "There is no recording from after the change." in fails("--before", first)
    assert "missing.pinprof" in fails(first, tmp_path / "missing.pinprof", status=1)
    (tmp_path / "empty").mkdir()
    assert "has no recordings" in fails(first, tmp_path / "empty", status=1)
    (tmp_path / "nothing.folded").write_text("")
    assert "nothing.folded" in fails(first, tmp_path / "nothing.folded", status=1)
    (tmp_path / "noise").write_bytes(os.urandom(1) + b"\0\1\2\3" * 100)
    assert "noise" in fails(first, tmp_path / "noise", status=1)
    second.write_text("other;thing 4\n")
    assert "no functions in common" in fails(first, second, status=1)
    assert "--event and --merge-names need folded stacks" in fails(first, second, "--event", "cycles")
    second.write_text("main;work;fill 13\n")
    assert "--per iteration: not every recording has this unit" in fails(first, second, "--per", "iteration")
    assert "There is no event 'cycles'" in fails(first, second, "--format", "folded", "--event", "cycles")
