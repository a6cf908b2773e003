"""What commands do alike with what they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.base.errors import UsageError
from pinprof.cli import diff, forms, report, trial


@pytest.mark.parametrize(
    ("output", "form"),
    [
        (None, "text"),
        ("-", "text"),
        ("a.html", "html"),
        ("a.HTM", "html"),
        ("a.json", "json"),
        ("a.md", "markdown"),
        ("a.folded.gz", "folded"),
        ("a.txt", "text"),
        ("html", "text"),
        ("tmp.Xb3kQ9", "text"),
    ],
)
def test_the_ending_of_the_output_names_its_form(output: str | None, form: str) -> None:
    path = None if output is None else Path(output)
    assert forms.form_of(path, diff.FORMATS) == form


def test_the_longest_ending_counts() -> None:
    assert forms.form_of(Path("a.trace.json.gz"), report.FORMATS, "html") == "trace"
    assert forms.form_of(Path("a"), report.FORMATS, "html") == "html"


@pytest.mark.parametrize(("output", "ending"), [("a.pdf", ".pdf"), ("a.folded", ".folded")])
def test_an_ending_of_other_files_is_refused(output: str, ending: str) -> None:
    with pytest.raises(
        UsageError, match=f"{output}: this command writes no {ending} file. End its name in one of .txt"
    ):
        forms.form_of(Path(output), trial.FORMATS)
