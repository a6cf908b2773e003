"""The tools that make the gallery: measuring every scenario, the table of scenarios, the pages and their index."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.h200 import DATA

TOOLS = Path(__file__).parents[2] / "tools"


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_measuring_packs_what_runs_and_says_what_does_not(tmp_path: Path) -> None:
    settings = {
        "BACKEND": "host", "SIZE": "1MiB", "ITERATIONS": "1", "BENCH_TIME": "0", "PYTHON": sys.executable,
        "ONLY": "^(zerocopy|strided-coalesced)$",
    }  # fmt: skip
    done = run("bash", TOOLS / "measure-gpu.sh", tmp_path, **settings)
    if re.search("FAIL zerocopy", done.stdout) and re.search("not permit|paranoid", done.stdout):
        pytest.skip("recording is not permitted here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^OK zerocopy: 1MiB × 1 at 999 Hz, \d+ bytes", done.stdout, re.MULTILINE)
    assert re.search(r"^SKIP strided-coalesced: .*needs an NVIDIA GPU", done.stdout, re.MULTILINE)
    assert "0 failed, 0 left out" in done.stdout
    (row,) = json.loads((tmp_path / "scenarios.json").read_text())
    assert (row["scenario"], row["size_bytes"], row["iterations"]) == ("zerocopy", 1 << 20, 1)
    assert "| zerocopy | `zerocopy` | 1 MiB |" in (tmp_path / "scenarios.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "scenarios.json", "scenarios.md", "zerocopy.pinprof.tar.xz",
    ]  # fmt: skip


def test_measuring_tells_a_failure_by_its_status(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *specs*) printf 'pinned\\t\\n' ;;\n"
        "  *run*) echo 'out of luck'; exit 9 ;;\n"
        f'  *scenario_table*) exec {sys.executable} "$@" ;;\n'
        "esac\n"
    )
    broken.chmod(0o755)
    done = run("bash", TOOLS / "measure-gpu.sh", tmp_path / "out", PYTHON=str(broken), BENCH_TIME="0", ONLY="^pinned$")
    assert done.returncode == 1
    assert "FAIL pinned: status 9\nout of luck" in done.stdout


def test_table_has_every_scenario_with_its_heaviest_causes() -> None:
    table = run(sys.executable, TOOLS / "scenario_table.py", DATA)
    assert table.returncode == 0, table.stderr
    rows = {line.split(" | ")[0].strip("| "): line for line in table.stdout.splitlines()[2:]}
    assert {"pinned", "pageable", "zerocopy", "uvm", "uvm-nsys"} <= set(rows)
    assert "program" not in rows, "it is no scenario"
    assert re.search(r"152 ms \| `pin.faultin` 42 %, `user.app` 32 %, `free.shmem`", rows["pinned"])


def test_gallery_has_a_page_for_each_capture_an_index_and_one_copy_of_the_scripts(tmp_path: Path) -> None:
    captures, reports = tmp_path / "captures", tmp_path / "reports"
    captures.mkdir()
    reports.mkdir()
    (reports / "gone.html").write_text("a page whose capture is gone")
    for name in ("pinned", "program"):
        shutil.copy(DATA / f"{name}.pinprof.tar.xz", captures)
    made = run(sys.executable, TOOLS / "make_reports.py", "--captures", captures, "--reports", reports)
    assert made.returncode == 0, made.stderr
    names = sorted(path.name for path in reports.iterdir())
    assert [name for name in names if name.endswith(".html")] == ["index.html", "pinned.html", "program.html"]
    assert len([name for name in names if name.endswith(".js")]) == 2
    index = (reports / "index.html").read_text("utf-8")
    assert '<a href="pinned.html">pinned</a>' in index
    assert re.search(r"9\d % of cudaMallocHost \+ cudaMalloc is pin_user_pages", index)
    assert "<h2>other recordings</h2>" in index


def test_gallery_names_a_capture_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "captures" / "bad.pinprof").mkdir(parents=True)
    made = run(
        sys.executable, TOOLS / "make_reports.py", "--captures", tmp_path / "captures", "--reports", tmp_path / "r"
    )
    assert made.returncode == 1
    assert "bad.pinprof: " in made.stderr
    assert "Traceback" not in made.stderr
