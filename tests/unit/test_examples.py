"""Property tests take the same examples in every run, whatever ran before in their worker."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def examples() -> list[tuple[int, str]]:
    found = []

    @settings(settings.get_profile("same"), max_examples=300)
    @given(st.integers(), st.text())
    def take(number: int, text: str) -> None:
        found.append((number, text))

    take()
    return found


def test_examples_are_not_taken_from_modules_that_happen_to_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not settings.default.derandomize:
        pytest.skip("others are looked for")
    before = examples()
    path = tmp_path / "imported_by_a_neighbour.py"
    path.write_text("".join(f"A{n} = {n + 1}777777; B{n} = 'word {n}'\n" for n in range(100)))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, path.stem, module)
    assert examples() == before
