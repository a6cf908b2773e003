"""Where budgets are written: `pinprof.toml`, or `[tool.pinprof]` of `pyproject.toml`; and on which line.

[[budget]]                    [[tool.pinprof.budget]]
range = "load"                range = "load"
pinned-bytes = "1 GiB"        pinned-bytes = "1 GiB"
pairs = 0                     pairs = 0
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pinprof.check.budgets import LIMITED, Budget, Place, budgets_of, refuse_alike
from pinprof.errors import UsageError, readable

OWN, SHARED = "pinprof.toml", "pyproject.toml"
TABLES = ("budget", "pytest")
"""Keys of the configuration; what `pytest` holds is for the plugin."""
_MOST_BYTES = 1 << 20
_SLUG = "budget-file"
_HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*(?:tool[ \t]*\.[ \t]*pinprof[ \t]*\.[ \t]*)?budget\b[^\]\n]*\]", re.MULTILINE)
_EXAMPLE = '[[budget]]\npinned-bytes = "1 GiB"'


def nearest(folder: Path) -> Path | None:
    """The file with budgets that is nearest: in this folder, or one above; None without any."""
    for place in (folder, *folder.parents):
        for name in (OWN, SHARED):
            path = place / name
            if path.is_file() and (name == OWN or _settings(path) is not None):
                return path
    return None


def budgets_in(path: Path) -> tuple[Budget, ...]:
    """The budgets of a file, in its order; UsageError where it holds none, or says what cannot be meant."""
    settings = _settings(path)
    if settings is None:
        raise UsageError(
            f"{path} has no table tool.pinprof.", "Write budgets as [[tool.pinprof.budget]] tables.", _SLUG
        )
    given = settings.get("budget")
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
        raise UsageError(f"{path} has no budgets.", hint, _SLUG)
    for key in settings:
        if key not in TABLES:
            raise UsageError(
                f"{path} has a key {key!r} that pinprof does not know.", "Write budgets as [[budget]] tables.", _SLUG
            )
    lines, shown = _lines(path, len(tables)), _below(path)
    found = [
        budget for table, line in zip(tables, lines, strict=True) for budget in budgets_of(table, Place(shown, line))
    ]
    refuse_alike(found)
    return tuple(found)


def _below(path: Path) -> str:
    """The path from the current directory, where it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _settings(path: Path) -> Mapping[str, object] | None:
    """The configuration's root; None where a file of several tools has nothing for pinprof."""
    with readable(path, slug=_SLUG), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} is too large for budgets.", "Give the file that holds them with --budget.", _SLUG)
    try:
        document: Mapping[str, object] = tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", "Fix it there.", _SLUG) from error
    tools = document.get("tool")
    own = tools.get("pinprof") if isinstance(tools, Mapping) else None
    if isinstance(own, Mapping):
        return own
    return None if path.name == SHARED else document


def _lines(path: Path, count: int) -> list[int]:
    """The line of every table with budgets; 0 for all where they are written in another way."""
    text = path.read_text("utf-8-sig", "replace")
    lines = [text.count("\n", 0, match.start()) + 1 for match in _HEADER.finditer(text)]
    return lines if len(lines) == count else [0] * count
