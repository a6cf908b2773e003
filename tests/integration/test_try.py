"""A whole trial with its recordings: what the recorded run selects, predicts and measures; no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.programs import Skipped, programs

WORKS = """
from pinprof.scenario import phase
with phase("work hard"):
    blocks = [bytes(4 << 20) for _ in range(3)]
    total = sum(value * value for value in range(500_000))
"""


def tried(folder: Path, program: list[str], *options: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "pinprof", "try", "--time", "1s", "--format", "json", *options, "--"]
    done = subprocess.run([*words, *program], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_recorded_run_selects_cures_and_predicts_what_they_save(tmp_path: Path) -> None:
    (program,) = programs(["fresh_buffers"])
    try:
        command = program.command(tmp_path, sys.executable)
    except Skipped as reason:
        pytest.skip(str(reason))
    result = tried(tmp_path, command)
    cures = {cure["id"]: cure for cure in result["cures"]}
    assert {"glibc-keep-memory", "glibc-keep-huge-pages", "large-blocks"} <= cures.keys()
    assert "pinned-pool" not in cures
    assert "torch-huge-pages" not in cures
    first = result["cures"][0]
    assert first["state"] == "too-few"
    assert first["rounds"] == 1
    for name in ("glibc-keep-memory", "large-blocks"):
        predicted = cures[name]["predicted_ratio"]
        assert 0 <= predicted["low"] <= predicted["median"] <= predicted["high"] < 1
        assert any("fills new memory" in title for title in cures[name]["opportunities"])
    assert not list(tmp_path.glob("*.pinprof*"))


def test_what_only_a_recording_tells_is_measured_in_recorded_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKS]
    result = tried(tmp_path, command, "--cure", "large-blocks", "--no-record", "--measure", "range:work hard")
    cure = result["cures"][0]
    assert cure["state"] == "too-few"
    assert result["as_is"]["median"] > 0
    assert cure["side"]["median"] > 0
    assert result["unit"] == "ns"
