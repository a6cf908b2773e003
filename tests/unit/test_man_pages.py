"""Man pages are made of the commands, and completion knows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.cli import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("click_man", reason="click-man is not installed")
    folder = tmp_path_factory.mktemp("man")
    # In a process of its own: it changes the commands.
    subprocess.run([sys.executable, str(ROOT / "tools/man_pages.py"), str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.mark.slow
def test_every_command_has_a_page(pages: Path) -> None:
    assert {path.stem for path in pages.iterdir()} == {"pinprof", *(f"pinprof-{name}" for name in COMMANDS)}
    overview = (pages / "pinprof.1").read_text()
    for name, summary in COMMANDS.items():
        assert f"{name}\\fP" in overview
        assert summary in overview


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_formats_them_without_a_warning(pages: Path) -> None:
    for page in sorted(pages.iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", str(page)], capture_output=True, text=True, check=True
        )
        assert done.stderr == "", page.name


@pytest.mark.slow
def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> set[str]:
        environment = {**os.environ, "_PINPROF_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
        done = subprocess.run(
            [sys.executable, "-m", "pinprof"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        return set(done.stdout.split())

    assert "plain,--frequency" in completed("pinprof record --freq")
