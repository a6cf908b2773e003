"""Workers share the tests so that no recording runs beside another, whatever pytest and pytest-xdist are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.distribution import LOOK_THROUGH_ALL, RECORD_NOTHING
from tests.support.tracing import UNTRACED

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support.distribution import Groups

def pytest_xdist_make_scheduler(config, log):
    return Groups(config, log)
"""
SAYS_ITS_WORKER = """
import os
from pathlib import Path

def test_here():
    Path(__file__ + ".worker").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""
MODULES = {
    "recording": [f"integration/test_{name}.py" for name in "abcdef"],
    "browser": [f"browser/test_{name}.py" for name in "ghi"],
    "others": [f"unit/test_{name}.py" for name in "jklmnopqrstu"],
}


@pytest.mark.slow
def test_every_recording_has_one_worker_and_every_page_has_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for path in (tmp_path / "tests" / module for modules in MODULES.values() for module in modules):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SAYS_ITS_WORKER)
    options = ["-q", "--numprocesses=2", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir=.", "--import-mode=importlib", "tests"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    workers = {
        kind: {(tmp_path / "tests" / f"{module}.worker").read_text() for module in modules}
        for kind, modules in MODULES.items()
    }
    assert len(workers["recording"]) == len(workers["browser"]) == 1
    assert len(workers["recording"] | workers["browser"] | workers["others"]) == 2


def test_the_modules_that_record_nothing_are_there_and_start_no_recording() -> None:
    for name in RECORD_NOTHING:
        text = (ROOT / "tests/integration" / name).read_text()
        assert '"record"' not in text
        assert "perf record" not in text


def test_what_is_not_traced_is_there() -> None:
    assert not [path for path in UNTRACED if not (ROOT / path).exists()]


def test_what_looks_through_all_sources_is_what_shares_their_nodes() -> None:
    using = "from tests.support.sources import calls"
    found = {path for path in (ROOT / "tests").rglob("test_*.py") if f"\n{using}" in path.read_text("utf-8")}
    assert {str(path.relative_to(ROOT)) for path in found} == LOOK_THROUGH_ALL
