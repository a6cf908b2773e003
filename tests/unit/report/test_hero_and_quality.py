"""What the page and the terminal say in the same words."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze import analyze
from pinprof.data.model import Event
from pinprof.report import gather
from pinprof.report.gather import ReportData
from pinprof.report.names import event_label, event_labels
from pinprof.report.page import html
from pinprof.report.sections.causes import sampling
from pinprof.report.sections.findings import Findings
from pinprof.report.sections.hero import Hero
from pinprof.report.sections.quality import Quality
from tests.support.sample_report import rebuilt, sample_report
from tests.support.stacks import Sample, capture


def quality(data: ReportData) -> Quality:
    made = Quality.of(data)
    assert made is not None
    return made


def facts(data: ReportData) -> tuple[str, ...]:
    hero = Hero.of(data)
    assert hero is not None
    return hero.facts


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    data = sample_report()
    one = rebuilt(data, losses=replace(quality(data).losses, unresolved_frames=1, truncated_chains=1))
    labels = {tile.label: tile.value for tile in quality(one).tiles}
    assert labels["frame without a symbol"] == "1"
    assert labels["truncated callchain"].startswith("1 (")


def test_an_event_without_a_name_is_not_called_by_its_unit_twice() -> None:
    data = sample_report()
    event = replace(data.events[0], event=Event("samples", "samples", None, None), samples=64)
    assert "64 weighted stacks" in facts(rebuilt(data, events=(event,)))


def test_clocks_are_compared_only_where_there_are_ranges() -> None:
    data = sample_report()
    assert any("ranges use" in note for note in quality(data).notes)
    assert not any("ranges use" in note for note in quality(rebuilt(data, ranges=())).notes)


def test_a_fixed_period_is_told_in_its_unit_and_not_twice() -> None:
    stacks = [Sample(["main@/app"], 2_000_000, time_ns=time) for time in range(30)]
    clock, faults = Event("cpu-clock", "ns", 2_000_000, None), Event("page-faults/period=4096/", "faults", 4096, None)
    data = gather.build(analyze(capture([*stacks, Sample(["main@/app"], 4096, event=1)], events=(clock, faults))))
    assert [sampling(event.event) for event in data.events] == ["every 2 ms", "every 4,096 faults"]
    assert facts(data) == ("30 samples of CPU time, every 2 ms", "1 sample of page-faults/period=4096/")


def test_events_have_the_name_that_readers_know_them_by() -> None:
    assert event_label("cpu-clock/freq=999/") == "CPU time"
    assert event_label("page-faults:u") == "page faults"
    assert event_label("cycles") == ""
    text = html.render(sample_report())
    assert 'title="cpu-clock/freq=999/"><span>CPU time</span> <span class="faint num">' in text


def test_two_events_that_would_be_called_alike_keep_their_own_names() -> None:
    names = ("cpu-clock", "task-clock", "page-faults:u", "cycles")
    assert list(event_labels(names).values()) == ["cpu-clock", "task-clock", "page faults", "cycles"]
    assert event_labels(names[1:])["task-clock"] == "CPU time"


def test_rows_that_another_tool_added_up_are_not_called_samples() -> None:
    data = sample_report()
    event = replace(data.events[0], event=Event("wall", "ns", None, None, merged=True), samples=64)
    assert "64 weighted stacks of wall" in facts(rebuilt(data, events=(event,)))


def test_rules_about_cuda_are_shown_where_the_program_uses_it() -> None:
    """A program without CUDA is not told what nsys would say of it; its JSON has every rule."""

    def unjudged(*stack: str) -> set[str]:
        data = gather.build(analyze(capture([Sample(list(stack), time_ns=number) for number in range(200)])))
        findings = Findings.of(data)
        assert findings is not None
        everything = findings.to_json()["findings"]
        assert "slow-link" in {one["rule"] for one in everything if one["severity"] == "not-assessable"}
        return {finding.rule for finding in findings.having("not-assessable")}

    assert "slow-link" in unjudged("main@/app", "cuInit@/lib/libcuda.so.1")
    assert not {"slow-link", "eviction", "over-pinned"} & unjudged("main@/app", "sin@/lib/libm.so.6")
