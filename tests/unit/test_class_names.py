"""The name of a public class says which one it is: it has one home, or a word that tells it apart."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = {"Stream": "the recorded file of a collector and the GPU's queue of a scenario; both are what authors import"}
"""Name → why several public classes have it; at most five."""


def homes() -> dict[str, list[str]]:
    """Public class → the modules that define one of this name."""
    found = defaultdict(list)
    for path in sorted((ROOT / "pinprof").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.slow
def test_the_name_of_a_public_class_has_one_home() -> None:
    several = {name: places for name, places in homes().items() if len(places) > 1 and name not in SHARED}
    assert several == {}, "Add a qualifying word to all but one."


@pytest.mark.slow
def test_few_names_are_shared_and_each_for_a_reason() -> None:
    assert len(SHARED) <= 5
    assert all(SHARED.values())
    assert {name for name, places in homes().items() if len(places) > 1} == {*SHARED}
