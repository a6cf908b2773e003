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
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

from pinprof.analyze import analyze
from pinprof.read import ReadOptions, read
from pinprof.report.gather import build
from pinprof.report.page.bundle import packed_plot_script
from pinprof.report.page.html import write_html

sys.path.insert(0, str(Path(__file__).parent))

import make_perf_data
from page_peers import measure_peers
from page_visits import FRAMES, HEAD, ZOOM, Taken, cells, visit

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
        for seconds in (150, 3600) if options.long else ():
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
    size = page.stat().st_size + len(packed_plot_script())
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


if __name__ == "__main__":
    main()
