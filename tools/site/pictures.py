"""Draw the pictures of the documentation and of the README in Chromium, from the committed captures.

python tools/site/pictures.py [--images FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from pinprof import read
from pinprof.analyze import analyze
from pinprof.report.gather import build
from pinprof.report.page.html import write_html

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PICTURES = {
    "story-pytorch": ("cases/dataloader_fresh", ""),
    "story-cuda": ("cases/fresh_h2d", ""),
    "story-service": ("cases/pool_start", ""),
    "summary": ("cases/weights_offload", ""),
    "managed-memory-storm": ("h200/uvm-perf-nsys", "#uvm"),
}
"""Picture → the capture whose page it shows, and which part of the page; none: what a window shows first."""
SIZE = {"width": 1180, "height": 900}
ANNOTATED = "story-cuda"
MARKS = (
    "h1",
    ".gain h3",
    ".gain .saving",
    ".gain .gain-words",
    ".gain .command",
    ".gain .gain-more",
)
"""What the annotated picture numbers, in the order of docs/reading-a-report.md."""

_NUMBER = """([selector, number]) => {
  const place = document.querySelector(selector).getBoundingClientRect();
  const mark = document.createElement("div");
  mark.textContent = number;
  mark.style.cssText = "position:absolute; width:24px; height:24px; border-radius:50%; background:#c2185b;" +
    "font:600 14px/24px sans-serif; text-align:center; z-index:9; color:#fff";
  mark.style.left = `${place.left + scrollX - 27}px`;
  mark.style.top = `${place.top + scrollY + place.height / 2 - 12}px`;
  document.body.append(mark);
}"""


def main() -> int:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images")
    images = parser.parse_args().images
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.environ["XDG_DATA_HOME"] = folder
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for picture, (capture, part) in PICTURES.items():
            path = Path(folder) / f"{picture}.html"
            write_html(build(analyze(read.read(DATA / f"{capture}.pinprof.tar.xz"))), path)
            page = chromium.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            page.goto(path.as_uri())
            page.wait_for_timeout(500)
            if part:
                place = page.locator(part)
                place.scroll_into_view_if_needed()
                page.wait_for_timeout(500)
                # What stays at the top of the window would cover it.
                page.add_style_tag(content=".top { position: static !important; }")
                place.screenshot(path=images / f"{picture}.png")
            else:
                page.screenshot(path=images / f"{picture}.png")
            if picture == ANNOTATED:
                for number, selector in enumerate(MARKS, 1):
                    page.evaluate(_NUMBER, [selector, str(number)])
                page.screenshot(path=images / "annotated-page.png")
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
