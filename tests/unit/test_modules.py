"""Every module says in its first sentence what lives there; pages of the site are made of these, and of C layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.layout_list import FILES
from tools.layout_list import page as layouts
from tools.module_list import PACKAGE, ROOT, first_sentence, page

MOST_AT_THE_ROOT = 10
LONGEST = 160


@pytest.mark.slow
def test_the_list_has_every_module_with_its_sentence() -> None:
    listed = page()
    assert listed.count("\n| `") == len([path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"])
    assert f"| `recording.py` | {first_sentence(PACKAGE / 'recording.py')} |" in listed


def test_the_layouts_have_header_record_and_kinds_of_every_file() -> None:
    shared, nvtx, calls, gpu = layouts().split("\n## ")[1 : 1 + len(FILES)]
    assert "struct own_header {" in shared
    for section, header in ((nvtx, False), (calls, True), (gpu, True)):
        assert section.count("struct header {") == header, "NVTX's is the shared one alone"
        assert section.count("struct record {") == 1
        assert section.count("enum kind {") == 1


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_begins_with_a_sentence_about_itself(path: Path) -> None:
    sentence = first_sentence(path)
    assert sentence.endswith((".", "?")), "a whole sentence"
    assert len(sentence.split()) > 2
    assert len(sentence) <= LONGEST, "one line"


def test_the_root_has_what_people_import_and_little_else() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_THE_ROOT


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('"""Reads it. Then more."""\n', "Reads it."),
        ('"""Reads perf.data\nof any machine.\n\nMore."""\n', "Reads perf.data of any machine."),
        ("import os\n", ""),
    ],
)
def test_the_first_sentence_ends_at_its_full_stop(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "module.py").write_text(text, "utf-8")
    assert first_sentence(tmp_path / "module.py") == sentence
