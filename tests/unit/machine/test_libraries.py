"""The C libraries that a user without built ones gets: compiled whole, or not at all and nothing left behind."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.machine import libraries
from pinprof.machine.libraries import DWARF, LIBRARIES, Library, compiler


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Take the place of the C compiler."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


def test_a_compiler_that_a_signal_ends_leaves_no_temporary_file(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f'echo half >"$TMPDIR/cc1.s"; echo "$TMPDIR" >{tmp_path}/where; kill -INT $$')
    target = tmp_path / "libraries"
    target.mkdir()
    with pytest.raises(subprocess.CalledProcessError):
        DWARF.compile_into(target)
    assert Path((tmp_path / "where").read_text().strip()).parent == target
    assert list(temporary.iterdir()) == list(target.iterdir()) == []


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_a_library_is_all_that_compiling_leaves(tmp_path: Path, temporary: Path) -> None:
    source = tmp_path / "answer.c"
    source.write_text("int answer(void) { return 42; }\n")
    target = tmp_path / "libraries"
    target.mkdir()
    library = replace(DWARF, source=source)
    assert library.compile_into(target) == target / library.name
    assert [path.name for path in target.iterdir()] == [library.name]
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.title)
def test_a_library_compiles_without_warnings(library: Library) -> None:
    flags = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    headers = Path(libraries.__file__).parent
    sources = map(str, (library.source, *library.parts))
    done = subprocess.run([*compiler(), *flags, f"-I{headers}", *sources], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


LINKED_BY_ZIG = {"--no-as-needed", "-ldl", "-z", "nodelete", "relro", "now"}
"""What the linker of a release's wheels takes: zig refuses others, such as -Bsymbolic-functions."""


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.title)
def test_a_release_can_link_a_library(library: Library) -> None:
    linked = [option for option in library.link if option.startswith(("-Wl,", "-l"))]
    assert {part for option in linked for part in option.removeprefix("-Wl,").split(",")} <= LINKED_BY_ZIG
