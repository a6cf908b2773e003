"""Measure the page beside d3-flame-graph, speedscope and flamegraph.pl: same data, one run, headless Chromium.

    python tests/bench/bench_page.py [--samples 262000] [--paths 9500] [--large 150000] [--long 7000000] [--ours]
        [--keep DIR] [--peers DIR]

The recording is `make_perf_data.py`'s; `--large` samples of a recording whose every path is new make the tree of about
two million nodes; `--long` samples, the first recording again and again in another order, last 150 s and an hour.
d3-flame-graph and speedscope come from npm, flamegraph.pl from Debian's libdevel-nytprof-perl; each is installed into a
temporary directory (or `--peers`), and left out with the reason when it cannot be.

Ready: from navigation to the first finished view. Search: from the keystroke to the painted result. Zoom: what a page
spends in handlers and animation frames for one turn of the wheel, the median of 40, on the flamegraph and on the
timeline (d3-flame-graph and flamegraph.pl, which have no such zoom: from the call of their own to the painted result).
Filter and leaf up: from the click to the shown view, medians of 12 and 5. Memory: the renderer's peak resident size
after search and zoom, and after everything.
"""

from __future__ import annotations

import argparse
import base64
import gzip
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
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from pinprof.analyze import analyze
from pinprof.read import ReadOptions, read
from pinprof.report.gather import build
from pinprof.report.page.html import write_html

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

SHOWN = """
window.shown = (act) => {
  const flame = document.getElementById('flame');
  const begin = performance.now();
  act();
  return new Promise((done) => new MutationObserver((_, observer) => {
    if (flame.getAttribute('aria-busy') === 'true') return;
    observer.disconnect();
    done(performance.now() - begin);
  }).observe(flame, { attributes: true }));
};
"""

FILTER = """async () => {
  const bar = document.querySelector('[data-filter]');
  const times = [];
  for (let turn = 0; turn < 12; turn += 1) times.push(await window.shown(() => bar.click()));
  return times;
}"""

LEAF_UP = """async () => {
  const select = document.getElementById('flame-order');
  const choose = (value) => window.shown(() => {
    select.value = value;
    select.dispatchEvent(new Event('change', { bubbles: true }));
  });
  const times = [];
  for (let turn = 0; turn < 5; turn += 1) {
    times.push(await choose('leaf'));
    await choose('weight');
  }
  return times;
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

SPEEDSCOPE_READY = """setInterval(() => {
  if (window.readyAt || !document.body?.innerText.includes('Left Heavy')) return;
  requestAnimationFrame(() => setTimeout(() => { window.readyAt ??= performance.now(); }));
}, 5);"""

SPEEDSCOPE_SEARCH = """async word => {
  const input = document.querySelector('input');
  const told = new Promise(done => new MutationObserver((_, observer) => {
    if (!document.body.innerText.match(/[0-9?][/][0-9]+/)) return;
    observer.disconnect();
    done();
  }).observe(document.body, { subtree: true, childList: true, characterData: true }));
  const begin = performance.now();
  input.value = word;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  await told;
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
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


def main() -> None:
    """Make the data, measure every page, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=262_000)
    parser.add_argument("--paths", type=int, default=9500)
    parser.add_argument("--large", type=int, default=150_000)
    parser.add_argument("--long", type=int, default=7_000_000)
    parser.add_argument("--ours", action="store_true", help="leave the peers out")
    parser.add_argument("--keep", type=Path, help="keep recordings and pages here, and use those that are there")
    parser.add_argument("--peers", type=Path, help="install the peers here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, peers = options.keep or Path(temporary), options.peers or Path(temporary) / "peers"
        folder.mkdir(parents=True, exist_ok=True)
        rows = measure_ours(folder, "pinprof", options.samples, options.paths)
        stem = folder / f"{options.samples}-{options.paths}"
        if not options.ours:
            rows += measure_peers(folder, peers, stem)
        rows += measure_ours(folder, "pinprof, large", options.large, 0)
        for seconds in (150, 3600):
            rows.append(measure_long(stem.with_name(f"{stem.name}.perf.data"), options.long, seconds))
        for row in (HEAD, ["---"] * len(HEAD), *rows):
            print(f"| {' | '.join(row)} |")


def measure_ours(folder: Path, name: str, samples: int, paths: int) -> list[list[str]]:
    """Our page; the note says how large it is with the plot script, which pages with plots carry."""
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
    size = page.stat().st_size + plot_script_size()
    return [measure_page(name, page, f"{nodes:,} nodes; {size / 1e6:.1f} MB with the plot script")]


def measure_long(recording: Path, samples: int, seconds: int) -> list[str]:
    """The page of a recording's samples again and again, each time in another order, in so much time."""
    capture = read(recording, ReadOptions(kallsyms=Path(f"{recording}.kallsyms")))
    chance = np.random.default_rng(seconds)
    one = capture.samples
    many = one.take(np.concatenate([chance.permutation(len(one)) for _ in range(-(-samples // len(one)))])[:samples])
    many = replace(many, time_ns=one.time_ns[0] + np.arange(samples) * (seconds * 10**9 // samples))
    page = recording.with_name(f"{samples}-in-{seconds}s.html")
    data = build(analyze(replace(capture, samples=many)))
    write_html(data, page)
    step = data.flame.step_ns / 1e9 if data.flame else 0
    return measure_page(f"pinprof, {samples:,} samples in {seconds} s", page, f"steps of {step:g} s")


def measure_page(name: str, page: Path, note: str) -> list[str]:
    """A row of our page."""

    def use(tab: Page, taken: Taken) -> None:
        taken.search_ms.append(tab.evaluate(SEARCH, "level_17"))
        tab.evaluate("document.getElementById('flame-canvas').scrollIntoView({ block: 'center' })")
        box = tab.locator("#flame-canvas").bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
        taken.zoom_ms += tab.evaluate(ZOOM, [box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"]])
        tab.evaluate("document.getElementById('timeline-canvas').scrollIntoView({ block: 'center' })")
        box = tab.locator("#timeline-canvas").bounding_box() or box
        taken.timeline_ms += tab.evaluate(ZOOM, [box["x"] + 0.4 * box["width"], box["y"] + 0.5 * box["height"]])

    def more(tab: Page, taken: Taken) -> None:
        taken.filter_ms += tab.evaluate(FILTER)
        taken.leaf_up_ms += tab.evaluate(LEAF_UP)

    taken = visit(page, use, READY + FRAMES + SHOWN, more=more)
    taken.note = "; ".join(filter(None, [note, taken.note]))
    return cells(name, page.stat().st_size / 1e6, taken)


def plot_script_size() -> int:
    """Bytes that plotly's script adds to a page, packed as `report/page/html.py` packs it."""
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return len(base64.b64encode(gzip.compress(script, 9, mtime=0)))


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


def measure_peers(folder: Path, peers: Path, stem: Path) -> list[list[str]]:
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


def d3_flame_graph(folder: Path, peers: Path, folded: Path) -> list[str]:
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

    def use(tab: Page, taken: Taken) -> None:
        taken.search_ms.append(tab.evaluate(D3_SEARCH, "level_17"))
        taken.zoom_ms += tab.evaluate(D3_ZOOM)

    name = f"d3-flame-graph {version(modules / 'd3-flame-graph')}, all nodes"
    return cells(name, data.stat().st_size / 1e6, visit(page, use, rounds=1))


def version(module: Path) -> str:
    """An npm package's version."""
    return str(json.loads((module / "package.json").read_text())["version"])


def speedscope(folder: Path, peers: Path, folded: Path) -> list[str]:
    """speedscope with the folded stacks, loaded as its command line does, and driven by its keys and the wheel."""
    module = peers / "node_modules/speedscope"
    page = module / "dist/release/index.html"
    content = base64.b64encode(folded.read_bytes()).decode()
    data = folder / "speedscope-data.js"
    data.write_text(f"speedscope.loadFileFromBase64('big.folded', '{content}')")

    def use(tab: Page, taken: Taken) -> None:
        tab.keyboard.press("2")  # left heavy: the view of the others
        tab.evaluate("window.frames(3)")
        taken.zoom_ms += tab.evaluate(ZOOM, [420, 240])
        tab.keyboard.press("Control+f")
        tab.wait_for_selector("input", state="attached")
        taken.search_ms.append(tab.evaluate(SPEEDSCOPE_SEARCH, "level_17"))

    address = f"{page.as_uri()}#localProfilePath={data.as_uri().removeprefix('file:///')}"
    taken = visit(page, use, SPEEDSCOPE_READY + FRAMES, address=address, rounds=1)
    return cells(f"speedscope {version(module)}", data.stat().st_size / 1e6, taken)


def flamegraph_svg(folder: Path, script: Path, folded: Path) -> list[str]:
    """flamegraph.pl's SVG, with its usual least width of a node."""
    page = folder / "flamegraph.svg"
    with folded.open() as lines, page.open("w") as out:
        subprocess.run(["perl", script], stdin=lines, stdout=out, stderr=subprocess.DEVNULL, check=True)
    kept = page.read_text("utf-8", errors="replace").count("<rect")

    def use(tab: Page, taken: Taken) -> None:
        taken.search_ms.append(tab.evaluate(SVG_SEARCH, "level_17"))
        taken.zoom_ms += tab.evaluate(SVG_ZOOM)

    taken = visit(page, use, SVG_READY, rounds=1)
    taken.note = "; ".join(filter(None, (f"{kept:,} boxes", taken.note)))
    return cells("flamegraph.pl", page.stat().st_size / 1e6, taken)


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


if __name__ == "__main__":
    main()
