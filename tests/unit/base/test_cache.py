"""What is kept for the user is found again, made anew for other sources, and never taken from a folder of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof.base import cache
from pinprof.report.page import bundle, html


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/pinprof"


def never() -> str:
    raise AssertionError("it is kept")


def test_what_was_made_of_the_same_sources_is_kept(place: Path) -> None:
    assert cache.kept("script", b"a", lambda: "of a → ✓") == "of a → ✓"
    assert cache.kept("script", b"a", never) == "of a → ✓"
    assert cache.kept("script", b"b", lambda: "of b") == "of b"
    assert cache.kept("other", b"a", lambda: "another") == "another"
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o702])
def test_a_folder_that_others_can_write_to_is_neither_read_nor_written(place: Path, mode: int) -> None:
    cache.kept("script", b"a", lambda: "mine")
    (kept,) = place.iterdir()
    kept.write_text("theirs")
    place.chmod(mode)
    assert cache.folder() is None
    assert cache.kept("script", b"a", lambda: "mine") == "mine"
    assert html.environment().bytecode_cache is None
    assert [file.read_text() for file in place.iterdir()] == ["theirs"]


def test_without_a_place_everything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache.kept("script", b"a", lambda: "made") == "made"


def test_what_is_damaged_is_made_anew(place: Path) -> None:
    cache.kept("script", b"a", lambda: "whole")
    (kept,) = place.iterdir()
    kept.write_bytes(b"\xff\xfe")
    assert cache.kept("script", b"a", lambda: "whole") == "whole"
    assert cache.kept("script", b"a", never) == "whole"


def test_a_script_from_the_folder_is_what_is_put_together(place: Path) -> None:
    bundle.bundle.cache_clear()
    first = bundle.bundle("collection.js")
    assert [file.name.startswith("collection.js-") for file in place.iterdir()] == [True]
    bundle.bundle.cache_clear()
    assert bundle.bundle("collection.js") == first == bundle.join("collection.js", bundle.asset)
