"""The gallery: the pages that its index names are in the repository, with the scripts that they load, and no others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
NAMED = re.findall(r"\]\(([\w/-]+\.html)\)", (REPORTS / "README.md").read_text("utf-8"))


def test_the_repository_holds_the_pages_that_the_index_names() -> None:
    listed = subprocess.run(["git", "ls-files", "reports"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    pages = {name for name in listed.stdout.split() if name.endswith(".html")}
    assert len(NAMED) == 6
    assert pages == {f"reports/{name}" for name in NAMED}


@pytest.mark.parametrize("name", NAMED)
def test_a_page_of_the_gallery_has_its_capture_and_scripts(name: str) -> None:
    page = REPORTS / name
    text = page.read_text("utf-8")
    assert (ROOT / "tests" / "data" / "h200" / f"{page.stem}.pinprof.tar.xz").is_file()
    scripts = set(re.findall(r'\b(?:src|data-source)="([^"]+)"', text))
    assert len(scripts) == 2
    assert all((page.parent / script).is_file() for script in scripts)
