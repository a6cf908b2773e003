"""Page faults inside calls: counted by call, shown with it, and named where pins are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze import Run, analyze
from pinprof.analyze.activity.results import CallFaults
from pinprof.report.gather import build
from tests.support.sample_report import text_of
from tests.support.scenes import CREATED, MIB, Traced, ran, recorded


def run(minor: list[int], major: list[int]) -> Run:
    """Of a program that registers memory several times."""
    calls = [Traced("cudaHostRegister", 100 * n, 100 * n + 90, 64 * MIB) for n in range(len(minor))]
    made = recorded(ran(0, 100 * len(minor), CREATED), calls)
    assert made.activity is not None
    faults = {"minor_faults": np.array(minor, np.int32), "major_faults": np.array(major, np.int32)}
    return analyze(replace(made, activity=replace(made.activity, calls=replace(made.activity.calls, **faults))))


def test_faults_are_summed_over_the_calls_of_which_they_are_known() -> None:
    found = run([16384, -1, 100], [0, -1, 2])
    assert found.activity is not None
    (call,) = found.activity.whole.calls
    assert call.faults == CallFaults(calls=2, minor=16484, major=2)
    report = build(found)
    assert report.to_json()["activity"]["calls"][0]["faults"] == {"calls": 2, "minor": 16484, "major": 2}
    assert "16,486 page faults in 2 calls, 2 of them with a wait for a disk" in text_of(report, 200)


def test_calls_of_which_nobody_knows_have_none() -> None:
    found = run([-1], [-1])
    assert found.activity is not None
    assert [call.faults for call in found.activity.whole.calls] == [None]


def test_the_rule_about_pages_made_by_pins_names_the_faults() -> None:
    (rule,) = (one for one in run([16384], [0]).findings if one.rule == "first-touch-in-pin")
    assert rule.severity == "warning"
    assert "cudaHostRegister pins 64 MiB with 16,384 page faults in 1 call." in " ".join(rule.evidence).replace(
        "\ue000", " "
    )
