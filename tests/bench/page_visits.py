"""A page opened in fresh headless browsers, and what it took: for bench_page.py and the peers beside it."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

PATIENCE_S = 150
ROUNDS = 3

FRAMES = """
const request = window.requestAnimationFrame;
window.spent = 0;
window.requestAnimationFrame = (callback) => request.call(window, (time) => {
  const begin = performance.now();
  try { callback(time); } finally { window.spent += performance.now() - begin; }
});
window.frames = (count) => new Promise((done) => {
  const step = (left) => (left ? request.call(window, () => setTimeout(step, 0, left - 1)) : done());
  step(count);
});
"""

ZOOM = """async ([x, y]) => {
  const costs = [];
  const place = document.elementFromPoint(x, y);
  if (place.tagName !== 'CANVAS') throw new Error(`no canvas at ${x}, ${y}`);
  for (let step = 0; step < 40; step += 1) {
    await window.frames(1);
    window.spent = 0;
    const begin = performance.now();
    place.dispatchEvent(new WheelEvent('wheel', { deltaY: step < 20 ? -120 : 120,
      ctrlKey: true, bubbles: true, cancelable: true, clientX: x, clientY: y }));
    const handled = performance.now() - begin;
    await window.frames(2);
    costs.push(handled + window.spent);
  }
  return costs;
}"""


@dataclass
class Taken:
    """What one page took, in every round; empty where it cannot be measured."""

    ready_s: list[float] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    zoom_ms: list[float] = field(default_factory=list)
    timeline_ms: list[float] = field(default_factory=list)
    filter_ms: list[float] = field(default_factory=list)
    leaf_up_ms: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    """After the first view, search and zoom."""
    all_mb: list[float] = field(default_factory=list)
    note: str = ""


HEAD = [
    "page", "MB", "ready s", "search ms", "zoom ms", "timeline ms", "filter ms", "leaf up ms", "renderer MB",
    "after all MB", "",
]  # fmt: skip


def cells(name: str, megabytes: float, taken: Taken) -> list[str]:
    """A row of the table: medians, and the largest of the peaks."""

    def text(values: list[float], digits: int, of: Callable[[list[float]], float] = statistics.median) -> str:
        return f"{of(values):,.{digits}f}" if values else "–"

    return [
        name,
        f"{megabytes:,.1f}",
        text(taken.ready_s, 2),
        text(taken.search_ms, 0),
        text(taken.zoom_ms, 1),
        text(taken.timeline_ms, 1),
        text(taken.filter_ms, 0),
        text(taken.leaf_up_ms, 0),
        text(taken.peak_mb, 0, max),
        text(taken.all_mb, 0, max),
        taken.note,
    ]


def visit(
    page: Path,
    use: Callable[[Page, Taken], None],
    script: str = "",
    *,
    address: str = "",
    rounds: int = ROUNDS,
    more: Callable[[Page, Taken], None] | None = None,
) -> Taken:
    """Open a page in a fresh browser, several times. A page that fails is told of in the note."""
    taken = Taken()
    for _ in range(rounds):
        with sync_playwright() as playwright:
            browser = launch(playwright)
            context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
            tab = context.new_page()
            guard = threading.Timer(PATIENCE_S, give_up, [renderers(browser), taken])
            guard.start()
            if script:
                tab.add_init_script(script)
            try:
                tab.goto(address or page.resolve().as_uri(), wait_until="commit", timeout=1000 * PATIENCE_S)
                taken.ready_s.append(wait_until_ready(tab))
                use(tab, taken)
                taken.peak_mb.append(peak_mb(renderers(browser)))
                if more is not None:
                    more(tab, taken)
                    taken.all_mb.append(peak_mb(renderers(browser)))
            except Exception as error:  # a peer that fails is a line in the table, not the end of the run
                taken.note = taken.note or f"gave up: {str(error).splitlines()[0][:80]}"
            guard.cancel()
            browser.close()
    return taken


def wait_until_ready(tab: Page) -> float:
    """Seconds from navigation to readiness; polled, because the page's policy forbids evaluated strings."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if at := tab.evaluate("window.readyAt ?? 0"):
            return float(at) / 1000
        time.sleep(0.05)
    raise TimeoutError(f"not ready after {PATIENCE_S} s")


def launch(playwright: Any) -> Browser:
    """Debian's Chromium, headless, allowed to read the peers' files next to each other."""
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    return playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)


def renderers(browser: Browser) -> list[int]:
    """Process ids of the browser's renderers."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return [process["id"] for process in processes if process["type"] == "renderer"]


def give_up(pids: list[int], taken: Taken) -> None:
    """Note what renderers that never come back have used, and end them; what waits for them then fails."""
    taken.peak_mb.append(peak_mb(pids))
    taken.note = f"not ready, or no answer, after {PATIENCE_S} s"
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def peak_mb(pids: list[int]) -> float:
    """The largest peak resident size of these processes."""
    peaks = [0.0]
    for pid in pids:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            peaks += [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)
