"""Every cure of the catalogue can be shown: in a headline, in the words of its framework."""

from __future__ import annotations

import pytest

from pinprof.analyze.opportunities.catalogue import CUPY, CURES, JAX, NATIVE, NUMPY, PYTHON, PYTORCH, cure
from pinprof.analyze.opportunities.knobs import words_of

FRAMEWORKS = (NATIVE, PYTORCH, NUMPY, CUPY, JAX, PYTHON)


def test_every_cure_has_words_for_the_headline() -> None:
    assert all(entry.phrase for entry in CURES.values())


@pytest.mark.parametrize("name", CURES)
def test_a_cure_speaks_the_language_of_the_program(name: str) -> None:
    assert set(CURES[name].code) <= {NATIVE, PYTHON}
    for framework in FRAMEWORKS:
        found, words = cure(name, framework), words_of(name, framework)
        assert found.id == name
        assert found.text.endswith(".")
        own = CURES[name].code.get(PYTHON if framework else NATIVE, "")
        assert found.code == (words.code if words and words.code else own)


@pytest.mark.parametrize("name", CURES)
def test_code_of_python_compiles(name: str) -> None:
    compile(CURES[name].code.get(PYTHON, ""), name, "exec")
