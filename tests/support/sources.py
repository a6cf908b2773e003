"""The sources, parsed once in each process: several tests look through all of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_KINDS = (ast.Call, ast.Import, ast.ImportFrom)


@cache
def calls_and_imports(path: Path) -> tuple[ast.Call | ast.Import | ast.ImportFrom, ...]:
    """All calls and imports of a module, wherever they are in it."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, _KINDS))


def calls(path: Path) -> list[ast.Call]:
    """All calls of a module."""
    return [node for node in calls_and_imports(path) if isinstance(node, ast.Call)]
