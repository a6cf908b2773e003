"""The names that can be explained, by kind: each kind is one function, and `KINDS` lists them in the order of output.

Texts come from the registries (causes, cures) and from the documents; none is written here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

from pinprof.base.lazy_dataclass import dataclass
from pinprof.explain import documents

PAGES = {
    "run": "scenarios",
    "record": "recording",
    "top": "recording",
    "dump": "dump",
    "report": "reading-a-report",
    "diff": "diff",
    "check": "check",
    "try": "try",
    "fix": "fix",
    "fleet": "fleet",
    "bench": "bench",
    "list": "scenarios",
    "doctor": "quickstart",
    "explain": "messages",
    "mcp": "python",
    "schema": "json",
}
"""Command → the document that describes it."""

_SCOPES = {"k": "kernel", "nv": "NVIDIA driver", "uv": "unified-memory driver", "fn": "program", "so": "file"}
_FRAMEWORKS = {
    "": "C and C++",
    "pytorch": "PyTorch",
    "numpy": "NumPy",
    "cupy": "CuPy",
    "jax": "JAX",
    "python": "Python",
}
_LONGEST = 240
"""Characters of a list of functions."""


@dataclass(frozen=True)
class Topic:
    """One name, explained."""

    kind: str
    name: str
    body: str
    """Markdown."""
    page: str = ""
    """The document that says more."""
    heading: str = ""
    """Its heading there."""


def causes() -> Iterator[Topic]:
    """Causes of samples: what the time went into, what helps, and which functions lead to them."""
    from pinprof.analyze.attribution.categories import CATEGORIES

    for row in CATEGORIES:
        body = f"**The time goes into:** {row.meaning}." + f"\n\n**What helps:** {row.remedy}" * bool(row.remedy)
        frames = [f"- {_SCOPES[frame.scope]}: `{_readable(frame.pattern)}`" for frame in (*row.frames, *row.opens)]
        if frames:
            body += "\n\n**Functions that lead to it:**\n\n" + "\n".join(frames)
        body += f"\n\nTo see the stacks of a recording: `pinprof report RECORDING --explain {row.name}`"
        yield Topic("cause", row.name, body, "attribution")


def _readable(pattern: str) -> str:
    """A regular expression of function names, short enough for a terminal."""
    names = pattern.replace("|", ", ")
    return names if len(names) <= _LONGEST else names[:_LONGEST].rpartition(",")[0] + ", …"


def rules() -> Iterator[Topic]:
    """Findings: when a rule fires, and what to do then."""
    from pinprof.analyze.rules.rules import RULES

    texts = {heading: body for _, heading, body in documents.parts("diagnoses")}
    for rule in RULES:
        yield Topic("finding", rule.name, texts[rule.name], "diagnoses", rule.name)


def cures() -> Iterator[Topic]:
    """Cures of opportunities: what to change, and what the prediction rests on."""
    from pinprof.analyze.opportunities.catalogue import CURES
    from pinprof.analyze.opportunities.knobs import table

    texts = {heading: body for _, heading, body in documents.parts("opportunities")}
    for name, entry in CURES.items():
        blocks = [f"{_FRAMEWORKS[kind]}:\n\n```\n{lines}\n```" for kind, lines in entry.code.items()]
        for knob in (knob for knob in table() if name in knob.answers):
            kind = knob.versions if knob.framework is None else _FRAMEWORKS[knob.framework]
            lines = "\n".join(part for part in (knob.code, knob.environment) if part)
            blocks.append(f"{kind}, {knob.source}:\n\n```\n{lines}\n```")
        yield Topic("cure", name, "\n\n".join((entry.text, *blocks, texts[name])), "opportunities", name)


def trials() -> Iterator[Topic]:
    """Cures that `pinprof try` applies without a change of code."""
    from pinprof.trial.cures import CURES

    for cure in CURES.values():
        body = f"{cure.changes}\n\n**It costs:** {cure.costs}\n\n**To keep it:** `{cure.permanent}`"
        body += f"\n\nTo measure it: `pinprof try --cure {cure.id} -- PROGRAM`"
        yield Topic("cure of pinprof try", cure.id, body, "try", "The cures")


def messages() -> Iterator[Topic]:
    """Messages, by the code in square brackets at their end."""
    for level, heading, body in documents.parts("messages"):
        if level == 2:
            yield Topic("message", heading, body, "messages", heading)


def words() -> Iterator[Topic]:
    """Words as pinprof uses them."""
    for names, meaning in documents.rows("glossary"):
        for name in names.replace(" (managed)", "").split(", "):
            yield Topic("word", name, meaning, "glossary")


KINDS: tuple[tuple[str, Callable[[], Iterator[Topic]]], ...] = (
    ("Causes", causes),
    ("Findings", rules),
    ("Cures", cures),
    ("Cures of pinprof try", trials),
    ("Messages", messages),
    ("Words", words),
)
"""(title in the list of names, what yields its topics)."""


def commands(summaries: Mapping[str, str]) -> Iterator[Topic]:
    """Commands: what they are for, and the beginning of their document."""
    for name, summary in summaries.items():
        page = PAGES.get(name, "")
        said = f"\n\n{documents.introduction(page)}" if page else ""
        yield Topic("command", name, f"{summary}{said}\n\nIts options: `pinprof {name} --help`", page)


def pages() -> Iterator[Topic]:
    """Whole documents."""
    for name in documents.names():
        yield Topic("document", name, documents.text(name), name)


def every(summaries: Mapping[str, str]) -> dict[str, list[Topic]]:
    """All topics by kind; `summaries` are the commands' names and what each is for."""
    own = {title: list(kind()) for title, kind in KINDS}
    return own | {"Commands": list(commands(summaries)), "Documents": list(pages())}


def find(name: str, known: Mapping[str, Sequence[Topic]]) -> list[Topic]:
    """Everything of that name; documents only where nothing else has it."""
    found = [topic for topics in known.values() for topic in topics if topic.name.lower() == _plain(name)]
    return [topic for topic in found if topic.kind != "document"] or found


def near(name: str, known: Mapping[str, Sequence[Topic]]) -> list[str]:
    """The names that are most like one that does not exist: those that begin with it, at most ten, else the nearest."""
    names = list(dict.fromkeys(topic.name for topics in known.values() for topic in topics))
    wanted = _plain(name)
    if begin := [each for each in names if each.lower().startswith(f"{wanted}.")]:
        return begin[:10]
    alike = difflib.get_close_matches(wanted, names, 5, 0.7)
    inside = [each for each in names if len(wanted) > 2 and wanted in each.lower()]
    return list(dict.fromkeys([*alike, *inside]))[:5]


def _plain(name: str) -> str:
    """A name as messages print it, without brackets or quotes."""
    return name.strip().strip("[]`'\"").lower()
