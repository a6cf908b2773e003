"""The peers' pages of the folded stacks of bench_page.py: d3-flame-graph, speedscope and flamegraph.pl.

The first two come from npm, the last from Debian's libdevel-nytprof-perl; each is left out with the reason when it
cannot be installed.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from page_visits import FRAMES, ZOOM, Taken, cells, visit
from playwright.sync_api import Page

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
