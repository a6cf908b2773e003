"""A launch of ranks in the terminal, as JSON and as a page: short for any number of ranks, harmless for any name."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from pinprof.ranks.engine import explain
from pinprof.ranks.results import Launch
from pinprof.ranks.spent import ProgramPlace
from pinprof.report.page import html
from pinprof.report.ranks.sections import FORMS
from tests.support.launches import MS, launch
from tests.unit.ranks.test_engine import noisy

EVIL = '</script><img src=x onerror=alert(1)>"\x1b[31m\u202eevil'


def evil() -> Launch:
    """Every name is hostile."""
    places = tuple(ProgramPlace(f"{EVIL}{line}", EVIL, f"{EVIL}{line}", line) for line in (1, 2, 3))
    runs = launch(noisy(3, 30), {(1, step): 10 * MS for step in range(30)})
    runs = [replace(run, places=places, path=f"/home/somebody/{EVIL}", answer=EVIL) for run in runs]
    return explain(runs, f"{EVIL}.ranks", {7: EVIL})


def with_page(answer: Launch, page: str) -> Launch:
    """Rank 1 has a page."""
    ranks = (replace(rank, page=page if rank.number == 1 else "") for rank in answer.ranks)
    return replace(answer, ranks=tuple(ranks))


def text_of(answer: Launch) -> str:
    stream = io.StringIO()
    FORMS.of(answer).write("text", stream)
    return stream.getvalue()


@pytest.mark.slow
def test_hostile_names_are_text_on_the_page_and_in_the_terminal() -> None:
    answer = evil()
    assert answer.holds
    page = html.render(FORMS.of(with_page(answer, f"job-ranks/{EVIL}.html")))
    assert "<img src=x" not in page
    assert "\x1b" not in page
    assert "&lt;img src=x" in page
    assert "\x1b" not in text_of(answer)
    assert "\u202e" not in page + text_of(answer)


def test_json_holds_the_answer_and_no_home_directory() -> None:
    stream = io.StringIO()
    FORMS.of(evil()).write("json", stream)
    assert "somebody" not in stream.getvalue()
    document = json.loads(stream.getvalue())
    assert {
        "schema", "headline", "verdict", "holds", "groups", "ranks", "nodes", "clock", "notes", "start", "work_ns",
    } <= document.keys()  # fmt: skip
    (hold,) = document["holds"]
    assert hold["ranks"] == [1]
    assert hold["cost_low_ns"] <= hold["cost_ns"] <= hold["cost_high_ns"]
    assert sum(lost for _, lost in hold["losses"]) == hold["cost_ns"]
    assert {"place", "file", "function", "line", "range", "ns", "others_ns", "causes"} == hold["lines"][0].keys()


@pytest.mark.slow
def test_sixty_four_ranks_stay_readable() -> None:
    answer = explain(launch(noisy(64, 15), {(9, step): 10 * MS for step in range(15)}), "job.ranks", {})
    assert answer.holds[0].ranks == (9,)
    told = text_of(answer)
    assert len(told.splitlines()) < 50
    assert "ranks 0–8 and 10–63" in told
    assert len(html.render(FORMS.of(answer))) < 2_000_000


def test_a_page_links_the_ranks_that_have_one() -> None:
    page = html.render(FORMS.of(with_page(evil(), "job ranks/rank-1.html")))
    assert 'href="job%20ranks/rank-1.html"' in page
    assert page.count('href="job') == 2 * 1 + page.count('class="lanes') - 1
