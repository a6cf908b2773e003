"""Sections: a new one is one module, one template and one line; page, JSON and terminal know none by name."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jinja2
import pytest
from rich.console import Console, RenderableType

import pinprof.report
from pinprof.analyze import Run, analyze
from pinprof.report import sections
from pinprof.report.data import Shared
from pinprof.report.gather import ReportData, build
from pinprof.report.page import html
from pinprof.report.section import ForScripts, Section
from pinprof.report.sections import JSON_ORDER, SECTIONS, TEXT_ORDER
from pinprof.report.terminal.layout import titled
from tests.support.documented import code, module
from tests.support.stacks import Sample, capture

TEMPLATES = Path(pinprof.report.__file__).parent / "templates"


@dataclass(frozen=True)
class Toy(Section):
    """How many samples there are."""

    key, title = "toy", "Toy"
    absent = (("toy", None),)

    samples: int

    @classmethod
    def build(cls, _: Run, shared: Shared) -> Self | None:
        count = sum(event.samples for event in shared.events)
        return cls(count) if count else None

    def to_json(self) -> dict[str, Any]:
        return {"toy": {"samples": self.samples}}

    def to_text(self, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
        yield from titled(self.title, f"{self.samples} samples of <toys>")

    def for_scripts(self, _: ReportData) -> ForScripts:
        return ForScripts({"toy": self.samples})


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    template = jinja2.DictLoader({"toy.html.j2": "<p>{{ section.samples }} samples of {{ '<toys>' }}</p>"})
    monkeypatch.setattr(sections, "SECTIONS", (*SECTIONS, Toy))
    monkeypatch.setattr(html, "LOADER", jinja2.ChoiceLoader([html.LOADER, template]))


def made(*samples: Sample) -> ReportData:
    return build(analyze(capture(samples)))


def text_of(report: ReportData) -> str:
    stream = io.StringIO()
    report.show(Console(file=stream, width=80, no_color=True, highlight=False, markup=False))
    return stream.getvalue()


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
    monkeypatch.setattr(sections, "SECTIONS", (*SECTIONS, module("A report section").Samples))
    template = jinja2.DictLoader({"samples.html.j2": code("A report section", "jinja")})
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


def test_every_section_has_a_key_of_its_own_and_those_with_a_title_a_template() -> None:
    keys = [section.key for section in SECTIONS]
    assert len(set(keys)) == len(keys)
    for section in SECTIONS:
        if section.title:
            assert (TEMPLATES / f"{section.key}.html.j2").is_file(), section.key


@pytest.mark.parametrize("order", [TEXT_ORDER, JSON_ORDER])
def test_orders_name_sections_once_and_none_that_there_is_not(order: tuple[str, ...]) -> None:
    assert len(set(order)) == len(order)
    assert set(order) <= {section.key for section in SECTIONS}


def test_every_section_with_text_or_json_has_a_place_among_the_others() -> None:
    assert {section.key for section in SECTIONS if section.to_text is not Section.to_text} == set(TEXT_ORDER)
    assert {section.key for section in SECTIONS if section.to_json is not Section.to_json} == set(JSON_ORDER)
