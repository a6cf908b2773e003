"""Where budgets are written, and on which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.base import settings
from pinprof.base.errors import UsageError
from pinprof.check import configuration

OWN = """# budgets
[[budget]]
pairs = 0

  [[ budget ]]
  range = "load"
  pinned-bytes = "1 GiB"
"""


def test_the_nearest_file_is_found_and_one_without_a_table_of_pinprofs_passed_by(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pinprof]\n[[tool.pinprof.budget]]\npairs = 0\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.ruff]\nline-length = 120\n")
    assert settings.nearest(inner) == tmp_path / "pyproject.toml"
    (inner / "pinprof.toml").write_text(OWN)
    assert settings.nearest(inner) == inner / "pinprof.toml"


def test_budgets_know_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pinprof.toml"
    path.write_text(OWN)
    assert [(one.name, str(one.place)) for one in configuration.budgets_in(path)] == [
        ("pairs", "pinprof.toml:2"),
        ("pinned-bytes in load", "pinprof.toml:5"),
    ]
    path.write_text('budget = [{pairs = 0}, {name = "x", calls = 1}]\n')
    assert [str(one.place) for one in configuration.budgets_in(path)] == ["pinprof.toml", "pinprof.toml"]


def test_tables_may_have_names(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.pinprof.budget.pins]\npairs = 0\n[tool.pinprof.pytest]\nx = 1\n")
    (one,) = configuration.budgets_in(path)
    assert (one.name, one.place.line) == ("pins", 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no budgets"),
        ("pairs = 0", "'pairs' belongs in a"),
        ("budget = 3", "has no budgets"),
        ("budget = [1]", "has no budgets"),
        ("[[budget]]\npairs = 0\n[other]\n", "'other'"),
        ("[[budget]]\npairs = 0\n[[budget]]\npairs = 1\n", "2 budgets are called 'pairs'"),
        ("[[budget]\n", "not valid TOML"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("x = " + "[" * 5000, "not valid TOML"),
        ("#" * (1 << 21), "too large"),
        ("\xff", "not valid TOML"),
    ],
)
def test_what_no_file_of_budgets_says_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "pinprof.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        configuration.budgets_in(path)
    assert told in str(caught.value)


def test_a_shared_file_without_budgets_says_how_to_write_them(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'x'\n")
    with pytest.raises(UsageError, match=r"tool\.pinprof"):
        configuration.budgets_in(path)
