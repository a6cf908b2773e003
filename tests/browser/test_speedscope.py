"""Exports open in the real speedscope (npm), offline, and come out of it with the same weights."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pinprof.data.model import KERNEL, USER, Capture
from pinprof.read.assembly import KERNEL_IMAGE
from pinprof.read.formats import speedscope
from pinprof.report.export.plain import write_folded
from pinprof.report.export.speedscope import write_capture
from tests.browser.conftest import new_page
from tests.support import h200
from tests.support.profiles import DSOS, HOSTILE, capture_of, weights

pytestmark = pytest.mark.browser

RELEASE = Path(__file__).parents[1] / "tools" / "node_modules" / "speedscope" / "dist" / "release"


def import_in_speedscope(browser: Browser, folder: Path, name: str, data: bytes) -> bytes:
    """Load a profile the way the `speedscope` command does, and have speedscope save what it understood."""
    if not RELEASE.is_dir():
        pytest.skip("speedscope is not installed: npm install --prefix tests/tools")
    loader = folder / "load.js"
    encoded = base64.b64encode(data).decode()
    loader.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(encoded)})")
    page = new_page(browser, offline=True, accept_downloads=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{(RELEASE / 'index.html').as_uri()}#localProfilePath={loader.as_posix().removeprefix('/')}")
    page.wait_for_function("document.title !== 'speedscope' && document.body.innerText.includes('Sandwich')")
    with page.expect_download() as download:
        page.keyboard.press("Control+s")
    saved = Path(download.value.path()).read_bytes()
    page.context.close()
    assert errors == []
    return saved


def by_functions(capture: Capture) -> Counter[tuple[str, str, tuple[tuple[str, str], ...]]]:
    found: Counter[tuple[str, str, tuple[tuple[str, str], ...]]] = Counter()
    for (event, unit, functions), weight in weights(capture).items():
        found[event, unit, tuple((symbol, dso) for symbol, dso, _ in functions)] += weight
    return found


def read_back(saved: bytes, folder: Path) -> Capture:
    path = folder / "saved.json"
    path.write_bytes(saved)
    return speedscope.read(path)


def test_a_capture_with_two_events_opens_whole(browser: Browser, tmp_path: Path) -> None:
    capture = h200.analysis("uvm").capture
    stream = io.StringIO()
    write_capture(capture, stream)
    saved = import_in_speedscope(browser, tmp_path, "uvm.speedscope.json", stream.getvalue().encode())
    assert [profile["unit"] for profile in json.loads(saved)["profiles"]] == ["nanoseconds", "none"]
    assert by_functions(read_back(saved, tmp_path)) == by_functions(capture)


def test_hostile_names_open_and_stay_apart(browser: Browser, tmp_path: Path) -> None:
    # A downloaded file is UTF-8, which has no lone surrogates.
    names = [name for name in HOSTILE if name.isascii() or name.encode("utf-8", "ignore").decode() == name]
    capture = capture_of(
        [(0, 1000 + number, [("main", DSOS[0], USER), (name, DSOS[1], USER)]) for number, name in enumerate(names)]
        + [(0, 77, [("main", DSOS[0], USER), ("clear_page_erms", KERNEL_IMAGE, KERNEL)])]
    )
    stream = io.StringIO()
    write_capture(capture, stream)
    saved = import_in_speedscope(browser, tmp_path, "hostile.json", stream.getvalue().encode())
    assert by_functions(read_back(saved, tmp_path)) == by_functions(capture)


def test_folded_stacks_open_with_the_same_total(browser: Browser, tmp_path: Path) -> None:
    capture = h200.analysis("both").capture
    stream = io.StringIO()
    write_folded(capture, stream)
    saved = json.loads(import_in_speedscope(browser, tmp_path, "both.folded.txt", stream.getvalue().encode()))
    total = int(capture.samples.weight[capture.samples.event == 0].sum())
    assert saved["profiles"][0]["endValue"] == total
