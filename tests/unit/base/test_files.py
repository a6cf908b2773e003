"""Files are made, never found: what lies at their place before, a link above all, is neither followed nor filled."""

from __future__ import annotations

import ast
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.base import files
from pinprof.report.export.streams import text_output
from tests.support.situation import SITUATION
from tests.support.sources import calls

ROOT = Path(__file__).parents[3]

MAKERS = {"write_text", "write_bytes", "copyfile", "mkstemp", "mkdtemp", "TemporaryDirectory", "TemporaryFile"}
ELSEWHERE = {
    "base/files.py",
    "machine/libraries.py",  # a build in the cache, which its owner alone can write
    "machine/nsys.py",  # a temporary file without a name
    "cli/bench.py",  # asks whether a folder can be written to, with a new file
    "fix/inserted/shared_arrays.py",  # is written into other people's programs, and has nothing of pinprof there
    "collect/native/tracefs.py",  # the kernel's own files
    "doctor/rehearsal.py",  # the same, with a file without a name
    "fleet/mapping.py",  # a copy from an object store, in a folder of its own
    "fleet/store.py",  # its lock, which follows no link
}


def writes(node: ast.Call) -> bool:
    """Whether a call makes a file, or opens one for writing."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in MAKERS:
        return True
    if name != "open":
        return False
    words = [part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.Attribute)]
    modes = [part.value for part in words if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    made = any(isinstance(part, ast.Attribute) and part.attr == "O_CREAT" for part in words)
    return made or any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)


@pytest.mark.slow
def test_files_are_made_in_one_place() -> None:
    found = set()
    for path in (ROOT / "pinprof").rglob("*.py"):
        if any(map(writes, calls(path))):
            found.add(str(path.relative_to(ROOT / "pinprof")))
    # gzip packs into a file that was made before; a named stream is not made at all.
    assert found - ELSEWHERE <= {"read/perf/script_text.py"}


@pytest.mark.parametrize("there", ["file", "link", "dangling", "fifo"])
def test_a_new_file_is_new(there: str, tmp_path: Path) -> None:
    place, victim = tmp_path / "place", tmp_path / "victim"
    victim.write_text("precious")
    if there == "file":
        place.write_text("older")
    elif there == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to(victim if there == "link" else tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        files.create(place)
    if there in ("link", "dangling"):
        with pytest.raises(OSError, match="symbolic links"):
            files.append(place)
    if there == "fifo":
        with pytest.raises(OSError, match=r"no regular file|No such device"):
            files.append(place)
    files.written(place, "new")
    assert place.read_text() == "new"
    assert not place.is_symlink()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert victim.read_text() == "precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["place", "victim"]


def test_what_fails_leaves_the_older_file_and_no_half(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("older")

    def fail() -> None:
        with files.replacing(place) as file:
            file.write(b"half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert place.read_text() == "older"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("name", ["page.html", "page.html.partial"])
def test_an_output_follows_no_link(name: str, tmp_path: Path) -> None:
    victim, page = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with text_output(page) as stream:
        stream.write("page")
    assert victim.read_text() == "precious"
    assert page.read_text() == "page"


def test_a_pipe_that_the_user_names_is_written_to_and_stays(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with text_output(fifo) as stream:
            stream.write("through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert fifo.is_fifo()


HOLDS = """
import sys
from pinprof.base import files
with files.temporary_folder(sys.argv[1]) as folder:
    (folder / "content").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_temporary_folders_of_killed_runs_go_with_the_next_one(tmp_path: Path) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    folders = [Path(run.stdout.readline().strip()) for run in runs if run.stdout]
    users_own = tmp_path / "pinprof-results"
    users_own.mkdir()
    (tmp_path / "pinprof-link").symlink_to(users_own)
    try:
        runs[0].send_signal(signal.SIGKILL)
        runs[0].wait()
        assert folders[0].is_dir()
        with files.temporary_folder(str(tmp_path)) as folder:
            assert not folders[0].exists(), "its run is dead"
            assert (folders[1] / "content").exists(), "its run is alive"
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not folder.exists()
        assert users_own.is_dir()
    finally:
        for run in runs:
            run.communicate()
    assert not folders[1].exists()


@pytest.mark.slow
def test_a_temporary_folder_of_a_run_that_may_not_lock_is_not_taken_for_one_that_was_left_behind(
    tmp_path: Path,
) -> None:
    run = subprocess.Popen(
        [*SITUATION, "refuse=EPERM:flock", "--", sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert run.stdout is not None
        told = run.stdout.readline().strip()
        if not told:
            pytest.skip("no seccomp filter can be made here")
        with files.temporary_folder(str(tmp_path)):
            assert (Path(told) / "content").exists()
    finally:
        run.communicate()
    assert not Path(told).exists()
