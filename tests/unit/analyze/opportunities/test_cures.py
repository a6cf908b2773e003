"""Every cure of the catalogue can be shown: in a headline, in the documentation, in the words of its framework."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinprof.analyze.opportunities.catalogue import CUPY, CURES, JAX, NATIVE, NUMPY, PYTHON, PYTORCH, cure

DOCUMENTED = Path(__file__).parents[4] / "docs" / "opportunities.md"
FRAMEWORKS = (NATIVE, PYTORCH, NUMPY, CUPY, JAX, PYTHON)


def documented() -> list[str]:
    table = DOCUMENTED.read_text("utf-8").partition("\n## What pinprof looks for\n")[2].partition("\n## ")[0]
    return [
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)
    ]


def test_every_cure_is_documented_once_and_has_words_for_the_headline() -> None:
    assert sorted(documented()) == sorted(CURES)
    assert all(entry.phrase for entry in CURES.values())


@pytest.mark.parametrize("name", CURES)
def test_a_cure_speaks_the_language_of_the_program(name: str) -> None:
    assert set(CURES[name].code) | set(CURES[name].environment) <= set(FRAMEWORKS)
    for framework in FRAMEWORKS:
        found = cure(name, framework)
        assert found.id == name
        assert found.text.endswith(".")
        if framework != NATIVE:
            assert found.code != CURES[name].code.get(NATIVE, "C++")
            assert found.code in ("", *(CURES[name].code.get(one) for one in (framework, PYTHON)))


@pytest.mark.parametrize("name", CURES)
def test_code_of_python_compiles_and_settings_are_settings(name: str) -> None:
    for framework, code in CURES[name].code.items():
        if framework != NATIVE:
            compile(code, f"{name} for {framework}", "exec")
    for setting in CURES[name].environment.values():
        assert all(re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S+", part) for part in setting.split(" "))
