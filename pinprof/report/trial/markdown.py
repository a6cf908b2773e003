"""A trial as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from pinprof.report.export.markdown import block, code, text
from pinprof.report.trial import words
from pinprof.trial.result import CureResult, TrialResult


def lines(result: TrialResult) -> Iterator[str]:
    """One trial."""
    yield f"**{text(words.headline(result))}**"
    as_is = words.amount(result.as_is.median, result.unit)
    about = f"{words.what(result)} as is {as_is}; {words.basis(result)}"
    yield from ("", f"{code(words.command_line(result))}: {text(about)}")
    if result.cures:
        yield from ("", "| cure | result | measured | predicted | memory | rounds |", "|---|---|---:|---:|---:|---:|")
    for cure in result.cures:
        yield "| " + " | ".join(_cells(cure)) + " |"
    for cure in result.cures:
        if cure.problem:
            yield from ("", f"{code(cure.id)}: {text(cure.problem)}")
    for cure in result.cures:
        if cure.significant and cure.gain > 1:
            yield from ("", f"To keep {code(cure.id)} (memory: {text(cure.costs)})", "", *block([cure.permanent]))
    for note in result.notes:
        yield from ("", text(note))


def _cells(cure: CureResult) -> tuple[str, ...]:
    return (
        code(cure.id),
        text(words.verdict(cure)),
        text(words.change(cure.ratio)) if cure.ratio else "",
        text(words.prediction(cure)),
        text(words.memory(cure)),
        str(cure.rounds),
    )
