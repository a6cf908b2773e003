"""What to change, as every output shows it: JSON, terminal, page, tables; names of programs are only text."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pinprof.analyze import Run
from pinprof.analyze.opportunities.results import Saving
from pinprof.api import Result
from pinprof.report import gather
from pinprof.report.gather import answer_of, build
from pinprof.report.page.html import render as render_page
from pinprof.report.sections.opportunities import WhatToChange, saving_words
from pinprof.report.sections.phases import Phases
from pinprof.report.sections.timeline import OverTime
from pinprof.report.terminal import summary
from tests.support.facts import with_facts
from tests.support.h200 import own_analysis
from tests.support.opportunities import MS, course, opportunities, with_opportunities
from tests.support.sample_report import text_of

HOSTILE = "\x1b]0;owned\x07[bold]<script>alert(1)</script>\u202e" + "long name " * 300
HERE = Path(__file__).parents[2]


def recorded() -> Run:
    return with_facts(own_analysis("alloc-loop-mistake"), opportunities=None, course=None)


def short(analysis: Run, width: int = 80, below: tuple[str, ...] = ("Page: a.html", "Capture: a.pinprof")) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True, highlight=False, markup=False)
    summary.print_answer([answer_of(analysis)], below, console)
    return stream.getvalue()


def whole(analysis: Run) -> str:
    return text_of(build(analysis), 100)


def test_json_has_every_key_of_an_opportunity() -> None:
    document = build(with_opportunities(recorded(), 2)).to_json()
    first = document["opportunities"][0]
    assert list(first) == [
        "rank", "title", "site", "causes", "phase", "count", "bytes", "cost_ns", "cure", "saving_ns", "basis",
        "evidence", "per_step",
    ]  # fmt: skip
    assert first["per_step"] == {"saving_ns": 22 * MS, "step_ns": 30 * MS, "seen": 60, "steps": 60}
    assert set(first["site"]) == {"function", "file", "line", "thread", "range"}
    assert set(first["cure"]) == {"id", "text", "code", "environment", "option"}
    assert first["saving_ns"] == {"low": 1100 * MS, "likely": 1300 * MS, "high": 1400 * MS}
    assert [one["rank"] for one in document["opportunities"]] == [1, 2]
    assert document["refused"][0]["reason"] == "Copied once: pinning costs 85 ms and saves 22 ms."
    assert document["to_measure"][0]["cure"]["id"] == "pool"
    assert document["unseen"] == ["Copies by other libraries were not traced."]
    assert document["headline"] == opportunities(2).headline
    json.loads(json.dumps(document, default=str))


@pytest.mark.slow
def test_json_counts_phases_from_the_timelines_start() -> None:
    analysis = with_opportunities(recorded(), 1)
    data = build(analysis)
    assert data.start_ns is not None
    begin = 50 * MS
    document = build(with_facts(analysis, course=course(data.start_ns + begin))).to_json()
    phases = {phase["name"]: phase for phase in document["phases"]}
    assert list(phases) == ["start-up", "context", "work", "exit"]
    assert phases["work"]["intervals"] == [[450 * MS, 950 * MS], [1050 * MS, 2350 * MS]]
    assert phases["work"]["wall_ns"] == 1800 * MS
    assert document["steps"]["slowest_start_ns"] == 2050 * MS
    assert set(document["critical_thread"]) == {"pid", "tid", "name"}


def test_keys_stay_where_nobody_looked() -> None:
    document = build(with_facts(recorded(), opportunities=None, course=None)).to_json()
    assert [document[key] for key in ("opportunities", "to_measure", "refused", "unseen", "phases")] == [()] * 5
    assert document["steps"] is None
    assert document["critical_thread"] is None


def test_every_key_of_the_json_is_documented() -> None:
    document = build(with_opportunities(recorded(), 1)).to_json()
    documented = (HERE.parent / "docs" / "json.md").read_text("utf-8")
    first = document["opportunities"][0]
    rows = [document, first, first["saving_ns"], document["phases"][0], document["steps"], document["critical_thread"]]
    assert {
        key for row in rows for key in row if f"`{key}`" not in documented and f'"{key}"' not in documented
    } == set()


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", ["", HOSTILE])
@pytest.mark.parametrize("found", [-1, 0, 1, 3, 7])
def test_the_terminals_answer_has_at_most_24_lines(found: int, name: str, width: int) -> None:
    analysis = with_opportunities(recorded(), found, name) if found >= 0 else recorded()
    if name and analysis.opportunities:
        answer = replace(analysis.opportunities, headline=name, unseen=(name,) * 5)
        analysis = with_facts(analysis, opportunities=answer, course=course(0, what=name))
    lines = short(analysis, width).splitlines()
    assert len([*lines, "", "Page: a.html", "Capture: a.pinprof"]) <= 24
    assert max(map(len, lines)) <= width
    assert not set("\x1b\x07\u202e") & set("".join(lines))


def test_the_terminals_answer_has_three_opportunities_with_site_saving_and_cure() -> None:
    lines = short(with_opportunities(recorded(), 5)).splitlines()
    assert lines[0].startswith("alloc_pairs.cu:11 pins and frees")
    assert "start-up 300 ms · context 200 ms · work 1.8 s · exit 100 ms" in lines
    assert sum(line.startswith("   saves ") for line in lines) == 3
    assert " ".join(" ".join(lines).split()).count(" · in step") == 3
    assert sum(line.startswith("   → Allocate one pinned buffer") for line in lines) == 3
    assert "2 more opportunities are on the page." in lines
    assert "Not visible: Copies by other libraries were not traced." in lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_sentences_of_the_terminals_answer_are_whole(width: int) -> None:
    """Where a whole cure has no room its first sentence is said."""
    text = "Keep the buffer. " + "Where a library makes it, let it keep what is freed by its own pool. " * 3
    run = with_opportunities(recorded(), 3)
    assert run.opportunities is not None
    found = tuple(replace(one, cure=replace(one.cure, text=text.strip())) for one in run.opportunities.found)
    shown = short(with_facts(run, opportunities=replace(run.opportunities, found=found)), width)
    assert "…" not in shown
    assert "→ Keep the buffer." in shown


def test_a_text_of_any_length_is_cut_after_a_word() -> None:
    name = "word " * 500
    lines = short(with_opportunities(recorded(), 1, name)).splitlines()
    cut = [line for line in lines if line.endswith("…")]
    assert cut
    assert all(line.endswith("word …") for line in cut)


def test_the_setting_of_the_first_answer_alone_is_in_the_terminal_whole() -> None:
    lines = short(with_opportunities(recorded(), 2)).splitlines()
    assert lines.count("   PINPROF_POOL=1") == 1
    assert lines.index("   PINPROF_POOL=1") < next(n for n, line in enumerate(lines) if line.startswith("2  "))
    assert not any(line.startswith("   cudaMemPool_t") for line in lines), "code of several lines is on the page"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_causes_and_samples_are_listed_whole_or_not_at_all(width: int) -> None:
    lines = short(with_opportunities(recorded(), 0), width).splitlines()
    assert not [line for line in lines if line.endswith("…")]
    assert any(line.startswith("CPU time") for line in lines)


def test_without_opportunities_the_terminal_says_where_the_time_went() -> None:
    lines = short(with_opportunities(recorded(), 0)).splitlines()
    assert lines[0] == "Nothing to gain in host memory: it costs 12 ms of 1.8 s of work (0.7 %)."
    said = "CPU time 279 ms in the program's own time: pages created while being pinned (pin.faultin) 42 %"
    assert said in " ".join(lines)


def test_a_path_is_one_line_in_a_file_and_leaves_less_room_in_a_terminal() -> None:
    path = "Page: " + "/very/long" * 60
    analysis = with_opportunities(recorded(), 3)
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    summary.print_answer([answer_of(analysis)], (path,), console)
    rows = [-(-len(line) // 80) or 1 for line in [*stream.getvalue().splitlines(), "", path]]
    assert sum(rows) <= 24
    assert len(stream.getvalue().splitlines()) < len(short(analysis, below=(path,)).splitlines())


@pytest.mark.parametrize("found", [None, 0, 2])
def test_the_answer_needs_no_stacks_and_is_that_of_the_whole_report(
    found: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = recorded() if found is None else with_opportunities(recorded(), found)
    whole = io.StringIO()
    summary.print_answer([build(analysis)], (), Console(file=whole, width=80, no_color=True, highlight=False))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("flame_data", "instance_data", "with_frames_joined", "shown_ranges"):
        monkeypatch.setattr(gather, name, refuse)
    alone = short(analysis, below=())
    assert alone == whole.getvalue()
    assert len(alone.splitlines()) > 3


@pytest.mark.slow
def test_many_recordings_are_a_line_each() -> None:
    data = build(with_opportunities(recorded(), 3))
    stream = io.StringIO()
    console = Console(file=stream, width=80, no_color=True, highlight=False, markup=False)
    summary.print_answer([data] * 40, ("Page: a.html",), console)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 22
    assert lines[0].startswith(data.capture.path)
    assert lines[-1] == "19 more are on the page."


@pytest.mark.slow
def test_the_whole_text_has_code_basis_evidence_and_what_would_not_pay() -> None:
    shown = whole(with_opportunities(recorded(), 1))
    for part in (
        "What to change",
        "saves 1.3 s of 1.8 s of work (1.1–1.4 s in other runs): 22 ms of 30 ms a step, in 60 of 60 steps; costs 1.41",
        "pages created while being pinned (pin.faultin) 900 ms",
        "cudaDeviceGetDefaultMemPool(&pool, device);", "PINPROF_POOL=1", "759 µs a pair, measured in this run.",
        "(pinprof report --explain pin.faultin)", "Worth a measurement:", "Depends on the caches.",
        "Not worth changing:",
        "Copied once: pinning costs 85 ms and saves 22 ms.",
        "60 steps, median 20.1 ms, slowest 31 ms at 2", "cpu-clock",
    ):  # fmt: skip
        assert part in " ".join(shown.split())
    assert "Searched for: memory allocated and freed repeatedly" in whole(with_opportunities(recorded(), 0))


@pytest.mark.slow
def test_the_page_begins_with_what_to_change_and_ends_with_the_rules() -> None:
    page = render_page(build(with_opportunities(recorded(), 2)))
    places = [
        page.index(f'<section id="{key}"') for key in ("opportunities", "phases", "timeline", "causes", "findings")
    ]
    assert places == sorted(places)
    assert page.count('class="gain"') == 2
    assert "buffer = pool.take(bytes);  // once, before the loop</pre>" in page


@pytest.mark.slow
def test_names_on_the_page_are_only_text() -> None:
    page = render_page(build(with_opportunities(recorded(), 2, HOSTILE)))
    assert "<script>alert(1)" not in page
    assert "\u202e" not in page


@pytest.mark.slow
def test_the_page_carries_each_opportunitys_stacks_as_nodes_of_the_flamegraph() -> None:
    analysis = with_opportunities(recorded(), 2)
    flame = build(analysis).flame
    assert flame is not None
    assert analysis.opportunities is not None
    samples, chosen = analysis.capture.samples, analysis.opportunities.found[0].samples
    inside = np.isin(samples.stack, list(chosen))
    assert inside.any()
    assert (np.isin(flame.node, flame.opportunities[0]) == inside).all()
    assert [len(nodes) for nodes in flame.merged().opportunities] == [len(chosen)] * 2


@pytest.mark.slow
def test_a_card_shows_the_event_that_has_its_samples() -> None:
    analysis = recorded()
    samples = analysis.capture.samples
    faults = next(index for index, event in enumerate(analysis.events) if event.unit == "faults")
    only = set(samples.stack[samples.event == faults].tolist()) - set(samples.stack[samples.event != faults].tolist())
    for stacks, event in ((frozenset(only - {-1}), faults), (frozenset(), -1)):
        change = WhatToChange.of(build(with_facts(analysis, opportunities=opportunities(1, samples=stacks))))
        assert change is not None
        assert change.cards[0].event == event


@pytest.mark.slow
def test_phases_are_the_timelines_first_lane() -> None:
    over_time = OverTime.of(build(with_opportunities(recorded(), 1)))
    assert over_time is not None
    lane = over_time.timeline.lanes[0]
    assert (lane.kind, lane.heading, lane.total) == ("phase", "", 6)
    names = [over_time.timeline.names[name] for name in lane.spans.name]
    assert names == ["start-up", "context", "work", "context", "work", "exit"]


@pytest.mark.slow
def test_a_run_without_steps_says_nothing_of_them() -> None:
    phases = Phases.of(build(with_facts(recorded(), course=course(0, steps=False))))
    assert phases is not None
    assert phases.about_steps == ""
    assert phases.to_json()["steps"] is None


@pytest.mark.parametrize(
    ("saving", "words"),
    [
        ((1100, 1300, 1400), ("1.3 s", "1.1–1.4 s")),
        ((900, 1000, 1100), ("1 s", "900 ms–1.1 s")),
        ((1000, 1000, 1000), ("1 s", "")),
    ],
)
def test_a_saving_tells_its_ends_where_they_differ(saving: tuple[int, int, int], words: tuple[str, str]) -> None:
    assert saving_words(Saving(*(end * MS for end in saving))) == words


def test_the_notebook_has_a_row_for_each_opportunity() -> None:
    table = Result(with_opportunities(recorded(), 2)).opportunities
    assert list(table["rank"]) == [1, 2]
    assert table.loc[0, "file"] == "alloc_pairs.cu"
    assert table.loc[0, "saving_ns"] == 1300 * MS
    assert Result(with_opportunities(recorded(), 0)).opportunities.empty
    assert list(Result(recorded()).opportunities.columns) == list(table.columns)


@pytest.mark.slow
def test_json_of_hostile_names_is_ascii() -> None:
    stream = io.StringIO()
    build(with_opportunities(recorded(), 1, HOSTILE + "\udcff")).write("json", stream)
    assert stream.getvalue().isascii()
