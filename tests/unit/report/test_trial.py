"""A trial's result in every form."""

from __future__ import annotations

import io
import json
import re

import pytest

from pinprof.cli import trial as command
from pinprof.report.trial import words
from pinprof.report.trial.sections import FORMS
from pinprof.trial.result import Ratio, TrialResult
from tests.support.trials import cure_result, left_out, no_difference, trial_result

WHOLE = trial_result(
    no_difference(),
    left_out("glibc-keep-memory", "MALLOC_TOP_PAD_ is already set to 1."),
    left_out("torch-exact-pins", "The program exits with 3: no.", "failed"),
    cure_result(),
)


def written(form: str, result: TrialResult = WHOLE) -> str:
    stream = io.StringIO()
    FORMS.of(result).write(form, stream)
    return stream.getvalue()


def test_the_command_offers_every_form() -> None:
    assert set(command.FORMATS) == set(FORMS.names)


def test_the_headline_is_the_best_cure_with_its_figures() -> None:
    expected = "Huge pages for malloc: wall time goes from 2 s to 1 s, 2× less (1.92 to 2.08)."
    assert words.headline(WHOLE) == expected


@pytest.mark.parametrize(
    ("result", "headline"),
    [
        (trial_result(), "There is nothing to try"),
        (trial_result(no_difference()), "No cure saves anything: no difference above 1 %."),
        (trial_result(left_out("a", "No.")), "No cure could be measured."),
        (
            trial_result(cure_result(ratio=Ratio(1.2, 1.3, 1.4))),
            "No cure saves anything; 1 cure makes it larger.",
        ),
    ],
)
def test_the_headline_says_what_was_not_found(result: TrialResult, headline: str) -> None:
    assert words.headline(result).startswith(headline)


def test_a_prediction_that_the_measurement_excludes_is_off() -> None:
    assert not cure_result().off
    assert cure_result(predicted_ratio=Ratio(0.9, 0.95, 0.99)).off
    assert words.prediction(no_difference()) == "−30 % (−40 to −20), off"
    assert words.prediction(left_out("a", "No.")) == "−50 % (−55 to −45)"


def test_cures_that_save_come_first_and_failed_ones_last_but_one() -> None:
    assert [cure.state for cure in WHOLE.cures] == ["measured", "measured", "failed", "left-out"]
    assert WHOLE.cures[0].significant


def test_the_json_has_the_documented_keys() -> None:
    found = json.loads(written("json"))
    assert found["headline"] == words.headline(WHOLE)
    first, second = found["cures"][:2]
    assert first["id"] == "glibc-huge-pages"
    assert first["ratio"] == {"low": 0.48, "median": 0.5, "high": 0.52}
    assert first["significant"] is True
    assert first["predicted_ratio"] == {"low": 0.45, "median": 0.5, "high": 0.55}
    assert (first["off"], second["off"]) == (False, True)
    assert second["no_larger_than"] == pytest.approx(0.01)
    assert found["as_is"]["median"] == 2e9


def test_text_and_markdown_have_every_cure_with_its_reason() -> None:
    for form in ("text", "markdown"):
        shown = written(form)
        for cure in WHOLE.cures:
            assert cure.id in shown
        assert "is already set to 1" in shown
        assert "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1" in shown
        assert "−50 % (−52 to −48)" in shown
        assert "off" in shown


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_what_a_program_says_reaches_nobody_as_a_control_sequence(form: str) -> None:
    hostile = "\x1b[2J<b>\u202e](x)"
    result = trial_result(left_out("a", hostile, "failed"), command=("sh", hostile), notes=(hostile,))
    shown = written(form, result)
    assert not re.search("[\x1b\u202e]", shown)
    assert form == "text" or "<b>" not in re.sub("`[^`]*`", "", shown)


def test_a_file_is_written_whole(tmp_path: object) -> None:
    from pathlib import Path

    target = Path(str(tmp_path)) / "trial.json"
    FORMS.of(WHOLE).save("json", target)
    assert json.loads(target.read_text())["schema"] == 1
