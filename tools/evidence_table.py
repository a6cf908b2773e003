"""Print a page in Markdown with the evidence that each claim of pinprof needs, from the registries themselves.

The documentation's site has this page (tools/site/hooks.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pinprof.analyze import headline
from pinprof.analyze.opportunities import search
from pinprof.analyze.rules import needs
from pinprof.analyze.rules.rule import Need, Rule
from pinprof.analyze.rules.rules import RULES

HEAD = """# Evidence

pinprof says only what a recording can show. Each headline, finding and opportunity declares the evidence that it needs,
and pinprof makes only claims whose needs the recording meets. If nothing can be said about host memory, the headline is
*This recording cannot show host-memory costs, because …*, followed by what to record and by what the recording does
show.

Answers about several runs use the same needs. `pinprof check` reports a budget as *not assessable* if its evidence is
missing. `pinprof diff` compares only what both sides measured. `pinprof fleet` and `pinprof ranks` repeat the answer of
each recording, and exclude what it can't show.

## What is shown above an answer

If a part of the run is missing, a line above the answer says so, in the terminal, in Markdown, on the page, and in JSON
(`incomplete`): a damaged or shortened file, impossible durations of GPU work, an interrupted or failed recording,
processes that are not in the recording, lost samples or calls, a clock that jumps, stacks that are longer than what was
recorded of them, thinned samples, and CPU time that only [timers inside the
program](recording.md#without-perf-events) sampled. `pinprof report` exits with status 5 if the recording is damaged.
`pinprof diff` refuses it, and `pinprof check` can't judge it. If the missing part can hold costs, no cost is called
low.

"""


def names(given: Iterable[Need]) -> str:
    """What needs are called, each once."""
    return ", ".join(dict.fromkeys(need.name for need in given))


def known() -> list[Need]:
    """Every need, the first of each name."""
    everything = [value for value in vars(needs).values() if isinstance(value, Need)]
    return list({need.name: need for need in reversed(everything)}.values())[::-1]


def chains(rule: Rule) -> Iterator[Rule]:
    """A rule, and those that judge in its place."""
    yield rule
    if rule.otherwise:
        yield from chains(rule.otherwise)


def page() -> str:
    """The whole page."""
    rows = ["## Headlines\n\nThe first one that applies.\n\n| headline | needs |\n|---|---|\n"]
    claims = (*headline.LEADING, *search.HEADLINES, *headline.HEADLINES)
    rows += [f"| {claim.name} | {names(claim.needs) or '–'} |\n" for claim in claims]
    rows.append("\n## Findings\n\n| rule | needs | and to say that there is nothing |\n|---|---|---|\n")
    rows += [
        f"| {'or ' if one is not rule else ''}[{one.name}](diagnoses.md#{one.name}) | {names(one.needs)} "
        f"| {names(one.to_clear) or '–'} |\n"
        for rule in RULES
        for one in chains(rule)
    ]
    rows.append("\n## Opportunities\n\n| pinprof looks for | needs |\n|---|---|\n")
    rows += [f"| {one.looks_for} | {names(one.needs)} |\n" for one in search.DETECTORS]
    rows.append("\n## What to record\n\n| evidence | where it is missing |\n|---|---|\n")
    rows += [f"| {need.name} | {need.missing} |\n" for need in known()]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
