"""Where budgets are written: `pinprof.toml`, or `[tool.pinprof]` of `pyproject.toml`; and on which line.

[[budget]]                    [[tool.pinprof.budget]]
range = "load"                range = "load"
pinned-bytes = "1 GiB"        pinned-bytes = "1 GiB"
pairs = 0                     pairs = 0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pinprof.base.errors import UsageError
from pinprof.base.settings import BUDGET, refuse_unknown, settings_in
from pinprof.check.budgets import LIMITED, Budget, BudgetPlace, budgets_of, refuse_alike

_HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*(?:tool[ \t]*\.[ \t]*pinprof[ \t]*\.[ \t]*)?budget\b[^\]\n]*\]", re.MULTILINE)
_EXAMPLE = '[[budget]]\npinned-bytes = "1 GiB"'


def budgets_in(path: Path) -> tuple[Budget, ...]:
    """The budgets of a file, in its order; UsageError where it holds none, or says what cannot be meant."""
    settings = settings_in(path)
    if settings is None:
        raise UsageError(
            f"{path} has no table tool.pinprof.", "Write budgets as [[tool.pinprof.budget]] tables.", "budget-file"
        )
    given = settings.get(BUDGET)
    tables: list[Mapping[str, object]]
    if isinstance(given, Mapping):
        tables = [{"name": name, **table} for name, table in given.items() if isinstance(table, Mapping)]
        whole = len(tables) == len(given)
    else:
        tables = [table for table in given if isinstance(table, Mapping)] if isinstance(given, list) else []
        whole = isinstance(given, list) and len(tables) == len(given)
    if not whole or not tables:
        near = next((key for key in settings if key in LIMITED or key.replace("_", "-") in LIMITED), "")
        hint = f"{near!r} belongs in a [[budget]] table." if near else f"Write for example:\n{_EXAMPLE}"
        raise UsageError(f"{path} has no budgets.", hint, "budget-file")
    refuse_unknown(path, settings)
    lines, shown = _lines(path, len(tables)), _below(path)
    found = [
        budget
        for table, line in zip(tables, lines, strict=True)
        for budget in budgets_of(table, BudgetPlace(shown, line))
    ]
    refuse_alike(found)
    return tuple(found)


def _below(path: Path) -> str:
    """The path from the current directory, where it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _lines(path: Path, count: int) -> list[int]:
    """The line of every table with budgets; 0 for all where they are written in another way."""
    text = path.read_text("utf-8-sig", "replace")
    lines = [text.count("\n", 0, match.start()) + 1 for match in _HEADER.finditer(text)]
    return lines if len(lines) == count else [0] * count
