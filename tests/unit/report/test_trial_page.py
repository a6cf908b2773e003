"""The page of a trial: places of ratios on the scale, colours, what was not measured, hostile names."""

from __future__ import annotations

import pytest

from pinprof.report.page import html
from pinprof.report.trial.drawn import Ratios
from pinprof.report.trial.sections import FORMS
from pinprof.trial.result import Ratio, TrialSide
from tests.support.trials import cure_result, left_out, no_difference, trial_result


def test_half_and_twice_as_much_stand_equally_far_from_no_difference() -> None:
    scale = Ratios([Ratio(0.5, 0.5, 0.5), Ratio(2, 2, 2)])
    half, twice = (scale.drawn(Ratio(*[ratio] * 3)).middle for ratio in (0.5, 2.0))
    assert scale.one - half == pytest.approx(twice - scale.one)
    assert ("1", scale.one) == next((label, place) for place, label in scale.ticks if label == "1")


def test_only_a_significant_cure_has_a_colour_and_off_predictions_are_marked() -> None:
    result = trial_result(cure_result(), no_difference())
    assert html.render(FORMS.of(result)).count("found way-less") == 1
    assert html.render(FORMS.of(result)).count(">off<") == 1
    assert "no difference above" in html.render(FORMS.of(trial_result(no_difference())))
    assert "way-less" not in html.render(FORMS.of(trial_result(no_difference()))).split("<main")[1]


def test_every_run_is_a_dot_and_what_failed_says_why() -> None:
    side = TrialSide(1e9, 0.9e9, 1.1e9, 0, (0.9e9, 1e9, 1.1e9))
    text = html.render(
        FORMS.of(trial_result(cure_result(side=side), left_out("bad", "It ended by SIGSEGV.", "failed")))
    )
    assert text.count('class="run"') == 3
    assert "It ended by SIGSEGV." in text


def test_nothing_measured_is_a_page_too() -> None:
    text = html.render(FORMS.of(trial_result(left_out("one", "It is set already."))))
    assert "No cure could be measured" in text
    assert 'id="runs"' not in text


def test_hostile_names_are_text() -> None:
    bad = "</script><img src=x onerror=alert(1)>\x1b[31m"
    text = html.render(
        FORMS.of(trial_result(cure_result(title=bad, permanent=bad), command=("python", bad), notes=(bad,)))
    )
    assert "<img" not in text
    assert "\x1b" not in text
