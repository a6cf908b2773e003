"""Every error a user can meet has an entry in docs/messages.md, and no entry is left over."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pinprof.base.errors
from tests.support.sources import calls

ROOT = Path(__file__).parents[2]
ERRORS = {name for name, kind in vars(pinprof.base.errors).items() if isinstance(kind, type)} - {"CudaError"} | {
    "unreadable"
}
"""What makes an error of pinprof."""


def slugs_in(path: Path) -> set[str]:
    """The docs slug of every error constructed in a module: the keyword `slug`, or the last argument."""
    found = {"cuda-error"} if path.name == "errors.py" else set()
    for node in calls(path):
        if not (isinstance(node.func, ast.Name) and node.func.id in ERRORS):
            continue
        given = next((keyword.value for keyword in node.keywords if keyword.arg == "slug"), None)
        last = given or (node.args[-1] if node.args else None)
        if isinstance(last, ast.Constant) and isinstance(last.value, str) and re.fullmatch(r"[a-z0-9-]+", last.value):
            found.add(last.value)
    return found


def test_every_error_is_explained_and_every_explanation_is_of_an_error() -> None:
    sources = [path for folder in ("pinprof", "workloads") for path in (ROOT / folder).rglob("*.py")]
    raised = {slug for path in sources for slug in slugs_in(path)}
    explained = set(re.findall(r"^## ([a-z0-9-]+)$", (ROOT / "docs" / "messages.md").read_text("utf-8"), re.MULTILINE))
    assert raised == explained
