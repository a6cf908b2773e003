"""What the terminal says at the end of a run: the most expensive tests, and what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from pinprof.base.terminal import printable
from pinprof.base.units import format_count, format_ns, format_share
from pinprof.data.manifest import USER_ONLY
from pinprof.pytest_plugin.recorder import Block
from pinprof.pytest_plugin.settings import Settings

_UNKNOWN = "–"
_MOST_UNJUDGED = 10


def figures(block: Block, outcome: str, unjudged: Sequence[str], *, samples: bool) -> dict[str, Any]:
    """What a report carries of a block: numbers, texts and None; of its samples only with `samples`."""
    if not samples:
        block.forget()
    return {
        "wall_ns": block.wall_ns,
        "cpu_ns": block.cpu_ns,
        "page_faults": block.page_faults,
        "memory_ns": block.memory_ns,
        "sampled_ns": _sampled(block),
        "missing": block.missing or _kernel_missing(block),
        "left_out": block.left_out,
        "outcome": outcome,
        "unjudged": list(unjudged),
    }


def _sampled(block: Block) -> int:
    main = block.analysis.main if block.analysis else None
    return main.total if main is not None and main.event.clocks else 0


def _kernel_missing(block: Block) -> str:
    analysis = block.analysis
    if analysis is None or not analysis.capture.manifest.kernel_left_out:
        return ""
    notes = analysis.capture.manifest.outcome.get("notes") or ()
    return next((str(note) for note in notes if USER_ONLY in str(note)), "The kernel was not sampled.")


class _Row(NamedTuple):
    test: str
    found: dict[str, Any]
    attempts: int


def write(
    reporter: pytest.TerminalReporter, seen: Sequence[tuple[str, str, dict[str, Any]]], settings: Settings, workers: int
) -> None:
    """Everything that there is to say."""
    if settings.every and settings.top:
        _table(reporter, seen, settings)
    unjudged = [(test, found) for test, _, found in seen if found["outcome"] == "not-assessable"]
    if unjudged and settings.allow_unassessable:
        reporter.section("pinprof: NOT ASSESSED", sep="!", red=True, bold=True)
        reporter.write_line(
            f"{len(unjudged)} of {len(seen)} recorded tests passed although their budgets could not be judged:"
        )
        for test, found in unjudged[:_MOST_UNJUDGED]:
            reporter.write_line(f"  {printable(test)}")
            for line in found["unjudged"]:
                reporter.write_line(f"    {printable(line)}")
        if len(unjudged) > _MOST_UNJUDGED:
            reporter.write_line(f"  … and {len(unjudged) - _MOST_UNJUDGED} more")
    notes = dict.fromkeys(found["missing"] for _, _, found in seen if found["missing"])
    if not settings.every and not notes:
        return
    if not (settings.every and settings.top):
        reporter.section("pinprof", sep="=")
    for note in notes:
        reporter.write_line(printable(note) if USER_ONLY in note else f"Only exact counts: {printable(note)}")
    if settings.every:
        left_out = sum(bool(found["left_out"]) for _, _, found in seen)
        if left_out:
            reporter.write_line(
                f"Counts exclude threads and processes older than the test, which were active in {left_out} of"
                f" {len(seen)} tests (pinprof_threads = all includes them)."
            )
        if workers:
            reporter.write_line(
                f"{workers} workers ran tests in parallel and slowed each other down, which affects times but not"
                " counts."
            )


def _table(
    reporter: pytest.TerminalReporter, seen: Sequence[tuple[str, str, dict[str, Any]]], settings: Settings
) -> None:
    last: dict[str, _Row] = {}
    for test, _, found in seen:
        last[test] = _Row(test, found, (last[test].attempts if test in last else 0) + 1)
    rows = sorted(last.values(), key=lambda row: (-(row.found["memory_ns"] or 0), -row.found["page_faults"], row.test))
    shown = rows[: settings.top]
    reporter.section(f"pinprof: memory, the most expensive {len(shown)} of {len(rows)} recorded tests", sep="=")
    reporter.write_line(f"{'memory':>10} {'of CPU':>7} {'page faults':>12} {'wall time':>10}  test")
    for row in shown:
        found = row.found
        memory, sampled = found["memory_ns"], found["sampled_ns"]
        share = format_share(memory, sampled) if memory is not None and sampled else _UNKNOWN
        spent = _UNKNOWN if memory is None else format_ns(memory)
        again = f" (attempt {row.attempts})" if row.attempts > 1 else ""
        outcome = f" [{found['outcome']}]" if found["outcome"] not in ("", "holds") else ""
        reporter.write_line(
            f"{spent:>10} {share:>7} {format_count(found['page_faults']):>12} {format_ns(found['wall_ns']):>10}"
            f"  {printable(row.test)}{again}{outcome}"
        )
