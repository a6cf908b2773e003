"""The flamegraph's tables against a plain count over the samples, for random recordings and many questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from pinprof.report.flame import FlameData, RangeRows, Thread
from pinprof.report.page.bundle import bundle
from tests.browser.conftest import page_with

pytestmark = pytest.mark.browser

FRAMES, DSOS, CAUSES, THREADS, SAMPLES = 6, 3, 4, 2, 150
ASK = """
window.ask = async ({ packed, layout, facts, queries }) => {
  const model = new Model(await gunzip(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0))), layout, facts);
  return queries.map((query) => {
    const { tables: { main }, facets, whole, total } = derive(model, query);
    const lists = Object.entries(main).map(([key, column]) => [key, ArrayBuffer.isView(column) ? [...column] : column]);
    const legends = { causes: [...facets.causes], threads: [...facets.threads] };
    return { ...Object.fromEntries(lists), ...legends, whole, all: total };
  });
};
"""
PLAIN = {
    "event": 0, "range": -1, "span": None, "causes": [], "dsos": [], "modes": [], "threads": [], "split": False,
    "inverted": False, "order": "weight", "sandwich": -1,
    "edits": {"focus": -1, "hide": [], "drop": [], "fold": [], "modules": []},
}  # fmt: skip
Path = tuple[int, ...]


@pytest.fixture(scope="module")
def scripted(browser: Browser) -> Iterator[Page]:
    with page_with(browser, bundle("engine/engine.js") + ASK) as page:
        yield page


def recording(seed: int) -> FlameData:
    """About 40 nodes; few functions, so that paths part and meet, and few weights, so that siblings are often equal."""
    chance = np.random.default_rng(seed)
    depth = [0]
    for _ in range(40):
        depth.append(int(chance.integers(0, min(depth[-1] + 1, 6) + 1)))
    # Siblings are different functions: nodes that are not are dropped with what lies below them.
    kept, frames = [], []
    path: list[tuple[int, int]] = []
    seen: set[tuple[int, ...]] = set()
    for level, frame in zip(depth, chance.integers(0, FRAMES, len(depth)).tolist(), strict=True):
        del path[min(level, len(path)) :]
        path.append((len(path), frame))
        if (key := tuple(frame for _, frame in path)) not in seen:
            seen.add(key)
            kept.append(len(path) - 1)
            frames.append(frame)
        else:
            path.pop()
    levels = np.array(kept, np.int16)
    size = len(levels)
    return FlameData(
        frame_name=np.arange(FRAMES, dtype=np.int32),
        frame_dso=chance.integers(0, DSOS, FRAMES).astype(np.int32),
        frame_kind=chance.integers(0, 3, FRAMES).astype(np.uint8),
        depth=levels,
        node_frame=np.array(frames, np.int32),
        decided=np.array([chance.integers(-1, level + 1) for level in kept], np.int16),
        node=chance.integers(0, size, SAMPLES).astype(np.int32),
        event=chance.integers(0, 2, SAMPLES).astype(np.uint8),
        cause=chance.integers(0, CAUSES, SAMPLES).astype(np.int16),
        likely=chance.integers(0, 2, SAMPLES).astype(np.uint8),
        thread=chance.integers(0, THREADS, SAMPLES).astype(np.int32),
        weight=chance.integers(1, 5, SAMPLES).astype(np.int64),
        time_ns=np.arange(SAMPLES, dtype=np.int64) * 1000,
        threads=tuple(Thread(1, number, "t") for number in range(THREADS)),
        timed=True,
        ranges=RangeRows(*(np.array([value], np.int32) for value in (0, 20, 90))),
    )


def chain(data: FlameData, node: int) -> list[int]:
    """A node and its callers, outermost first."""
    nodes = [node]
    for before in range(node - 1, -1, -1):
        if data.depth[before] < data.depth[nodes[-1]]:
            nodes.append(before)
    return nodes[::-1]


def chosen(data: FlameData, query: dict[str, Any]) -> list[int]:
    rows = []
    for sample in range(SAMPLES):
        dso = data.frame_dso[data.node_frame[data.node[sample]]]
        fits = data.event[sample] == query["event"] and (query["range"] < 0 or 20 <= sample < 90)
        fits = fits and (query["span"] is None or query["span"][0] <= sample < query["span"][1])
        for value, facet in ((data.cause[sample], "causes"), (dso, "dsos"), (data.thread[sample], "threads")):
            fits = fits and (not query[facet] or value in query[facet])
        if fits:
            rows.append(sample)
    return rows


def path_of(data: FlameData, query: dict[str, Any], sample: int) -> Path | None:
    """The functions of a sample as they are shown, the first one first; None where it is left out."""
    frames = [int(data.node_frame[node]) for node in chain(data, int(data.node[sample]))]
    edits = query["edits"]
    for frame in (
        frames if edits["focus"] < 0 else frames[frames.index(edits["focus"]) :] if edits["focus"] in frames else []
    ):
        if frame in edits["drop"]:
            return None
    if edits["focus"] >= 0:
        if edits["focus"] not in frames:
            return None
        frames = frames[frames.index(edits["focus"]) :]
    frames = [frame for frame in frames if frame not in edits["hide"]]
    if query["inverted"]:
        frames = frames[::-1]
    thread = [FRAMES + DSOS + int(data.thread[sample])] if query["split"] else []
    return (*thread, *frames)


def decider(data: FlameData, sample: int) -> int:
    if data.likely[sample]:
        return -2
    nodes = chain(data, int(data.node[sample]))
    callers = int(data.decided[nodes[-1]])
    return -1 if callers < 0 else int(data.node_frame[nodes[-1 - callers]])


def paths(answer: dict[str, Any]) -> list[Path]:
    found: list[Path] = [()]
    for node in range(1, len(answer["parent"])):
        found.append((*found[answer["parent"][node]], answer["frame"][node]))
    return found


def edits(**changes: Any) -> dict[str, Any]:
    return {**PLAIN, "edits": {**PLAIN["edits"], **changes}}  # type: ignore[dict-item]


QUESTIONS = [
    PLAIN,
    {**PLAIN, "event": 1},
    {**PLAIN, "causes": [1]},
    {**PLAIN, "causes": [0, 2], "threads": [1], "dsos": [0, 1]},
    {**PLAIN, "range": 0},
    {**PLAIN, "range": 0, "span": [40, 120], "split": True},
    {**PLAIN, "split": True},
    {**PLAIN, "inverted": True},
    {**PLAIN, "inverted": True, "causes": [3], "span": [10, 100]},
    {**PLAIN, "inverted": True, "split": True},
    edits(hide=[2]),
    edits(drop=[3], hide=[0, 1]),
    edits(focus=4),
    {**edits(hide=[2, 3]), "inverted": True, "split": True},
    {**edits(focus=1), "inverted": True},
    {**PLAIN, "causes": [1], "threads": [0], "dsos": [2], "span": [0, 1]},
]


@pytest.mark.parametrize("seed", range(6))
def test_tables_agree_with_a_count_over_the_samples(scripted: Page, seed: int) -> None:
    data = recording(seed)
    layout, packed = data.packed
    facts = {"causes": CAUSES, "dsos": DSOS, "frames": FRAMES, "threads": THREADS, "timed": True}
    question = {"packed": packed, "layout": layout, "facts": facts, "queries": QUESTIONS}
    for query, answer in zip(QUESTIONS, scripted.evaluate("question => ask(question)", question), strict=True):
        check(data, query, answer)


def check(data: FlameData, query: dict[str, Any], answer: dict[str, Any]) -> None:
    causes: dict[Path, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    below: dict[Path, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    rows = chosen(data, query)
    for sample in rows:
        path = path_of(data, query, sample)
        if path is None:
            continue
        for size in range(len(path) + 1):
            causes[path[:size]][int(data.cause[sample])] += int(data.weight[sample])
            below[path[:size]][int(data.cause[sample])].add(decider(data, sample))
    found = paths(answer)
    assert sorted(found) == sorted({(), *causes})
    for node, path in enumerate(found):
        weights = causes[path]
        total, most = sum(weights.values()), max(weights.values(), default=0)
        assert answer["total"][node] == total
        if total:
            assert weights[answer["leaf"][node]] == most
            assert answer["purity"][node] == 100 * most // total
            assert answer["decider"][node] in below[path][answer["leaf"][node]]
    levels = [len(path) for path in found]
    assert levels == sorted(levels)
    assert answer["rows"] == [levels.index(level) for level in range(levels[-1] + 1)] + [len(levels)]
    family = list(zip(answer["parent"][1:], [-total for total in answer["total"][1:]], strict=True))
    assert family == sorted(family)
    assert answer["whole"] == sum(data.weight[data.event == query["event"]])
    assert answer["all"] == sum(int(data.weight[sample]) for sample in rows)
    for facet, column in (("causes", data.cause), ("threads", data.thread)):
        among = chosen(data, {**query, facet: []})
        for value, weight in enumerate(answer[facet]):
            assert weight == sum(int(data.weight[sample]) for sample in among if column[sample] == value)


def test_order_of_time_keeps_every_sample_with_its_stack(scripted: Page) -> None:
    data = recording(7)
    layout, packed = data.packed
    facts = {"causes": CAUSES, "dsos": DSOS, "frames": FRAMES, "threads": THREADS, "timed": True}
    query = {**PLAIN, "order": "time", "span": [30, 110], "causes": [0, 1]}
    question = {"packed": packed, "layout": layout, "facts": facts, "queries": [query]}
    (answer,) = scripted.evaluate("question => ask(question)", question)
    rows, found = chosen(data, query), paths(answer)
    assert [found[node] for node in answer["node"]] == [path_of(data, query, sample) for sample in rows]
    assert np.diff(answer["start"]).tolist() == data.weight[rows].tolist()
    assert answer["cause"] == data.cause[rows].tolist()
    assert answer["decider"] == [decider(data, sample) for sample in rows]
