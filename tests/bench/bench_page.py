"""Measure the page beside d3-flame-graph, speedscope and flamegraph.pl: same data, one run, headless Chromium.

    python tests/bench/bench_page.py [--samples 262000] [--paths 9500] [--large 150000] [--keep DIR] [--peers DIR]

The recording is `make_perf_data.py`'s; `--large` samples of a recording whose every path is new make the tree of about
two million nodes. d3-flame-graph and speedscope come from npm, flamegraph.pl from Debian's libdevel-nytprof-perl; each
is installed into a temporary directory (or `--peers`), and left out with the reason when it cannot be.

Ready: from navigation to the first finished view. Search: from the keystroke to the painted result. Zoom: cost of one
redraw while zooming, the median of 40 (peers: of the zoom they offer). Memory: the renderer's peak resident size.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

import make_perf_data

PATIENCE_S = 150
ROUNDS = 3

READY = """
new MutationObserver((_, observer) => {
  if (!document.getElementById('flame')?.dataset.ready) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.readyAt = performance.now(); }));
}).observe(document, { subtree: true, childList: true, attributes: true });
"""

SEARCH = """async word => {
  const input = document.getElementById('flame-search');
  const begin = performance.now();
  input.value = word;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}"""

ZOOM = """async () => {
  const canvas = document.getElementById('flame-canvas');
  canvas.scrollIntoView({ block: 'center' });
  const box = canvas.getBoundingClientRect();
  const costs = [];
  for (let step = 0; step < 40; step += 1) {
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: step < 20 ? -120 : 120, ctrlKey: true, bubbles: true,
      cancelable: true, clientX: box.left + box.width * 0.3, clientY: box.top + 40 }));
    costs.push(await new Promise(done => requestAnimationFrame(frame => done(performance.now() - frame))));
  }
  return costs;
}"""

FILTER = """async () => {
  const flame = document.getElementById('flame');
  const bar = document.querySelector('[data-filter]');
  const times = [];
  for (let turn = 0; turn < 12; turn += 1) {
    const begin = performance.now();
    bar.click();
    await new Promise(done => new MutationObserver((_, observer) => {
      if (flame.getAttribute('aria-busy') === 'true') return;
      observer.disconnect();
      done();
    }).observe(flame, { attributes: true }));
    times.push(performance.now() - begin);
  }
  return times.sort((one, other) => one - other)[6];
}"""

D3_PAGE = """<!DOCTYPE html><meta charset="utf-8"><div id="chart"></div>
<script src="D3"></script><script src="CHART"></script><script src="DATA"></script><script>
const chart = (window.flamegraph.default ?? window.flamegraph)().width(1200).minFrameSize(0);
d3.select('#chart').datum(data).call(chart);
requestAnimationFrame(() => setTimeout(() => { window.readyAt = performance.now(); }));
</script>"""

D3_SEARCH = """async word => {
  const begin = performance.now();
  chart.search(word);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}"""

D3_ZOOM = """async () => {
  const nodes = d3.selectAll('.d3-flame-graph g').data();
  const begin = performance.now();
  chart.zoomTo(nodes[Math.min(nodes.length - 1, 12)]);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return [performance.now() - begin];
}"""

SVG_READY = """
window.addEventListener('load', () => requestAnimationFrame(() => setTimeout(() => {
  window.readyAt = performance.now();
})));"""

SVG_SEARCH = """async word => {
  const begin = performance.now();
  search(word);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}"""

SVG_ZOOM = """async () => {
  const frames = document.getElementById('frames') ?? document;
  const node = [...frames.querySelectorAll('g.func_g, g')].filter(g => g.querySelector('rect'))[40];
  const begin = performance.now();
  zoom(node);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return [performance.now() - begin];
}"""


@dataclass(frozen=True)
class Row:
    """What one page took; None where it cannot be measured."""

    name: str
    megabytes: float
    ready_s: float | None
    search_ms: float | None
    zoom_ms: float | None
    memory_mb: float | None
    note: str = ""

    def cells(self) -> list[str]:
        """As the table's cells."""

        def text(value: float | None, digits: int) -> str:
            return "–" if value is None else f"{value:,.{digits}f}"

        numbers = [text(self.megabytes, 1), text(self.ready_s, 2), text(self.search_ms, 0), text(self.zoom_ms, 1)]
        return [self.name, *numbers, text(self.memory_mb, 0), self.note]


def main() -> None:
    """Make the data, measure every page, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=262_000)
    parser.add_argument("--paths", type=int, default=9500)
    parser.add_argument("--large", type=int, default=150_000)
    parser.add_argument("--keep", type=Path, help="keep recordings and pages here, and use those that are there")
    parser.add_argument("--peers", type=Path, help="install the peers here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, peers = options.keep or Path(temporary), options.peers or Path(temporary) / "peers"
        folder.mkdir(parents=True, exist_ok=True)
        rows = measure_ours(folder, "pinprof", options.samples, options.paths)
        rows += measure_peers(folder, peers, folder / f"{options.samples}-{options.paths}")
        rows += measure_ours(folder, "pinprof, large", options.large, 0)
    head = ["page", "MB", "ready s", "search ms", "zoom ms", "renderer MB", ""]
    for cells in (head, ["---"] * len(head), *(row.cells() for row in rows)):
        print(f"| {' | '.join(cells)} |")


def measure_ours(folder: Path, name: str, samples: int, paths: int) -> list[Row]:
    """Our page, without and with the plot script (which stays packed until a chart is seen)."""
    stem = folder / f"{samples}-{paths}"
    recording = stem.with_name(f"{stem.name}.perf.data")
    if not recording.exists():
        make_perf_data.make(recording, samples, paths)
    page = stem.with_name(f"{stem.name}.html")
    command = [sys.executable, "-m", "pinprof", "report", str(recording), "--kallsyms", f"{recording}.kallsyms"]
    subprocess.run([*command, "--format", "html", "-o", page], check=True, stdout=subprocess.DEVNULL)
    with stem.with_name(f"{stem.name}.folded").open("w") as folded:
        subprocess.run([*command, "--format", "folded"], check=True, stdout=folded)
    nodes = count_nodes(stem.with_name(f"{stem.name}.folded"))

    def use(browser: Page) -> tuple[float, list[float], str]:
        search = browser.evaluate(SEARCH, "level_17")
        zoom = browser.evaluate(ZOOM)
        return search, zoom, f"{nodes:,} nodes"

    def filtered(browser: Page) -> str:
        return f"filter by cause in {browser.evaluate(FILTER):.0f} ms"

    return [visit(name, page, use, READY, more=filtered)]


def count_nodes(folded: Path) -> int:
    """Nodes of the merged tree of folded stacks."""
    seen: set[str] = set()
    with folded.open() as lines:
        for line in lines:
            stack = line.rsplit(" ", 1)[0]
            while stack and stack not in seen:
                seen.add(stack)
                stack = stack.rpartition(";")[0]
    return len(seen)


def measure_peers(folder: Path, peers: Path, stem: Path) -> list[Row]:
    """The peers' pages of the same folded stacks."""
    folded = stem.with_name(f"{stem.name}.folded")
    rows = []
    if reason := install_npm(peers):
        print(f"d3-flame-graph and speedscope left out: {reason}")
    else:
        rows += [d3_flame_graph(folder, peers, folded), speedscope(folder, peers, folded)]
    if isinstance(script := flamegraph_pl(peers), str):
        print(f"flamegraph.pl left out: {script}")
    else:
        rows.append(flamegraph_svg(folder, script, folded))
    return rows


def install_npm(peers: Path) -> str:
    """Install the npm packages; the reason if that cannot be done."""
    peers.mkdir(parents=True, exist_ok=True)
    if (peers / "node_modules" / "speedscope").exists():
        return ""
    if shutil.which("npm") is None:
        return "npm is not installed"
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "speedscope", "d3-flame-graph", "d3@7"]
    done = subprocess.run(command, cwd=peers, capture_output=True, text=True, check=False)
    return f"npm install failed: {done.stderr.strip()[:200]}" if done.returncode else ""


def flamegraph_pl(peers: Path) -> Path | str:
    """The script as Debian packages it with NYTProf, unpacked but not installed; the reason if that cannot be done."""
    script = peers / "usr/share/perl5/Devel/NYTProf/flamegraph.pl"
    if script.exists():
        return script
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "no apt-get to fetch libdevel-nytprof-perl with"
    got = subprocess.run(
        ["apt-get", "download", "libdevel-nytprof-perl"], cwd=peers, capture_output=True, text=True, check=False
    )
    for package in peers.glob("libdevel-nytprof-perl*.deb"):
        subprocess.run(["dpkg", "-x", package, peers], check=True)
    return script if script.exists() else f"apt-get download failed: {got.stderr.strip()[:200]}"


def d3_flame_graph(folder: Path, peers: Path, folded: Path) -> Row:
    """All nodes as d3-flame-graph's hierarchy."""
    root: dict[str, Any] = {"name": "all", "value": 0, "children": {}}
    for line in folded.read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        root["value"] += int(weight)
        node = root
        for name in stack.split(";"):
            node = node["children"].setdefault(name, {"name": name, "value": 0, "children": {}})
            node["value"] += int(weight)

    def listed(top: dict[str, Any]) -> None:
        waiting = [top]
        while waiting:
            node = waiting.pop()
            node["children"] = list(node["children"].values())
            waiting += node["children"]

    listed(root)
    data = folder / "d3-data.js"
    data.write_text(f"const data = {json.dumps(root, separators=(',', ':'))};")
    modules = peers / "node_modules"
    chart = modules / "d3-flame-graph/dist/d3-flamegraph.umd.min.js"
    page = folder / "d3.html"
    text = D3_PAGE
    for word, file in (("D3", modules / "d3/dist/d3.min.js"), ("CHART", chart), ("DATA", data)):
        text = text.replace(f'"{word}"', f'"{file.as_uri()}"')
    page.write_text(text)

    def use(browser: Page) -> tuple[float, list[float], str]:
        return browser.evaluate(D3_SEARCH, "level_17"), browser.evaluate(D3_ZOOM), ""

    return visit("d3-flame-graph", page, use, "", size=data.stat().st_size, rounds=1)


def speedscope(folder: Path, peers: Path, folded: Path) -> Row:
    """speedscope with the folded stacks, loaded as its command line does."""
    release = peers / "node_modules/speedscope/dist/release"
    content = base64.b64encode(folded.read_bytes()).decode()
    data = folder / "speedscope-data.js"
    data.write_text(f"speedscope.loadFileFromBase64('big.folded', '{content}')")
    ready = """setInterval(() => {
      if (window.readyAt || !document.body?.innerText.includes('Left Heavy')) return;
      requestAnimationFrame(() => setTimeout(() => { window.readyAt ??= performance.now(); }));
    }, 5);"""
    page = release / "index.html"

    def use(_: Page) -> tuple[float | None, list[float], str]:
        return None, [], "search and zoom have no handle from outside"

    address = f"{page.as_uri()}#localProfilePath={data.as_uri().removeprefix('file:///')}"
    return visit("speedscope", page, use, ready, size=data.stat().st_size, address=address, rounds=1)


def flamegraph_svg(folder: Path, script: Path, folded: Path) -> Row:
    """flamegraph.pl's SVG, with its usual least width of a node."""
    page = folder / "flamegraph.svg"
    with folded.open() as lines, page.open("w") as out:
        subprocess.run(["perl", script], stdin=lines, stdout=out, stderr=subprocess.DEVNULL, check=True)
    kept = page.read_text("utf-8", errors="replace").count("<rect")

    def use(browser: Page) -> tuple[float | None, list[float], str]:
        search, zoom = None, []
        with suppress(Exception):
            search = browser.evaluate(SVG_SEARCH, "level_17")
        with suppress(Exception):
            zoom = browser.evaluate(SVG_ZOOM)
        return search, zoom, f"{kept:,} nodes left"

    return visit("flamegraph.pl", page, use, SVG_READY, rounds=1)


def visit(
    name: str,
    page: Path,
    use: Callable[[Page], tuple[float | None, list[float], str]],
    script: str,
    *,
    size: int | None = None,
    address: str = "",
    rounds: int = ROUNDS,
    more: Callable[[Page], str] | None = None,
) -> Row:
    """Open a page in a fresh browser, several times: medians, and the renderer's largest peak."""
    ready, searches, zooms, peaks, note = [], [], [], [], ""
    for _ in range(rounds):
        with sync_playwright() as playwright:
            browser = launch(playwright)
            context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
            tab = context.new_page()
            guard = threading.Timer(PATIENCE_S, end_renderers, [renderers(browser)])
            guard.start()
            if script:
                tab.add_init_script(script)
            try:
                tab.goto(address or page.resolve().as_uri(), wait_until="commit", timeout=1000 * PATIENCE_S)
                ready.append(wait_until_ready(tab))
                search, zoom, note = use(tab)
                searches += [] if search is None else [search]
                zooms += zoom
            except Exception as error:  # a peer that fails is a line in the table, not the end of the run
                ended = f"not ready, or no answer, after {PATIENCE_S} s"
                note = ended if guard.finished.is_set() else f"gave up: {str(error).splitlines()[0][:80]}"
            peaks.append(peak_mb(renderers(browser)))
            if more is not None:
                note += f"; {more(tab)}, {peak_mb(renderers(browser)):.0f} MB after 12 times"
            guard.cancel()
            browser.close()
    middle = statistics.median
    return Row(
        name,
        (size or page.stat().st_size) / 1e6,
        middle(ready) if ready else None,
        middle(searches) if searches else None,
        middle(zooms) if zooms else None,
        max(peaks) or None,
        note,
    )


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


def end_renderers(pids: list[int]) -> None:
    """End renderers that never come back; what waits for them then fails."""
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


if __name__ == "__main__":
    main()
