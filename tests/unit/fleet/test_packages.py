"""Without the extra, `pinprof fleet` names the command that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pinprof.fleet import engine
from tests.support.command import pinprof


@pytest.mark.parametrize("missing", ["duckdb", "pyarrow"])
def test_a_missing_package_is_named_with_the_command(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    done = pinprof("fleet", tmp_path, "--store", tmp_path / "store")
    assert done.returncode == 1
    assert f"needs the Python package {missing}" in done.stderr
    assert "pip install 'pinprof[fleet]'" in done.stderr
    assert not (tmp_path / "store").exists()


def test_without_dask_this_process_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr(engine, "map_source", lambda source: source)
    sources = list(range(100))
    assert list(engine.mapped(sources, "", None, "")) == sources  # type: ignore[arg-type,comparison-overlap]


def test_an_empty_folder_and_a_bad_question_are_said_in_words(tmp_path: Path) -> None:
    done = pinprof("fleet", tmp_path, "--store", tmp_path / "store")
    assert done.returncode == 1
    assert "[fleet-empty]" in done.stderr
    done = pinprof("fleet", tmp_path / "gone", "--store", tmp_path / "store")
    assert "[no-capture]" in done.stderr
