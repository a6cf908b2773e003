"""A check as Markdown: the summary of a CI job, or a comment on a pull request.

What does not hold comes first and is open; what holds is folded away. `append_summary` adds it to the summary of the
GitHub step that runs, where there is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from pinprof.base import files
from pinprof.base.units import format_bytes, format_counted
from pinprof.check.budgets import format_amount
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check import words
from pinprof.report.check.places import SourcePlaces
from pinprof.report.export.markdown import code, text

SUMMARY = "GITHUB_STEP_SUMMARY"
_LARGEST = 1 << 20
"""Bytes of one step's summary; GitHub shows none of a larger one."""
_MOST_ROWS, _MOST_PLACES = 100, 3
"""Bytes of a table, and of one budget in it."""


def append_summary(checked: Checked, environment: Mapping[str, str] = os.environ) -> str:
    """Add the check to the step's summary if the environment names one; a sentence where that fails, else empty.

    A summary that cannot be written changes no verdict, so it raises nothing.
    """
    path = environment.get(SUMMARY, "")
    if not path:
        return ""
    try:
        descriptor = files.append(path)
        with os.fdopen(descriptor, "ab") as file:
            content = "\n".join(["", *lines(checked), ""]).encode("utf-8", "backslashreplace")
            if file.tell() + len(content) > _LARGEST:
                return f"The step's summary has too little space for this check: its limit is {format_bytes(_LARGEST)}."
            file.write(content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"The step's summary ({SUMMARY}) cannot be written: {reason}."
    return ""


def lines(checked: Checked) -> Iterator[str]:
    """All of a check."""
    places = SourcePlaces()
    yield f"### pinprof check: {text(words.headline(checked))}"
    if checked.allowed and (unknown := checked.of(BudgetOutcome.UNASSESSABLE)):
        many = format_counted(len(unknown), "budget was", "budgets were")
        yield from ("", f"**{words.SKIPPED}: {many} passed without being judged (`--allow-unassessable`).**")
    for outcome in (BudgetOutcome.BROKEN, BudgetOutcome.UNASSESSABLE):
        if verdicts := checked.of(outcome):
            yield from ("", *_table(verdicts, checked, places))
    if verdicts := checked.of(BudgetOutcome.HOLDS):
        yield from ("", f"<details><summary>{format_counted(len(verdicts), 'budget holds', 'budgets hold')}</summary>")
        yield from ("", *_table(verdicts, checked, places), "", "</details>")
    for note in checked.notes:
        yield from ("", text(words.plain(note)))
    yield ""
    yield f"Judged by pinprof: {_captures(checked)}."


def _table(verdicts: Sequence[BudgetVerdict], checked: Checked, places: SourcePlaces) -> Iterator[str]:
    explained = verdicts[0].outcome is not BudgetOutcome.HOLDS
    yield "| budget | | found | limit |" + (" why | where |" if explained else "")
    yield "|---|---|---:|---:|" + ("---|---|" if explained else "")
    for verdict in verdicts[:_MOST_ROWS]:
        outcome = words.OUTCOMES[verdict.outcome]
        cells = [text(words.name(verdict)), f"**{outcome}**" if explained else outcome]
        cells += [format_amount(verdict.found, verdict.unit) if verdict.found is not None else "–"]
        cells += [words.limit(verdict)]
        if explained:
            sites = "<br>".join(map(text, words.sites(verdict, places, _MOST_PLACES)))
            cells += [text(words.sentences(verdict, allowed=checked.allowed)), sites]
        yield f"| {' | '.join(cells)} |"
    if len(verdicts) > _MOST_ROWS:
        yield from ("", f"{format_counted(len(verdicts) - _MOST_ROWS, 'more is', 'more are')} in `--format json`.")


def _captures(checked: Checked) -> str:
    names = words.captures(checked)
    shown = ", ".join(map(code, names[:_MOST_PLACES]))
    return shown if len(names) <= _MOST_PLACES else f"{shown} and {len(names) - _MOST_PLACES} more"
