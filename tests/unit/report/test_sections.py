"""Sections: a new one is one module, one template and one line; page, JSON and terminal know none by name."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Self

import jinja2
import pytest
from rich.console import Console, RenderableType

import pinprof.report
from pinprof.analyze import analyze
from pinprof.cli import check, fleet, launch
from pinprof.report import forms, sections
from pinprof.report.check.sections import FORMS as CHECK
from pinprof.report.compare.sections import FORMS as DIFFERENCE
from pinprof.report.data import Explained
from pinprof.report.fleet.sections import FORMS as FLEET
from pinprof.report.forms import FORMS, Forms, Written
from pinprof.report.gather import ReportData, build
from pinprof.report.page import html
from pinprof.report.ranks.sections import FORMS as LAUNCH
from pinprof.report.section import ForScripts, Section, ordered
from pinprof.report.sections import REPORT
from pinprof.report.terminal.layout import titled
from pinprof.report.trial.sections import FORMS as TRIAL
from tests.support.checks import checked
from tests.support.documented import code, module
from tests.support.sample_report import text_of
from tests.support.stacks import Sample, capture
from tests.support.trials import trial_result

TEMPLATES = Path(pinprof.report.__file__).parent / "templates"


@dataclass(frozen=True)
class Toy(Section[Explained]):
    """How many samples there are."""

    key, title = "toy", "Toy"
    absent = (("toy", None),)

    samples: int

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        count = sum(event.samples for event in subject.shared.events)
        return cls(count) if count else None

    def to_json(self) -> dict[str, Any]:
        return {"toy": {"samples": self.samples}}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        yield from titled(self.title, f"{self.samples} samples of <toys>")

    def for_scripts(self) -> ForScripts:
        return ForScripts({"toy": self.samples})


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    template = jinja2.DictLoader({"toy.html.j2": "<p>{{ section.samples }} samples of {{ '<toys>' }}</p>"})
    monkeypatch.setattr(sections, "REPORT", replace(REPORT, sections=(*REPORT.sections, Toy)))
    monkeypatch.setattr(html, "LOADER", jinja2.ChoiceLoader([html.LOADER, template]))


def made(*samples: Sample) -> ReportData:
    return build(analyze(capture(samples)))


@pytest.mark.usefixtures("with_toy")
def test_a_new_section_is_on_the_page_in_the_json_and_in_the_terminal() -> None:
    report = made(Sample(["main@/app"], 5), Sample(["main@/app"], 5))
    page = html.render(report)
    assert '<a href="#toy">Toy</a>' in page
    assert re.search(
        r'<section id="toy" class="panel".*?<h2[^>]*>Toy</h2>\s*<p>2 samples of &lt;toys&gt;</p>', page, re.DOTALL
    )
    assert '"toy":2' in page
    assert report.to_json()["toy"] == {"samples": 2}
    assert text_of(report).endswith("\nToy\n  2 samples of <toys>\n")


def test_the_documented_section_is_on_the_page_in_the_json_and_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    documented = module("report_section.py").Samples
    monkeypatch.setattr(sections, "REPORT", replace(REPORT, sections=(*REPORT.sections, documented)))
    template = jinja2.DictLoader({"samples.html.j2": code("report_section.html.j2")})
    monkeypatch.setattr(html, "LOADER", jinja2.ChoiceLoader([html.LOADER, template]))
    report = made(Sample(["main@/app"], 5), Sample(["main@/app"], 5))
    page = html.render(report)
    assert '<a href="#samples">Samples</a>' in page
    assert re.search(r'<section id="samples" class="panel".*?<h2[^>]*>Samples</h2>\s*<p>2 samples</p>', page, re.DOTALL)
    assert report.to_json()["samples"] == 2
    assert text_of(report).endswith("\nSamples\n  2 samples\n")
    assert made().to_json()["samples"] is None


@pytest.mark.usefixtures("with_toy")
def test_a_section_that_does_not_apply_leaves_its_key_in_the_json_alone() -> None:
    report = made()
    assert "toy" not in html.render(report).lower()
    assert report.to_json()["toy"] is None
    assert "Toy" not in text_of(report)


ANSWERS: Mapping[str, Forms[Any]] = {
    "report": REPORT, "diff": DIFFERENCE, "ranks": LAUNCH, "try": TRIAL, "fleet": FLEET, "check": CHECK,
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_every_section_has_a_key_of_its_own_and_those_of_a_page_a_template(name: str) -> None:
    forms = ANSWERS[name]
    keys = [section.key for section in forms.sections]
    assert len(set(keys)) == len(keys)
    for section in forms.sections if forms.design else ():
        if section.title:
            assert (TEMPLATES / f"{forms.page_design().folder}{section.key}.html.j2").is_file(), section.key


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_form_has_all_sections_once(name: str, form: str) -> None:
    sections = ANSWERS[name].sections
    assert sorted(one.key for one in ordered(sections, form)) == sorted(one.key for one in sections)
    assert {form for one in sections for form, _ in one.after} <= {*FORMS}


@pytest.mark.parametrize(("name", "command"), [("ranks", launch), ("fleet", fleet), ("check", check)])
def test_the_commands_offer_every_form(name: str, command: ModuleType) -> None:
    assert set(command.FORMATS) == set(ANSWERS[name].names)


def test_a_section_stands_where_its_list_or_it_says() -> None:
    first, second, third = (type(key, (Toy,), {"key": key, "after": after}) for key, after in (
        ("first", (("text", "third"),)), ("second", ()), ("third", ()),
    ))  # fmt: skip
    shown = (first, second, third)
    assert [one.key for one in ordered(shown, "json")] == ["first", "second", "third"]
    assert [one.key for one in ordered(shown, "text")] == ["second", "third", "first"]


def test_a_section_without_markdown_is_its_text_there() -> None:
    assert list(Toy(2).to_markdown()) == ["", "```", "Toy", "  2 samples of <toys>", "```"]


def test_a_new_form_of_every_answer_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(answer: Written[Any], stream: IO[str]) -> None:
        stream.write(" ".join(answer.sections))

    monkeypatch.setattr(forms, "FORMS", {**FORMS, "keys": write})
    for name, answer in {"check": CHECK.of(checked()), "report": made(), "try": TRIAL.of(trial_result())}.items():
        stream = io.StringIO()
        answer.write("keys", stream)
        assert stream.getvalue().startswith("hero "), name
        assert "keys" in answer.forms.names


def test_causes_and_hot_tree_of_the_text_are_of_the_program_s_own_time() -> None:
    """Imports are in the JSON and on the page, and no cause of the program."""
    importing = ["main@/app", "dlopen@/lib/ld-linux-x86-64.so.2", "start@/lib/libstart.so"]
    samples = [Sample(importing, 1_000_000, 1_000_000 * time) for time in range(1, 901)]
    samples += [Sample(["main@/app", "work@/app"], 1_000_000, 1_000_000 * time) for time in range(901, 1100)]
    run = analyze(capture(samples))
    text = text_of(build(run, "text"), 100)
    assert "in the program's own time (build, warm-up, work), of 1.1 s" in text
    assert "work" in text.partition("Hot tree")[2]
    assert "dlopen" not in text.partition("Hot tree")[2]
    assert build(run, "json").to_json()["events"][0]["total"] == 1_099_000_000
