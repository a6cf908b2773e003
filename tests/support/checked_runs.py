"""Real captures as the judge keeps them, and runs of which a budget knows numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pinprof.analyze import Run, analyze
from pinprof.check.budgets import Budget, budgets_of
from pinprof.check.taken import Taken, TakenRun, take
from pinprof.check.view import Amount
from pinprof.read import ReadOptions, read

DATA = Path(__file__).parents[1] / "data"
LOOP, PAGEABLE, PINNED, ASYNC = (
    DATA / "h200" / "alloc-loop-mistake.pinprof.tar.xz",
    DATA / "cases" / "fresh_h2d.pinprof.tar.xz",
    DATA / "cases" / "tiny_copies-cured.pinprof.tar.xz",
    DATA / "cases" / "not_async.pinprof.tar.xz",
)
"""Pins and frees in a loop, with ranges; copies of pageable memory; pins once; asynchronous copies that are none."""


@cache
def analysed(path: Path) -> Run:
    """A capture of tests/data, analysed once."""
    return analyze(read(path, ReadOptions()))


def budget(**table: object) -> Budget:
    """The one budget of a table."""
    (found,) = budgets_of(table)
    return found


def measured(path: Path, *budgets: Budget) -> TakenRun:
    """A capture as these budgets see it."""
    return take(analysed(path), budgets)


def run(number: int, amounts: dict[Budget, Taken], side: str = "run", **changed: object) -> TakenRun:
    """A run that shows these amounts."""
    facts: dict[str, object] = {
        "path": f"{side}-{number}",
        "amounts": amounts,
        "identity": f"{side}-{number}",
        "command": ("program",),
        "started_utc": f"2026-11-23T10:00:{number:02}+00:00",
        "exit_status": 0,
        "around": {},
    }
    return TakenRun(**(facts | changed))  # type: ignore[arg-type]


def runs(
    one: Budget, values: Sequence[float], side: str = "run", error: float = 0.0, samples: int = 0
) -> list[TakenRun]:
    """Runs that show these amounts of one budget."""
    return [run(number, {one: Amount(value, error, samples=samples)}, side) for number, value in enumerate(values)]
