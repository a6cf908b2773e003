"""Workers share the tests so that few recordings run beside others, whatever pytest and pytest-xdist are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.distribution import LOOK_THROUGH_ALL, RECORD_NOTHING, STAND_COMPANY, place_of

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
    "beside": [f"integration/{name}" for name in sorted(STAND_COMPANY)],
    "browser": [f"browser/test_{name}.py" for name in "ghi"],
    "others": [f"unit/test_{name}.py" for name in "jklmnopqrstu"],
}


@pytest.mark.slow
def test_recordings_have_one_worker_those_that_stand_company_one_and_pages_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for path in (tmp_path / "tests" / module for modules in MODULES.values() for module in modules):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SAYS_ITS_WORKER)
    options = ["-q", "--numprocesses=3", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
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
    assert [len(workers[kind]) for kind in ("recording", "beside", "browser")] == [1, 1, 1]
    assert len(set.union(*workers.values())) == 3


def test_the_longest_groups_come_first() -> None:
    others = ["fuzz/test_a.py", "integration/test_wheel.py", "unit/base/test_b.py"]
    longest = ["integration/test_a.py", "integration/test_nsys.py", "browser/test_c.py"]
    ordered = sorted((f"tests/{path}::test_here" for path in (*others, *longest)), key=place_of)
    assert ordered == [f"tests/{path}::test_here" for path in (*longest, *others)]


def test_what_stands_company_is_there_and_records() -> None:
    assert not [name for name in STAND_COMPANY if not (ROOT / "tests/integration" / name).exists()]
    assert not STAND_COMPANY & RECORD_NOTHING


def test_the_modules_that_record_nothing_are_there_and_start_no_recording() -> None:
    for name in RECORD_NOTHING:
        text = (ROOT / "tests/integration" / name).read_text()
        assert '"record"' not in text
        assert "perf record" not in text


def test_what_looks_through_all_sources_is_what_shares_their_nodes() -> None:
    using = "from tests.support.sources import calls"
    found = {path for path in (ROOT / "tests").rglob("test_*.py") if f"\n{using}" in path.read_text("utf-8")}
    assert {str(path.relative_to(ROOT)) for path in found} == LOOK_THROUGH_ALL
