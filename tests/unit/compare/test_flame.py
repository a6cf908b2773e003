"""The columns of a comparison's flamegraph: weights of every run, functions once, light stacks folded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinprof.compare.rows import LEAST_SAMPLES
from pinprof.report.compare import flame
from pinprof.report.compare.flame import compared_flame
from pinprof.report.compare.sections import FORMS
from pinprof.report.page import html
from tests.support.command import pinprof
from tests.support.differences import MS, difference


def test_rows_keep_runs_events_and_causes_apart() -> None:
    found = compared_flame(difference())
    assert found is not None
    data = found.data
    assert found.events == (("cpu-clock/freq=999/", "ns"), ("page-faults:u", "faults"))
    assert found.sides == (0, 0, 0, 0, 1, 1, 1, 1)
    assert found.scales == ((0.5,) * 8,) * 2
    clock = data.event == 0
    assert data.weight[clock].sum() == found.count[clock].sum() * MS
    assert [int(found.count[clock & (data.thread == run)].sum()) for run in range(8)] == [
        650, 652, 648, 654, 360, 360, 360, 360,
    ]  # fmt: skip
    ends = {data.names[data.frame_name[data.node_frame[node]]] for node in data.node[clock].tolist()}
    assert ends == {"clear_page", "compute", "log", "publish"}
    assert len(data.depth) == 5 + 1 + 3


def test_thresholds_are_stricter_the_more_nodes_are_tested_and_none_for_single_runs() -> None:
    several, single = compared_flame(difference()), compared_flame(difference(runs=1))
    assert several is not None
    assert single is not None
    assert [one["critical"] for one in single.tests] == [None, None]
    clock = several.tests[0]
    assert clock["least"] == LEAST_SAMPLES
    # Five nodes have samples of their own number; Student's t of six degrees of freedom at 1 - 0.05 / 10.
    assert clock["critical"] == pytest.approx(3.7074, abs=1e-4)


def test_light_stacks_end_in_their_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flame, "MOST_ROWS", 20)
    monkeypatch.setattr(flame, "_LIGHT", (0.3,))
    found, whole = compared_flame(difference()), difference()
    assert found is not None
    assert found.light == 0.3
    data = found.data
    names = {data.names[data.frame_name[data.node_frame[node]]] for node in data.node.tolist()}
    assert names == {"main", "clear_page", "compute"}
    assert data.weight.sum() == sum(int(stacks.weights.weight.sum()) for stacks in whole.stacks)


@pytest.mark.slow
def test_the_page_names_no_directory_and_colours_only_what_is_significant() -> None:
    text = html.render(FORMS.of(difference()))
    assert "/home/someone" not in text
    assert text.count("change way-less") == 2 * 3
    assert "way-more" not in text.split("<main")[1].split("Upper bar")[0]


def test_hostile_names_are_text_on_the_page() -> None:
    text = html.render(FORMS.of(difference("</script><img src=x onerror=alert(1)>\x1b[31m")))
    assert "<img" not in text
    assert "\x1b" not in text


def test_a_comparison_without_stacks_has_no_flamegraph() -> None:
    from dataclasses import replace

    bare = replace(difference(), stacks=(), rows=(), opportunities=(), surroundings=(), notes=())
    assert compared_flame(bare) is None
    text = html.render(FORMS.of(bare))
    assert 'id="flame"' not in text
    assert "title-changes" not in text


def test_folding_conserves_every_runs_weight() -> None:
    stacks = difference().stacks[0]
    folded = flame._folded(stacks, 0.3)
    for run in range(8):
        sums = [int(one.weights.weight[one.weights.run == run].sum()) for one in (stacks, folded)]
        assert sums[0] == sums[1]
    assert len(np.unique(folded.weights.node)) < len(np.unique(stacks.weights.node))


def test_the_command_writes_a_page_to_a_file_only(tmp_path: Path) -> None:
    for name, count in (("before", 5), ("after", 9)):
        (tmp_path / f"{name}.folded").write_text(f"main;copy {count}\n")
    given = ("diff", tmp_path / "before.folded", tmp_path / "after.folded", "--format", "html", "-o")
    result = pinprof(*given, tmp_path / "change.html")
    assert (result.returncode, result.stdout.strip()) == (0, f"Page: {tmp_path / 'change.html'}")
    assert (tmp_path / "change.html").read_text("utf-8").rstrip().endswith("</html>")
    refused = pinprof(*given, "-")
    assert refused.returncode == 2
    assert "An HTML page needs a file name." in refused.stderr
