"""`pinprof explain`: every name that output uses has an explanation; unknown names get the nearest ones."""

from __future__ import annotations

import re

import pytest

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.opportunities.catalogue import CURES
from pinprof.analyze.rules.rules import RULES
from pinprof.base import documentation
from pinprof.cli import COMMANDS
from pinprof.explain import documents, topics
from pinprof.trial import cures
from tests.support.command import pinprof

KNOWN = topics.every(COMMANDS)
NAMES = [
    *(row.name for row in CATEGORIES),
    *(rule.name for rule in RULES),
    *CURES,
    *cures.CURES,
    *COMMANDS,
    *re.findall(r"^## ([a-z0-9-]+)$", documents.text("messages"), re.MULTILINE),
]


def test_every_name_of_the_registries_and_every_message_has_one_text() -> None:
    for name in NAMES:
        found = topics.find(name, KNOWN)
        assert found, name
        assert all(topic.body.strip() and topic.page in documents.names() for topic in found), name


@pytest.mark.slow
def test_every_heading_that_a_topic_names_is_in_its_document() -> None:
    for kind in KNOWN.values():
        for topic in kind:
            headings = {heading for _, heading, _ in documents.parts(topic.page)}
            assert not topic.heading or topic.heading in headings, topic.name


def test_a_cause_says_what_it_is_and_what_helps() -> None:
    said = pinprof("explain", "copy.staging").stdout
    row = next(row for row in CATEGORIES if row.name == "copy.staging")
    assert "copy.staging (cause)" in said
    assert row.meaning in " ".join(said.split())
    assert row.remedy in " ".join(said.split())


def test_the_word_in_brackets_of_an_error_leads_to_its_entry() -> None:
    failed = pinprof("report", "no such file")
    (slug,) = re.findall(r"\[([a-z-]+)\]$", failed.stderr.strip())
    answer = pinprof("explain", f"[{slug}]")
    assert answer.returncode == 0
    assert f"{slug} (message)" in answer.stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("pin.faulting", "pin.faultin"), ("stagingcopies", "staging-copies"), ("fleets", "fleet")]
)
def test_an_unknown_name_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    failed = pinprof("explain", typed)
    assert failed.returncode == 2
    assert f"Did you mean {meant}" in failed.stderr


def test_without_a_name_or_with_nothing_near_it_lists_the_names() -> None:
    listing = pinprof("explain").stdout
    assert all(name in listing for name in NAMES)
    assert all(len(line) <= 100 and line == line.rstrip() for line in listing.splitlines())
    assert "Run `pinprof explain`" in pinprof("explain", "\x1b[31mqqqqqq").stderr


def test_documents_are_printed_whole() -> None:
    said = pinprof("explain", "glossary").stdout
    assert "pageable memory" in said
    assert "More:" not in said


def test_where_a_build_names_a_site_topics_and_findings_link_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert documentation.address("diagnoses", "staging-copies") == ""
    monkeypatch.setattr(documentation, "site", lambda: "https://example.org/pinprof")
    assert "More: https://example.org/pinprof/diagnoses/#staging-copies" in pinprof("explain", "staging-copies").stdout
    assert documentation.address("json", "`capture`: how it was recorded").endswith(
        "/json/#capture-how-it-was-recorded"
    )
