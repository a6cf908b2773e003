"""What parts the pages of different answers: their styles, first script, and what their templates see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report import palette
from pinprof.report.data import Cause
from pinprof.report.section import ForScripts, picked

TAXONOMY = tuple(Cause(row.name, row.level, row.meaning, row.remedy) for row in CATEGORIES)
"""The causes on the pages of answers over several runs."""
BY_KEY = {cause.key: cause for cause in TAXONOMY}


@dataclass(frozen=True)
class Design:
    """The page of one kind of answer; functions are called with the answer."""

    title: Callable[[Any], str]
    sheets: tuple[str, ...]
    script: str
    """The first module under assets/."""
    colours: Callable[[Any], str]
    """Custom properties."""
    folder: str = ""
    """Where the sections' templates are, `NAME/`; empty: where all are."""
    data: Callable[[Any], ForScripts] = lambda _: ForScripts()
    """What belongs to no section."""
    context: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    """What the templates see besides `section`."""
    flame: bool = False
    """Whether it has a flamegraph, which takes filters and a worker."""
    anonymous: bool = True
    """Whether it holds no name of an environment, a user or a host, and says so."""


def change_colours() -> str:
    """Custom properties of the colours of change, in both themes."""
    rules = []
    for selector, dark in palette.THEMES:
        body = "".join(f"--{name}:{colour};" for name, colour in palette.change_colours(dark=dark).items())
        rules.append(f"{selector}{{{body}}}\n")
    return "".join(rules)


def causes_data(causes: Sequence[Cause]) -> list[dict[str, Any]]:
    """The taxonomy as the page's scripts read it."""
    return [picked(cause, "key slug meaning remedy rule") for cause in causes]


def colour_rules(causes: Sequence[Cause]) -> str:
    """Custom properties and classes for every cause, module and level, in both themes."""
    pairs = [(cause.key, cause.level) for cause in causes]
    slugs = {cause.key: cause.slug for cause in causes}
    rules = []
    for selector, dark in palette.THEMES:
        body = "".join(f"--cause-{slugs[key]}:{colour};" for key, colour in palette.colours(pairs, dark=dark).items())
        for name, levels in (("module", palette.MODULES), ("mode", palette.MODES)):
            shades = [palette.level_colour(level, dark=dark) for level in levels]
            body += "".join(f"--{name}-{rank}:{colour};" for rank, colour in enumerate(shades))
        rules.append(f"{selector}{{{body}}}\n")
    rules += [f".c-{slug}{{--c:var(--cause-{slug})}}\n" for slug in slugs.values()]
    return "".join(rules) + level_rules()


def level_rules() -> str:
    """Custom properties and classes for every level, in both themes."""
    rules = []
    for selector, dark in palette.THEMES:
        body = "".join(f"--level-{level}:{palette.level_colour(level, dark=dark)};" for level in palette.FAMILIES)
        rules.append(f"{selector}{{{body}}}\n")
    rules += [f".l-{level}{{--c:var(--level-{level})}}\n" for level in palette.FAMILIES]
    return "".join(rules)
