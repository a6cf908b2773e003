"""A notebook with `%%pinprof`, executed by nbconvert and shown by Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import new_page
from tests.support.recorded_programs import needs_native

# They are not imported: this would take every worker a second.
if missing := [name for name in ("nbconvert", "ipykernel", "pandas") if find_spec(name) is None]:
    pytest.skip(f"{missing} are not installed", allow_module_level=True)
# However slow the machine, one cell is too short for a report: while it runs, one has to take a year.
CELLS = (
    "%load_ext pinprof\nfrom pinprof import jupyter",
    "%%pinprof first cell\nfor _ in range(200): bytearray(8 << 20)",
    "%%pinprof second\nfor _ in range(200): bytearray(8 << 20)",
    "%%pinprof nothing\nleast, jupyter.LEAST_NS = jupyter.LEAST_NS, 365 * 86400 * 10**9",
    "%%pinprof broken\njupyter.LEAST_NS = least\n1 / 0",
    "%%pinprof --frequenzy 99\nprint('never')",
    "%%pinprof apart --whole --height 500\nfor _ in range(200): bytearray(8 << 20)",
)


pytestmark = needs_native


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `book.ipynb`, executed, and the page that nbconvert makes of it, `book.html`."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": text,
        }
        for number, text in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "book.ipynb").write_text(json.dumps(book))
    # Of themselves they wait a minute for the kernel, and four seconds for an output: too short on a busy machine.
    patience = [f"--ExecutePreprocessor.{name}=240" for name in ("startup_timeout", "iopub_timeout")]
    # Ports would be chosen long before the kernel takes them; sockets in the file system have paths of 107 bytes.
    words = ["--execute", "--allow-errors", *patience, "--KernelManager.transport=ipc", "--inplace", "book.ipynb"]
    with tempfile.TemporaryDirectory(prefix="notebook-", dir="/tmp") as place:
        for more in (["--to", "notebook", *words], ["--to", "html", "book.ipynb"]):
            done = subprocess.run(
                [sys.executable, "-m", "nbconvert", *more],
                cwd=folder,
                env={**os.environ, "JUPYTER_RUNTIME_DIR": place},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return folder


def outputs(folder: Path, number: int) -> list[dict[str, Any]]:
    book = json.loads((folder / "book.ipynb").read_text())
    found: list[dict[str, Any]] = book["cells"][number]["outputs"]
    return found


def test_cells_share_one_script(executed: Path) -> None:
    (loaded,) = outputs(executed, 0)
    assert len("".join(loaded["data"]["text/html"])) > 500_000
    for number in (1, 2):
        (report,) = outputs(executed, number)
        assert len("".join(report["data"]["text/html"])) < 300_000
        text = "".join(report["data"]["text/plain"])
        assert "Capture: " in text
        assert "0 samples" not in text
    (whole,) = outputs(executed, 6)
    assert "".join(whole["data"]["text/html"]).startswith("<iframe srcdoc=")


def test_a_cell_without_a_report_says_so_in_one_line(executed: Path) -> None:
    (nothing,) = outputs(executed, 3)
    text = "".join(nothing["text"])
    assert text.startswith("pinprof: the cell took ")
    assert "too short for a report. Capture: nothing-" in text
    assert text.count("\n") == 1
    own, failed = outputs(executed, 4)
    assert own["ename"] == "ZeroDivisionError"
    (line,) = failed["traceback"]
    assert line.startswith("pinprof: the cell failed with ZeroDivisionError, so there is no report. Capture: broken-")


def test_an_unknown_option_is_refused_and_nothing_runs(executed: Path) -> None:
    (refused,) = outputs(executed, 5)
    (line,) = refused["traceback"]
    assert "unrecognized arguments: --frequenzy" in line
    assert "Did you mean --frequency?" in line


@pytest.mark.browser
def test_reports_are_shown_in_frames_as_tall_as_they_need(executed: Path, browser: Browser) -> None:
    page = new_page(browser, viewport={"width": 1200, "height": 900}, offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((executed / "book.html").as_uri())
    frames = page.locator("iframe[title='pinprof report']")
    page.wait_for_function("document.querySelectorAll('iframe').length === 3")
    for number in range(3):
        inner = page.frame_locator("iframe").nth(number)
        inner.locator("#flame").wait_for()
        assert frames.nth(number).get_attribute("sandbox") == "allow-scripts"
        assert "first cell" in inner.locator("body").inner_text() or number
    # The first two have grown to their limit, or to their content.
    page.wait_for_function("document.querySelector('iframe').getBoundingClientRect().height > 300")
    assert frames.nth(0).bounding_box()["height"] <= 904
    assert errors == []
    page.context.close()
