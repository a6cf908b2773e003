"""What a type checker and `from pinprof import …` see of the Python API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pinprof

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/data/api_user.py"


@pytest.mark.slow
def test_a_users_script_passes_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    # Its own settings, as a user has them: none. `type: ignore` that is not needed is an error there, too.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-pandas]\nignore_missing_imports = true\n")
    script = tmp_path / "user.py"
    script.write_text(SCRIPT.read_text())
    words = ["--strict", "--config-file", str(tmp_path / "mypy.ini"), "--follow-imports", "silent"]
    words += ["--cache-dir", str(ROOT / ".mypy_cache/user"), str(script)]
    done = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_name_can_be_imported_and_is_in_the_script() -> None:
    text = SCRIPT.read_text()
    for name in pinprof.__all__:
        assert getattr(pinprof, name) is not None
        assert name == "Recorded" or f"pinprof.{name}" in text
    tables = [name for name, value in vars(pinprof.Result).items() if isinstance(value, property)]
    assert [name for name in tables if f".{name}" not in text] == []


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "Give another name with -o, or --force to replace it.",
            "Give another name with `output`, or `force=True` to replace it.",
        ),
        ("Give --fault-period 1 or more.", "Give `fault_period` 1 or more."),
        ("Record with --gpu off.", 'Record with `gpu="off"`.'),
        ("In a container: --cap-add PERFMON.", "In a container: --cap-add PERFMON."),
        ("Try --no-off-cpu.", "Try `off_cpu=False`."),
    ],
)
def test_errors_name_keywords(said: str, wanted: str) -> None:
    from pinprof.result import in_python

    assert in_python(said) == wanted
