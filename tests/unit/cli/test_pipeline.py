"""What commands do alike with what they write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.cli import diff, pipeline, trial


@pytest.mark.parametrize(
    ("output", "diff_form", "trial_form"),
    [
        (None, "text", "text"),
        ("-", "text", "text"),
        ("a.html", "html", "html"),
        ("a.HTM", "html", "html"),
        ("a.json", "json", "json"),
        ("a.md", "markdown", "markdown"),
        ("a.folded", "folded", "text"),
        ("a.txt", "text", "text"),
        ("html", "text", "text"),
    ],
)
def test_the_ending_of_the_output_names_its_form(output: str | None, diff_form: str, trial_form: str) -> None:
    path = None if output is None else Path(output)
    assert pipeline.form_of(path, diff.FORMATS) == diff_form
    assert pipeline.form_of(path, trial.FORMATS) == trial_form
