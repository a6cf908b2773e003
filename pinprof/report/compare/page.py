"""The page of `pinprof diff`: one self-contained file with what changed and a flamegraph of both sides.

It is made as the reports' pages are (page/html.py): nothing is requested from anywhere, and the policy admits the
page's own script only.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from pinprof.analyze import LEVELS
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.units import format_share
from pinprof.compare.results import Difference
from pinprof.report import palette
from pinprof.report.compare import figures
from pinprof.report.compare.flame import ComparedFlame, compared_flame
from pinprof.report.compare.shown import shown_families, shown_fates, stacked
from pinprof.report.data import Cause
from pinprof.report.flame import pack_strings
from pinprof.report.names import printable
from pinprof.report.page import html
from pinprof.report.page.bundle import asset, bundle, script_hash

_SHEETS = ("styles/page.css", "styles/compare.css")


def write_page(difference: Difference, path: Path) -> None:
    """Write the page to `path`; PinprofError if it cannot be written."""
    html.write_whole(render(difference), path)


def render(difference: Difference) -> str:
    """The page as text."""
    script = bundle("compare.js")
    flame = compared_flame(difference)
    causes = tuple(Cause(row.name, row.level, row.meaning, row.remedy) for row in CATEGORIES)
    packed = {}
    data = _page_data(difference, causes, flame)
    if flame:
        data["flame"]["layout"], packed["flame-data"] = flame.packed()
        packed["flame-names"] = pack_strings(printable(name) for name in flame.data.names)
    return html.page(
        "compare.html.j2",
        "".join(map(asset, _SHEETS)) + html.colour_rules(causes) + change_rules(),
        script,
        script_hash(script),
        "worker-src blob:; ",
        report=difference,
        compared=True,
        flame=flame,
        families=shown_families(difference),
        stacked=list(stacked(difference)),
        fates=shown_fates(difference),
        tested=min(difference.before.runs, difference.after.runs) > 1,
        words=figures,
        matching=_matching(difference, flame),
        recordings=_recordings(difference),
        causes={cause.key: cause for cause in causes},
        cause_index={cause.key: number for number, cause in enumerate(causes)},
        level_titles=LEVELS,
        page_data=html.embed_json(data),
        packed=packed,
    )


def _page_data(difference: Difference, causes: tuple[Cause, ...], flame: ComparedFlame | None) -> dict[str, Any]:
    """What the page's scripts read; names are made printable, so that no script has to."""
    before, after = (_clock(difference, side) for side in ("before", "after"))
    data: dict[str, Any] = {
        "causes": html.causes_data(causes),
        "title": "pinprof-diff",
        "compared": True,
        # What is larger shows what went away, or what came.
        "side": "before" if before > after else "after",
        "per": difference.work.name if difference.work.name != "run" else "",
        "ranges": [],
        "timed": False,
        "events": [],
        "threads": [],
        "dsos": [""],
        "formerly": {},
        "flame": {"layout": [], "facts": {"causes": len(causes), "dsos": 1, "frames": 0, "threads": 0, "timed": False}},
    }
    if flame:
        data |= {
            "events": [{"name": printable(name), "unit": unit, "spans": False} for name, unit in flame.events],
            "threads": [thread.name for thread in flame.data.threads],
            "dsos": [printable(dso) for dso in flame.data.dsos],
            "formerly": {number: printable(name) for number, name in flame.formerly.items()},
            "flame": {"layout": [], "facts": flame.facts()},
        }
    return data


def _clock(difference: Difference, side: str) -> float:
    """How much the first event weighs on a side."""
    return float(getattr(difference.stacks[0], side).sum()) if difference.stacks else 0.0


def _matching(difference: Difference, flame: ComparedFlame | None) -> list[str]:
    """Per event of the flamegraph a sentence: what only one side has, and what has another name."""
    if flame is None:
        return []
    words = {stacks.event: figures.unmatched_words(stacks) for stacks in difference.stacks}
    cut = f" Stacks with less than {format_share(flame.light, 1)} end in their callers." if flame.light else ""
    how = "Functions are matched by name. Addresses, template arguments and line numbers are ignored. "
    return [how + (words[name] or "More than 99 % of the weight has a counterpart.") + cut for name, _ in flame.events]


def _recordings(difference: Difference) -> list[tuple[str, str, str, int]]:
    """(name, side, units of work, length in ns) of every recording."""
    rows = []
    for side, word in ((difference.before, "before"), (difference.after, "after")):
        for path, units, ns in zip(side.paths, side.units, side.duration_ns, strict=True):
            rows.append((PurePath(path).name, word, f"{units:,.4g}", ns))
    return rows


def change_rules() -> str:
    """Custom properties of the colours of change, in both themes."""
    rules = []
    for selector, dark in html.THEMES:
        body = "".join(f"--{name}:{colour};" for name, colour in palette.change_colours(dark=dark).items())
        rules.append(f"{selector}{{{body}}}\n")
    return "".join(rules)
