"""Where a verdict is shown: sources as they were recorded, found below the current directory or told by their names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.check.budgets import BudgetPlace
from pinprof.check.verdicts import BudgetOutcome, JudgedSite
from pinprof.report.check.places import SourcePlaces
from tests.support.checks import checked, verdict


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name in ("train.py", "src/model/step.py", "src/io.py", "tests/io.py", ".venv/lib/hidden.py", "env/lib/only.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (root / "env/pyvenv.cfg").write_text("")
    (tmp_path / "outside.py").write_text("")
    return root


@pytest.mark.parametrize(
    ("file", "path", "inside"),
    [
        ("{root}/src/model/step.py", "src/model/step.py", True),
        ("{root}/src/../train.py", "train.py", True),
        ("src/model/step.py", "src/model/step.py", True),
        ("./train.py", "train.py", True),
        ("step.py", "src/model/step.py", True),
        ("model/step.py", "src/model/step.py", True),
        ("/builds/group/project/src/model/step.py", "src/model/step.py", True),
        # Two files may be meant, and one name of a long path says too little.
        ("io.py", "io.py", False),
        ("/usr/lib/python3/train.py", "train.py", False),
        ("{root}/../outside.py", "outside.py", False),
        ("../outside.py", "outside.py", False),
        ("{root}/gone.py", "gone.py", False),
        ("hidden.py", "hidden.py", False),
        ("only.py", "only.py", False),
        ("..", "unknown", False),
        ("", "unknown", False),
        ("a\0b.py", "ab.py", False),
        ("x" * 5000, "x" * 5000, False),
        ("\ud800.py", "\ud800.py", False),
    ],
)
def test_a_source_is_found_where_it_was_checked_out(file: str, path: str, inside: bool, root: Path) -> None:
    spot = SourcePlaces(root).spot(file.replace("{root}", str(root)), 3)
    assert (spot.path, spot.inside) == (path, inside)


def test_a_linked_checkout_is_the_same_place(root: Path) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    assert SourcePlaces(link).spot(os.path.realpath(link / "train.py"), 1).path == "train.py"


def test_a_verdict_is_shown_at_its_own_line_before_a_library_and_its_budget(root: Path) -> None:
    library, own = JudgedSite("x.py", 1, "", 9, "/usr/x.py"), JudgedSite("step.py", 4, "f", 1)
    assert SourcePlaces(root).of(verdict(sites=(library, own)), checked()).path == "src/model/step.py"
    # The budgets' file is not there.
    assert SourcePlaces(root).of(verdict(sites=(library,)), checked()).path == "x.py"
    (root / "pyproject.toml").write_text("")
    for sites in ((library,), ()):
        shown = SourcePlaces(root).of(verdict(sites=sites), checked())
        assert (shown.path, shown.line, shown.inside) == ("pyproject.toml", 12, True)


def test_a_verdict_without_any_place_is_shown_at_the_capture(root: Path) -> None:
    nowhere = verdict(BudgetOutcome.UNASSESSABLE)
    nowhere = replace(nowhere, budget=replace(nowhere.budget, place=BudgetPlace()))
    assert SourcePlaces(root).of(nowhere, checked()).path == "run-1.pinprof"
