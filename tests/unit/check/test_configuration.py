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
    assert settings.nearest(inner) == settings.Nearest(tmp_path / "pyproject.toml")
    (inner / "pinprof.toml").write_text(OWN)
    assert settings.nearest(inner) == settings.Nearest(inner / "pinprof.toml")


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder three below one with settings, with a home that is elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "pinprof.toml").write_text(OWN)
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    return folder


def test_nothing_above_the_repository_counts(nested: Path, tmp_path: Path) -> None:
    assert settings.nearest(nested).path == tmp_path / "pinprof.toml"
    (nested.parent / ".git").write_text("gitdir: elsewhere\n")
    assert settings.nearest(nested).path is None
    (nested.parent / "pinprof.toml").write_text(OWN)
    assert settings.nearest(nested).path == nested.parent / "pinprof.toml"


def test_nothing_above_the_home_counts(nested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(nested.parent))
    assert settings.nearest(nested).path is None
    assert settings.nearest(nested.parent.parent).path == tmp_path / "pinprof.toml"


def test_files_that_others_can_write_are_passed_by_and_named(nested: Path, tmp_path: Path) -> None:
    near, shared = nested / "pinprof.toml", nested.parent / "pyproject.toml"
    for path, text in ((near, OWN), (shared, "[tool.pinprof\n"), (nested / "pyproject.toml", "[tool.other]\n")):
        path.write_text(text)
        path.chmod(0o646)
    found = settings.nearest(nested)
    assert found.path == tmp_path / "pinprof.toml"
    assert found.left_out == (
        f"{near} is left out: other users can write it.",
        f"{shared} is left out: other users can write it.",
    )


def test_junk_that_does_not_name_pinprof_is_no_file_of_ours(nested: Path, tmp_path: Path) -> None:
    (nested / "pyproject.toml").write_text("[[[[")
    (nested.parent / "pinprof.toml").mkdir()
    assert settings.nearest(nested) == settings.Nearest(tmp_path / "pinprof.toml")


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
