"""Launches whose ranks end in many ways: what is left of them, and what their report says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pinprof.streams.store import read_manifest
from tests.integration.test_in_the_way import captures, may_sample, pinprof, ran
from tests.support.recorded_programs import LEAST, PINPROF
from tests.support.situation import SITUATION, UNAVAILABLE

RANK = """
import os, pathlib, sys, time
rank = os.environ["RANK"]
pathlib.Path("begun-" + rank).touch()
until = time.process_time() + 0.2
while time.process_time() < until:
    sum(range(1000))
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""
"""It works, says so, and ends when it is told to."""


def launched(folder: Path, program: str, rank: int, size: int, *options: str) -> subprocess.Popen[bytes]:
    """One rank, in a group of its own."""
    environment = {"RANK": str(rank), "WORLD_SIZE": str(size), "TORCHELASTIC_RUN_ID": "job"}
    command = [*PINPROF, "record", "-o", "out", *options, *LEAST, "--", sys.executable, "-S", program]
    return subprocess.Popen(command, cwd=folder, env=os.environ | environment, process_group=0)


def until(folder: Path, *names: str) -> None:
    """Wait until these exist."""
    deadline = time.monotonic() + 300
    while not all((folder / name).exists() for name in names):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reported(folder: Path) -> dict[str, Any]:
    """What the report of the launch says."""
    command = [*PINPROF, "report", "out.ranks", "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert not done.returncode, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@may_sample
@pytest.mark.parametrize("whole", [True, False], ids=["with its recorder", "alone"])
def test_a_rank_that_is_killed_costs_its_part_and_not_the_others(whole: bool, tmp_path: Path) -> None:
    """Of a program that dies the capture is whole; where its recorder dies with it, it is missing, and told so."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "dies.py").write_text(RANK.replace("while not", "os.kill(os.getpid(), 9)\nwhile not"))
    ranks = [launched(tmp_path, "rank.py" if whole or rank != 1 else "dies.py", rank, 3) for rank in range(3)]
    until(tmp_path, *(f"begun-{rank}" for rank in range(3)))
    if whole:
        os.killpg(ranks[1].pid, signal.SIGKILL)
    ended = ranks[1].wait(300)
    (tmp_path / "go").touch()
    assert [ranks[0].wait(300), ranks[2].wait(300)] == [0, 0]
    assert ended == (-signal.SIGKILL if whole else 128 + signal.SIGKILL)
    said = reported(tmp_path)
    assert said["size"] == 3
    assert said["missing"] == ([1] if whole else [])
    assert [rank["number"] for rank in said["ranks"]] == ([0, 2] if whole else [0, 1, 2])
    assert any("rank 1" in note for note in said["notes"]) == whole


@may_sample
def test_ranks_with_programs_of_their_own_are_one_launch(tmp_path: Path) -> None:
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(RANK)
    (tmp_path / "go").touch()
    for process in [launched(tmp_path, name, rank, 2) for rank, name in enumerate(("first.py", "second.py"))]:
        assert process.wait(300) == 0
    assert captures(tmp_path) == [f"out.ranks/rank-{rank}.pinprof" for rank in range(2)]
    commands = [read_manifest(tmp_path / f"out.ranks/rank-{rank}.pinprof").command[-1] for rank in range(2)]
    assert commands == ["first.py", "second.py"]
    assert [rank["number"] for rank in reported(tmp_path)["ranks"]] == [0, 1]


@pytest.mark.parametrize("options", [(), ("-o", "out"), ("-o", "out", "--force")])
def test_a_restarted_launch_keeps_what_was_recorded_before(options: tuple[str, ...], tmp_path: Path) -> None:
    job = {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job"}
    for restart in ("0", "1"):
        for rank in ("0", "1"):
            ran(pinprof(tmp_path, *options, **job, RANK=rank, TORCHELASTIC_RESTART_COUNT=restart))
    folders = ("out", "out-2") if options else ("sh-job", "sh-job-restart-1")
    assert captures(tmp_path) == sorted(f"{one}.ranks/rank-{rank}.pinprof" for one in folders for rank in (0, 1))


@pytest.mark.parametrize("place", ["read-only", "full"])
def test_a_launch_into_a_folder_that_takes_nothing_runs_and_says_so(place: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    words = f"rofs={tmp_path}/there" if place == "read-only" else f"tmpfs={tmp_path}/there:size=4k"
    for rank in ("0", "1"):
        job = {"RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job"}
        for force in ((), ("--force",)):
            done = pinprof(tmp_path, "-o", "there/out", *force, through=(*SITUATION, words, "--"), **job)
            if done.returncode == UNAVAILABLE:
                pytest.skip(done.stderr)
            assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
            assert "Traceback" not in done.stderr
            assert ("Read-only" if place == "read-only" else "[disk-full]") in done.stderr
