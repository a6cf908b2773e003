"""Every sentence asks for its evidence first: walked over recordings that lack each kind of evidence in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pinprof.analyze import Run, analyze, headline
from pinprof.analyze.opportunities import search
from pinprof.analyze.rules import rules
from pinprof.analyze.rules.rule import Rule, Statement, View, first_said, unmet
from pinprof.analyze.rules.rules import RULES
from pinprof.data.activity import GivenUp
from pinprof.data.gpu_functions import COPIES
from pinprof.data.model import Capture, Event, Losses
from pinprof.report.gather import build
from tests.support.activities import MIB, Call, activity, kernel, to_device
from tests.support.sample_report import text_of
from tests.support.stacks import CLOCK, FAULTS, Sample, capture
from tools.evidence_table import page

MS = 1_000_000
MAIN = ("main@/app",)
MEMSET = (*MAIN, "__memset_avx2_unaligned_erms@/usr/lib/libc.so.6")
FAULT = (*MEMSET, "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page", "clear_page_erms")
SLEEP = (*MAIN, "entry_SYSCALL_64_after_hwframe", "__x64_sys_futex", "futex_wait_queue", "schedule", "__schedule")


def sampled(stack: tuple[str, ...], event: Event = CLOCK, count: int = 400, weight: int = MS) -> Capture:
    """Samples a millisecond apart, half of them in the program's own code."""
    stacks = [stack if at % 2 else MAIN for at in range(count)]
    return capture([Sample(each, weight, (at + 1) * MS) for at, each in enumerate(stacks)], events=(event,))


def foreign(made: Capture) -> Capture:
    """The same as a tool wrote it whose version nobody knows."""
    return replace(made, manifest=replace(made.manifest, collectors=({"name": "a text"},)))


def with_calls(**other: Any) -> Capture:
    calls = [Call("cudaMalloc", 0, MS, 1), *(Call("cudaMemcpyAsync", at * MS, at * MS + 9, at) for at in range(2, 90))]
    ops = [to_device(at * MS + 10, at * MS + 200_000, MIB, correlation_id=at) for at in range(2, 90)]
    traced = activity(calls, [*ops, kernel(50 * MS, 60 * MS, stream=8)])
    return replace(sampled(FAULT), activity=replace(traced, **other))


def noted(made: Capture, **outcome: object) -> Capture:
    return replace(made, manifest=replace(made.manifest, outcome=outcome))


LACKING: Mapping[str, Capture] = {
    "nothing": sampled(FAULT),
    "samples": capture([]),
    "the kernel, as told": replace(
        sampled(MEMSET), manifest=replace(capture([]).manifest, collectors=({"options": {"kernel": False}},))
    ),
    "the kernel, by the event": sampled(MEMSET, replace(CLOCK, name="cycles:u")),
    "the kernel, by another tool": foreign(sampled(MEMSET)),
    "the kernel, at its entry": replace(sampled(MEMSET), kernel_chains=False),
    "time: page faults": sampled(MEMSET, FAULTS, weight=64),
    "time: switches": sampled(SLEEP, Event("sched:sched_switch", "events", 1, None), weight=1),
    "time: a wall clock": foreign(sampled(SLEEP, Event("wall", "ns", None, None, merged=True, elsewhere=True))),
    "time: delays": foreign(sampled(MEMSET, Event("delay", "ns", None, None, merged=True, elsewhere=True))),
    "time: bytes": foreign(sampled(MEMSET, Event("alloc_space", "bytes", None, None, merged=True))),
    "time: objects": foreign(sampled(MEMSET, Event("inuse_objects", "samples", None, None, merged=True))),
    "enough samples": sampled(FAULT, count=4),
    "call chains": sampled(("clear_page_erms",)),
    "names": sampled((*MAIN, "[kernel.kallsyms]")),
    "calls": with_calls(given_up=(GivenUp(COPIES, 0, 400 * MS),)),
    "records of calls": with_calls(lost_calls=5000, lost_memory=True),
    "half of the samples": replace(sampled(FAULT), losses=Losses(lost_samples=400)),
    "half of the file": replace(sampled(FAULT), losses=Losses(damage=("The file ends early: 4 of 9 KiB are there.",))),
    "children": noted(sampled(MAIN), incomplete={"children": "2 processes are not recorded."}),
    "what came later": noted(sampled(MAIN), incomplete={"outlived": "1 process of the program went on."}),
}
SHOW_LITTLE = [
    name for name in LACKING if name.startswith(("the kernel", "time", "samples", "enough", "call chains", "names"))
]
CALLED_LOW = ("memory costs are low", "Nothing to gain", "take little time", "faults, pins and copies take")
"""What only a recording may say that shows costs of memory."""


def texts(run: Run) -> str:
    """All that people read of a report, in every form but the page."""
    report = build(run, "text")
    return "\n".join([text_of(report, 10_000), *report.to_markdown()])


@pytest.mark.parametrize("name", LACKING)
def test_no_claim_is_asked_whose_needs_are_not_met(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def watched(claims: tuple[Statement[Any], ...], view_of: Callable[[Any], View]) -> tuple[Statement[Any], ...]:
        def saying(claim: Statement[Any]) -> Callable[[Any], str]:
            def say(subject: Any) -> str:
                asked.append(claim.name)
                assert unmet(claim.needs, view_of(subject)) is None, claim.name
                return claim.say(subject)

            return say

        return tuple(replace(claim, say=saying(claim)) for claim in claims)

    monkeypatch.setattr(headline, "HEADLINES", watched(headline.HEADLINES, lambda view: view))
    monkeypatch.setattr(headline, "LEADING", watched(headline.LEADING, lambda view: view))
    monkeypatch.setattr(search, "HEADLINES", watched(search.HEADLINES, lambda searched: searched.scene.view))
    run = analyze(LACKING[name])
    assert run.answer
    assert asked
    for rule in rules.RULES:
        found = next((one for one in run.findings if one.rule == rule.name), None)
        judging = next((one for one in _in_turn(rule) if unmet(one.needs, run.view) is None), None)
        if found and judging is None:
            assert found.status == "not-assessable", rule.name
        elif found and judging and unmet(judging.to_clear, run.view):
            assert found.status != "clear", rule.name


def _in_turn(rule: Rule) -> Iterator[Rule]:
    yield rule
    if rule.otherwise:
        yield from _in_turn(rule.otherwise)


@pytest.mark.parametrize("name", SHOW_LITTLE)
def test_what_does_not_show_costs_of_memory_says_nothing_of_them(name: str) -> None:
    run = analyze(LACKING[name])
    said = texts(run)
    assert [words for words in CALLED_LOW if words in said] == []
    # The driver copies in code of its own, whose names are another matter than the kernel's.
    judged = {"sampling-gap", *(("staging-copies",) if name == "names" else ())}
    assert [one.rule for one in run.findings if one.status == "clear" and one.rule not in judged] == []
    if name != "enough samples":
        assert run.answer.startswith("This recording cannot show host-memory costs, because ")
        assert "; " in run.answer


@pytest.mark.parametrize("name", [name for name in LACKING if name.startswith("time")])
def test_other_units_are_never_called_cpu_time(name: str) -> None:
    assert "CPU time" not in texts(analyze(LACKING[name]))


@pytest.mark.parametrize("name", ["half of the samples", "half of the file", "children", "what came later"])
def test_what_is_missing_is_said_first_and_nothing_is_called_low(name: str) -> None:
    run = analyze(LACKING[name])
    report = build(run, "json")
    (gap,) = run.gaps
    lines = [line for line in texts(run).splitlines() if line.strip()]
    assert lines[0] == gap.text
    assert next(iter(report.to_markdown())).startswith("> ")
    document = report.to_json()
    assert [one["text"] for one in document["incomplete"]] == [gap.text]
    assert "memory costs are low" not in run.answer
    assert "Nothing to gain" not in run.answer
    assert gap.damaged == (name == "half of the file")


def test_a_whole_recording_says_what_it_shows() -> None:
    run = analyze(LACKING["nothing"])
    assert (run.gaps, build(run, "json").to_json()["incomplete"]) == ((), [])
    assert not run.answer.startswith("This recording cannot")
    assert analyze(sampled(MAIN)).answer.startswith("Nothing to gain in host memory")


def test_claims_are_tried_in_their_order() -> None:
    view = analyze(sampled(FAULT)).view
    claims = (
        Statement[int]("none", lambda _: "", ()),
        Statement[int]("one", str, ()),
        Statement[int]("other", lambda _: "x", ()),
    )
    assert first_said(claims, view, 7) == "7"
    assert first_said(claims[:1], view, 7) == ""


@pytest.mark.slow
def test_the_table_of_evidence_has_every_headline_rule_detector_and_need() -> None:
    listed = page()
    claims = (*headline.LEADING, *search.HEADLINES, *headline.HEADLINES)
    names = [*(one.name for one in claims), *(one.looks_for for one in search.DETECTORS)]
    assert [name for name in names if f"| {name} |" not in listed] == []
    assert [rule.name for rule in RULES if f"| [{rule.name}](diagnoses.md#{rule.name}) |" not in listed] == []
    assert all(need.name in listed for rule in RULES for need in rule.needs)
