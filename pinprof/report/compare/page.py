"""The design of the page of `pinprof diff`: what changed, and a flamegraph of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinprof.analyze import LEVELS
from pinprof.compare.results import Difference
from pinprof.report.compare import words
from pinprof.report.forms import Answered
from pinprof.report.names import printable
from pinprof.report.page.design import BY_KEY, TAXONOMY, Design, causes_data, change_colours, colour_rules
from pinprof.report.section import ForScripts


def _data(answer: Answered[Difference]) -> ForScripts:
    """What the page's scripts read; names are made printable, so that no script has to."""
    difference = answer.subject
    first = difference.stacks[0] if difference.stacks else None
    none = {"causes": len(TAXONOMY), "dsos": 1, "frames": 0, "threads": 0, "timed": False}
    return ForScripts(
        {
            "causes": causes_data(TAXONOMY),
            "title": "pinprof-diff",
            "compared": True,
            # What is larger shows what went away, or what came.
            "side": "before" if first and first.before.sum() > first.after.sum() else "after",
            "per": difference.work.name if difference.work.name != "run" else "",
            "ranges": [],
            "timed": False,
            "events": [],
            "threads": [],
            "dsos": [""],
            "formerly": {},
            "flame": {"layout": [], "facts": none},
        }
    )


def _context(answer: Answered[Difference]) -> Mapping[str, Any]:
    return {
        "words": words,
        "compared": True,
        "tested": min(answer.subject.before.runs, answer.subject.after.runs) > 1,
        "flame": any(len(stacks.weights) for stacks in answer.subject.stacks),
        "causes": BY_KEY,
        "cause_index": {key: number for number, key in enumerate(BY_KEY)},
        "level_titles": LEVELS,
    }


DESIGN = Design(
    lambda answer: printable(f"{answer.subject.before.name} → {answer.subject.after.name}"),
    ("styles/page.css", "styles/compare.css"),
    "compare.js",
    lambda _: colour_rules(TAXONOMY) + change_colours(),
    folder="compare/",
    data=_data,
    context=_context,
    flame=True,
)
