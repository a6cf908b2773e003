"""Draw the pictures of the documentation in Chromium, from the committed captures.

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
CASES = ROOT / "tests" / "data" / "cases"
STORIES = {"story-pytorch": "dataloader_fresh", "story-cuda": "fresh_h2d", "story-service": "pool_start"}
SIZE = {"width": 1180, "height": 900}
ANNOTATED = "fresh_h2d"
MARKS = (
    "h1",
    ".facts",
    "#events",
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
        for story, capture in STORIES.items():
            path = Path(folder) / f"{capture}.html"
            write_html(build(analyze(read.read(CASES / f"{capture}.pinprof.tar.xz"))), path)
            page = chromium.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            page.goto(path.as_uri())
            page.wait_for_timeout(500)
            page.screenshot(path=images / f"{story}.png")
            if capture == ANNOTATED:
                for number, selector in enumerate(MARKS, 1):
                    page.evaluate(_NUMBER, [selector, str(number)])
                page.screenshot(path=images / "annotated-page.png")
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
