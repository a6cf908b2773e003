"""A difference in words: the first line, the terminal, Markdown and JSON."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.course.wall import RUNNABLE
from pinprof.analyze.opportunities.results import Cure, Evidence, Opportunity, Saving
from pinprof.analyze.sites import Site
from pinprof.base.statistics import MeanDifference
from pinprof.compare.engine import compare
from pinprof.compare.headline import clock_row, headline
from pinprof.compare.lines import Moves
from pinprof.compare.opportunities import opportunity_changes
from pinprof.compare.results import Difference, Family, OpportunityChange, Row, WorkUnit
from pinprof.compare.runs import UNDISTURBED, Figure
from pinprof.report.compare import words as figures
from pinprof.report.compare.sections import FORMS
from pinprof.report.page.html import render
from pinprof.report.terminal.console import PrintableConsole
from tests.unit.compare.test_rows import MS, run_with, simulated

RUN = WorkUnit("run", "Times are those of whole runs.")


def row(family: Family, name: str, before: float, after: float, significant: bool | None = None) -> Row:
    """Milliseconds; `significant` None for one that was not tested."""
    tested = significant is not None
    return Row(
        family=family, name=name, unit="ns", before=(before * MS,), after=(after * MS,), exact=True, per="run",
        estimate=MeanDifference(math.log(after / before), 0.01, 8) if tested and before and after else None,
        chance=(0.001 if significant else 0.5) if tested else None, significant=bool(significant),
        detectable=0.03 if tested else None, untested="" if tested else "one run of a side",
    )  # fmt: skip


def change(fate: str, title: str, before: float, after: float) -> OpportunityChange:
    costs = before * MS, after * MS
    return OpportunityChange(fate, title, "a.py:1", "pool", "work", *costs, *costs, 1, 1)  # type: ignore[arg-type]


PREEMPTED = "waiting for a CPU that other programs used (+90 ms)"
GONE = change("gone", "a.py:1 pins repeatedly.", 500, 0)
NEW = change("new", "b.py:2 faults.", 0, 300)


@pytest.mark.parametrize(
    ("rows", "opportunities", "words"),
    [
        ([row("phase", "work", 1000, 400)], [GONE],
         "Gone: a.py:1 pins repeatedly. That saves 600 ms of 1 s of work (60 %): 400 ms now."),
        ([row("phase", "work", 400, 1000, True)], [NEW],
         "New: b.py:2 faults. That costs 600 ms (150 %): 1 s of work instead of 400 ms."),
        ([row("phase", "work", 1000, 900)], [GONE, NEW],
         "Gone: a.py:1 pins repeatedly; new: b.py:2 faults. That saves 100 ms of 1 s of work (10 %): 900 ms now."),
        ([row("phase", "work", 1000, 700)], [change("stayed", "a.py:1 pins.", 400, 100)],
         "Cheaper: a.py:1 pins, costs 100 ms instead of 400 ms. That saves 300 ms of 1 s of work (30 %): 700 ms now."),
        ([row("phase", "work", 3000, 1200)], [change("gone", "a.py:1 pins.", 260, 0)],
         "Gone: a.py:1 pins, at a cost of 260 ms. The work takes 1.8 s less (60 %): 1.2 s instead of 3 s."),
        ([row("phase", "work", 3000, 1200), row("phase", UNDISTURBED, 2000, 1120)], [GONE, NEW],
         ("Gone: a.py:1 pins repeatedly, at a cost of 500 ms; new: b.py:2 faults. The work takes 1.8 s less (60 %):"
          " 1.2 s instead of 3 s; 920 ms of that is time in which other programs used the CPUs.")),
        ([row("phase", "work", 1000, 2000), row("phase", UNDISTURBED, 990, 1950)],
         [change("stayed", "a.py:1 pins.", 100, 400)],
         ("More expensive: a.py:1 pins, costs 400 ms instead of 100 ms. The work takes 1 s more (100 %): 2 s instead"
          " of 1 s.")),
        ([row("phase", "work", 1000, 990, False)], [GONE],
         "There is no significant difference: the work takes 1 s before and 990 ms after."),
        ([row("phase", "work", 1000, 1100, True), row("range", "step", 900, 1000, True),
          row("range", "fill", 10, 200, False)], [],
         "The work takes 100 ms more (10 %): 1.1 s instead of 1 s; most of it is range step (+100 ms)."),
        ([row("phase", "work", 1000, 1100), row("cause", RUNNABLE, 10, 100)], [],
         f"Untested: the work takes 100 ms more (10 %): 1.1 s instead of 1 s; most of it is {PREEMPTED}."),
        ([row("phase", "work", 1000, 1000)], [], "There is no difference: the work takes 1 s before and 1 s after."),
        ([], [], "The two sides have no times to compare."),
    ],
)  # fmt: skip
def test_the_first_line(rows: Sequence[Row], opportunities: Sequence[OpportunityChange], words: str) -> None:
    assert headline(clock_row(rows, RUN), rows, opportunities, RUN) == words


def found(place: str, cure: str = "pool", cost: int = 100, function: str = "step") -> Opportunity:
    file, _, line = place.partition(":")
    return Opportunity(
        1, f"{place} pins.", Site(function, file, int(line), "main"), {}, "work", 1, 1, cost * MS, Cure(cure, ""),
        Saving(cost * MS, cost * MS, cost * MS), (), (Evidence(""),),
    )  # fmt: skip


def test_opportunities_are_matched_by_place_and_cure() -> None:
    before = [run_with({}, found=(found("a.py:1"), found("b.py:2", cost=50), found("c.py:3")))]
    after = [run_with({}, found=(found("a.py:1", cost=30), found("b.py:9", cost=60), found("c.py:3", "reuse")))]
    moved = Moves({("b.py", "step"): 7})
    fates = [(one.fate, one.place, one.cure) for one in opportunity_changes(before, after, moved)]
    assert fates == [
        ("gone", "c.py:3", "pool"), ("new", "c.py:3", "reuse"),
        ("stayed", "a.py:1", "pool"), ("stayed", "b.py:2", "pool"),
    ]  # fmt: skip


def test_an_opportunity_of_few_runs_is_none() -> None:
    runs = [run_with({}, found=found_here) for found_here in ((found("a.py:1"),), (), ())]
    assert opportunity_changes(runs, runs, Moves({})) == ()
    assert [one.before_runs for one in opportunity_changes(runs[:1], runs[1:], Moves({}))] == [1]


def difference_of(work: float) -> Difference:
    """Sides of three runs."""
    random = np.random.default_rng(5)
    before = [replace(simulated(random, 0.004), identity=f"before {number}") for number in range(3)]
    after = [replace(simulated(random, 0.004, work), identity=f"after {number}") for number in range(3)]
    return compare(before, after, ("before", "after"))


def rendered(difference: Difference, width: int) -> str:
    stream = io.StringIO()
    FORMS.of(difference).show(PrintableConsole(file=stream, width=width, force_terminal=True, color_system="standard"))
    return stream.getvalue()


GREEN, RED = "\x1b[32m", "\x1b[31m"


@pytest.mark.slow
def test_only_what_is_significant_has_a_colour() -> None:
    assert GREEN in rendered(difference_of(0.8), 100)
    assert RED in rendered(difference_of(1.3), 100)
    same = rendered(difference_of(1.0), 100)
    assert GREEN not in same
    assert RED not in same


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_s_width_is_kept_and_the_first_line_comes_first(width: int) -> None:
    difference = difference_of(0.8)
    stream = io.StringIO()
    FORMS.of(difference).show(PrintableConsole(file=stream, width=width, no_color=True))
    shown = stream.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert " ".join(shown.split()).startswith(difference.headline)


def test_rows_of_the_json_say_whether_they_are_significant() -> None:
    stream = io.StringIO()
    FORMS.of(difference_of(0.8)).write("json", stream)
    rows = json.loads(stream.getvalue())["rows"]
    work = next(one for one in rows if one["name"] == "work")
    assert work["significant"] is True
    assert work["p"] <= 0.05
    assert work["ratio"]["low"] < work["ratio"]["value"] < work["ratio"]["high"] < 1
    assert len(work["before_runs"]) == 3
    assert next(one for one in rows if one["name"] == "start-up")["significant"] is False


HOSTILE = "a\x1b[31m|<b>\n`*\u202e"


def test_hostile_names_reach_neither_terminal_nor_markdown() -> None:
    figure = Figure(1000 * MS, HOSTILE)
    sides = [
        [run_with({("range", "x"): replace(figure, amount=value)}, number)] for number, value in enumerate((1e9, 2e9))
    ]
    difference = compare(*sides, (HOSTILE, HOSTILE))
    stream = io.StringIO()
    FORMS.of(difference).write("markdown", stream)
    for shown in (rendered(difference, 100).replace("\x1b[1m", "").replace("\x1b[0m", ""), stream.getvalue()):
        assert "\u202e" not in shown
        assert "\x1b[31m" not in shown
    # The sides' names stand in a code span.
    assert "<b>" not in stream.getvalue().rpartition("Before:")[0]


@pytest.mark.slow
def test_every_output_says_how_many_runs_detect_less() -> None:
    times = [[1000, 1100, 900, 1000], [1000, 1050, 900, 1000]]
    sides = [[run_with({("phase", "work"): Figure(ms * MS, "work")}, first + number) for number, ms in enumerate(side)]
             for first, side in zip((0, 10), times, strict=True)]  # fmt: skip
    difference = compare(*sides, ("base", "new"))
    more = difference.rows[0].more_runs
    assert more is not None
    sentence = f"About {more.runs} runs of each side detect a change of {100 * more.change:.0f} % of work."
    assert difference.tested.endswith(sentence)
    stream = io.StringIO()
    FORMS.of(difference).write("markdown", stream)
    page = render(FORMS.of(difference))
    for shown in (rendered(difference, 100), stream.getvalue(), page):
        assert sentence in " ".join(html.unescape(shown).split())
    assert FORMS.of(difference).to_json()["rows"][0]["more_runs"] == {"runs": more.runs, "change": more.change}
    assert f'title="About {more.runs} runs of each side detect {100 * more.change:.0f} %"' in page


def test_intervals_and_limits_in_words() -> None:
    tested = row("phase", "work", 1000, 800, True)
    assert figures.signed(tested) == "−200 ms"
    assert figures.percent(tested) == "−20 %"
    assert figures.interval(tested) == "−22 to −18 %"
    assert figures.found_from(tested) == "3.0 %"
    assert figures.found_from(replace(tested, detectable=3.0)) == "4.0 ×"
    assert figures.found_from(row("phase", "work", 1000, 800)) == "unknown"
    assert figures.percent(row("call", "cudaMalloc", 0, 800)) == "new"
    assert figures.percent(row("call", "cudaMalloc", 800, 0)) == "gone"
