"""The report says what the analysis says: same weights, same causes, nothing lost on the way."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.data.model import KERNEL, NO_NODE, USER, Capture
from pinprof.report.gather import ReportData, build
from pinprof.report.rows import range_threads
from pinprof.report.sections.causes import Causes
from pinprof.report.sections.causes.hot_tree import HotTree
from tests.support.h200 import analysis
from tests.support.small_capture import small_capture
from tests.support.stacks import Range, Sample, capture

SYMBOLS = [("main", USER), ("asm_exc_page_fault", KERNEL), ("handle_mm_fault", KERNEL), ("do_anonymous_page", KERNEL)]
PARENTS = [(NO_NODE, 0), (0, 1), (1, 2), (2, 3)]


def sampled() -> Capture:
    return small_capture([(0, 700, 3), (0, 250, 0), (0, 50, NO_NODE), (1, 3, 3)], SYMBOLS, PARENTS)


def trees_of(data: ReportData) -> tuple[HotTree, ...]:
    causes = Causes.of(data)
    assert causes is not None
    return causes.trees


def report() -> ReportData:
    return build(analyze(sampled()))


def test_leaves_of_every_event_sum_to_its_total() -> None:
    for event in report().events:
        assert sum(event.by_leaf.values()) == event.total
    assert [event.total for event in report().events] == [1000, 3]


def test_stacks_hold_all_weight_of_every_event_also_that_without_callchain() -> None:
    data = report()
    assert data.flame is not None
    for number, event in enumerate(data.events):
        assert int(data.flame.weight[data.flame.event == number].sum()) == event.total
    nodes = data.flame.node_frame[data.flame.node[data.flame.weight == 50]]
    assert [data.flame.names[data.flame.frame_name[frame]] for frame in nodes] == ["[no callchain]"]


def test_hot_trees_hold_the_total_and_the_leading_cause() -> None:
    data = report()
    for tree in trees_of(data):
        assert int(tree.total_weight[0]) == data.events[tree.event].total
    assert data.flame is not None
    names = [data.flame.names[index] for index in trees_of(data)[0].name]
    assert names[:3] == ["all", "main", "[no callchain]"]
    node = names.index("do_anonymous_page")
    assert data.causes[trees_of(data)[0].leaf[node]].key == "fault.anon"
    assert (trees_of(data)[0].purity[node], trees_of(data)[0].purity[0]) == (100, 70)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uvm", "both"])
def test_what_is_made_without_a_page_says_the_same_in_json_and_text(name: str, tmp_path: Path) -> None:
    explained = analysis(name)
    page, alone = build(explained), build(explained, "text")
    assert build(explained, "json").to_json() == alone.to_json() == page.to_json()
    page.save("text", tmp_path / "page.txt")
    alone.save("text", tmp_path / "alone.txt")
    assert (tmp_path / "alone.txt").read_text() == (tmp_path / "page.txt").read_text()
    assert "timeline" in page.sections
    assert "timeline" not in alone.sections
    assert (page.instances is None, alone.instances) == (False, None)


def test_only_the_last_component_of_the_path_is_told() -> None:
    assert report().capture.path == "run.pinprof"
    assert "secret" not in json.dumps(report().to_json())


def test_home_directories_lose_their_users_name() -> None:
    source = sampled()
    command = ("/home/alice/venv/bin/python", "--out=/home/alice/x", "/srv/home/alice", "/root/run.py", "/Users/bob")
    data = build(analyze(replace(source, manifest=replace(source.manifest, command=command))))
    assert data.capture.command == ("~/venv/bin/python", "--out=~/x", "/srv/home/alice", "~/run.py", "~")


def test_json_is_ascii_with_exact_integers_and_leaves_in_descending_weight() -> None:
    stream = io.StringIO()
    build(analyze(small_capture([(0, 2**60 + 1, 3), (0, 1, 0)], SYMBOLS, PARENTS))).write("json", stream)
    assert stream.getvalue().isascii()
    data = json.loads(stream.getvalue())
    assert data["schema"] == 1
    assert data["events"][0]["total"] == 2**60 + 2
    weights = list(data["events"][0]["leaves"].values())
    assert weights == sorted(weights, reverse=True)


def test_a_capture_without_samples_still_gives_a_report() -> None:
    data = build(analyze(small_capture([], [], [])))
    assert trees_of(data) == ()
    assert data.flame is None
    assert [event.total for event in data.events] == [0, 0]


def test_ranges_of_an_unknown_process_stand_with_the_most_sampled_one_whatever_its_number() -> None:
    samples = [Sample(("main@/app",), pid=pid) for pid in (2**31 - 1, 5, 2**31 - 1)]
    pid, tid = range_threads(capture(samples, [Range("r", 0, 9), Range("s", 1, 2, pid=5, tid=7)]))
    assert list(zip(pid.tolist(), tid.tolist(), strict=True)) == [
        (2**31 - 1, 0),
        (5, 7),
    ]
