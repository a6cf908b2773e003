"""Whole runs of `pinprof fix` on small programs that print what they measure; only the recording is a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.analyze.sites import Site, Sites
from pinprof.base.errors import TrialError, UsageError
from pinprof.cli.fix import FORMATS
from pinprof.fix import session
from pinprof.fix.result import FixResult
from pinprof.fix.tree import WorkTree
from pinprof.report.fix.sections import FORMS, headline
from pinprof.trial import prediction, recorded
from pinprof.trial.measure import parse
from pinprof.trial.processes import EndedRun
from pinprof.trial.recorded import RecordedRun
from tests.support.command import pinprof
from tests.support.opportunities import opportunity
from tests.support.schemas import problems, written
from tests.support.small_capture import small_capture

pytestmark = pytest.mark.slow
PROGRAM = """\
import sys
from pathlib import Path

import numpy as np

a = np.ones(9)
changed = "(pinprof" " fix)" in Path(__file__).read_text()
b = (a * 2).view()  # at fault
print("seconds", {seconds}, {result})
"""
SAVES = {"seconds": "1 if changed else 2", "result": "b.sum()"}
LINE = 8


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Temporary folders are made here."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """(file, line, cure) of what the recording speaks for."""
    sites: list[tuple[str, int, str]] = [("train.py", LINE, "reuse-memory")]
    base = opportunity()

    def candidates(_: object) -> list[object]:
        return [
            replace(base, site=Site("", file, line, ""), cure=replace(base.cure, id=cure)) for file, line, cure in sites
        ]

    recording = RecordedRun(EndedRun(0, 0, 1, 1, b"", ""), small_capture([(0, 5, 0)], [("f", 1)], [(-1, 0)]))
    monkeypatch.setattr(recorded, "record", lambda *_, **__: recording)
    monkeypatch.setattr(recorded, "explained", lambda one: type("Run", (), {"capture": one.capture}))
    monkeypatch.setattr(prediction, "candidates", candidates)
    monkeypatch.setattr(prediction, "predicted", lambda *_: None)
    monkeypatch.setattr(Sites, "path", lambda _self, file: file)
    return sites


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git work tree with a program."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM.format(**SAVES))
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "ignored").write_text("data")
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


def fixed(folder: Path, say: Callable[[str], None] = lambda _: None, **asked: object) -> FixResult:
    request = session.FixRequest(
        (sys.executable, "train.py"), folder, measure=parse("regex:seconds ([0-9.]+)"), **asked  # type: ignore[arg-type]
    )  # fmt: skip
    return session.fix(request, os.environ, say)


def write(folder: Path, **parts: str) -> None:
    (folder / "train.py").write_text(PROGRAM.format(**(SAVES | parts)))
    commit(folder)


@pytest.mark.usefixtures("found")
def test_a_change_that_saves_is_kept_and_the_tree_stays(project: Path, places: Path) -> None:
    result = fixed(project)
    (change,) = result.changes
    assert (change.verdict, change.transformation, change.place) == ("keep", "kept-memory", "train.py")
    assert change.measured.ratio is not None
    assert change.measured.ratio.median == pytest.approx(0.5)
    assert not change.applied
    assert git(project, "status", "--porcelain") == ""
    assert not list(places.iterdir())
    assert "needs 2× less (2 to 2) of the printed number" in headline(result)
    patched = subprocess.run(["git", "apply", "-"], cwd=project, input=result.patch, text=True, check=True)
    assert patched.returncode == 0
    assert "\n_keep_memory()\n" in (project / "train.py").read_text()


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ({"seconds": "2"}, "no gain"),
        ({"result": "changed"}, "changes results"),
        ({"result": "1 / (not changed)"}, "does not run"),
    ],
)
def test_what_is_not_proven_is_not_kept(project: Path, parts: dict[str, str], verdict: str) -> None:
    write(project, **parts)
    before = (project / "train.py").read_text()
    result = fixed(project, apply=True)
    assert [one.verdict for one in result.changes] == [verdict]
    assert result.patch == ""
    assert (project / "train.py").read_text() == before


@pytest.mark.usefixtures("found")
def test_apply_writes_what_is_kept_with_its_mode(project: Path) -> None:
    (project / "train.py").chmod(0o755)
    commit(project)
    assert fixed(project, apply=True).changes[0].applied
    assert "\n_keep_memory()\n" in (project / "train.py").read_text()
    assert (project / "train.py").stat().st_mode & 0o777 == 0o755
    assert git(project, "status", "--porcelain") == " M train.py\n"


@pytest.mark.usefixtures("found")
def test_apply_leaves_a_dirty_file(project: Path) -> None:
    text = (project / "train.py").read_text() + "# mine\n"
    (project / "train.py").write_text(text)
    result = fixed(project, apply=True)
    assert result.changes[0].verdict == "keep"
    assert not result.changes[0].applied
    assert result.notes == ("Not applied: train.py has changes that git does not have: commit them first.",)
    assert (project / "train.py").read_text() == text


@pytest.mark.usefixtures("found")
def test_a_test_decides_too(project: Path) -> None:
    words = (sys.executable, "-c", "import sys; sys.exit('_keep_memory' in open('train.py').read())")
    result = fixed(project, test=words)
    assert not result.changes
    assert result.left_alone[0].reason == "With the change, the test exits with 1."
    with pytest.raises(TrialError, match="As it is, the test exits with 3"):
        fixed(project, test=(sys.executable, "-c", "raise SystemExit(3)"))


def test_every_opportunity_without_a_change_has_its_reason(project: Path, found: list[tuple[str, int, str]]) -> None:
    found[:] = [
        ("train.py", 1, "protect-less"),
        ("train.py", LINE, "read-file"),
        ("", 0, "spawn"),
        ("x.py", 1, "spawn"),
    ]
    result = fixed(project)
    assert [one.reason for one in result.left_alone] == [
        "No transformation carries out protect-less.",
        "No numpy.memmap in mode 'c' is certainly what this line writes to.",
        "The line is not in a source of Python, C or C++.",
        "The file is not in the work tree.",
    ]
    assert headline(result) == "No change is proven to save: 0 changes measured, 4 left alone."


MAPPED = """\
np.arange(99, dtype="u1").tofile("mapped")
c = np.memmap("mapped", "u1", "c")
c += 1
"""


def test_two_changes_are_measured_together(project: Path, found: list[tuple[str, int, str]]) -> None:
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(f"{text}{MAPPED}")
    commit(project)
    found.append(("train.py", LINE + 4, "read-file"))
    result = fixed(project)
    assert [one.verdict for one in result.changes] == ["keep", "keep"]
    assert result.patch.count("def _keep_memory(") == 1
    assert '+c = np.memmap("mapped", "u1", "c").copy("K")' in result.patch


def test_of_two_changes_for_the_same_line_the_better_one_is_kept(
    project: Path, found: list[tuple[str, int, str]]
) -> None:
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(f"{text}{MAPPED}")
    commit(project)
    found[:] = [("train.py", LINE + 4, "read-file"), ("train.py", LINE + 4, "huge-pages")]
    result = fixed(project)
    assert [one.verdict for one in result.changes] == ["keep", "alternative"]


NATIVE = """\
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    void *one = malloc(64 << 20);
    printf("seconds %d\\n", mallinfo2().hblks ? 2 : 1); // whether it is a mapping of its own
    free(one);
    return 0;
}
"""


def test_a_program_in_c_is_built_in_each_copy(project: Path, found: list[tuple[str, int, str]]) -> None:
    (project / "p.c").write_text(NATIVE)
    found[:] = [("p.c", 7, "reuse-memory"), ("p.c", 7, "share-memory"), ("p.cc", 7, "reuse-memory")]
    commit(project)
    asked = session.FixRequest(("./p",), project, measure=parse("regex:seconds ([0-9.]+)"))
    build = ("gcc", "-o", "p", "p.c")
    result = session.fix(replace(asked, build=build), os.environ, lambda _: None)
    assert [(one.verdict, one.place) for one in result.changes] == [("keep", "p.c")]
    assert [one.reason for one in result.left_alone] == [
        "No transformation carries out share-memory in C or C++.",
        "The file is not in the work tree.",
    ]
    assert "+    mallopt(M_MMAP_MAX, 0);" in result.patch
    assert git(project, "status", "--porcelain") == ""
    with pytest.raises(TrialError, match="As it is, the build exits with"):
        session.fix(replace(asked, build=("false",)), os.environ, lambda _: None)
    (project / "p").write_bytes(b"#!/bin/sh\necho seconds 1\n")
    (project / "p").chmod(0o755)
    commit(project)
    said = session.fix(asked, os.environ, lambda _: None).left_alone[0].reason
    assert said == "The line is in C or C++: --build CMD gives the command that compiles it."


@pytest.mark.usefixtures("found")
def test_the_cure_without_a_change_of_code_is_measured_beside_it(project: Path) -> None:
    result = fixed(project)
    (change,) = result.changes
    assert change.without_code is not None
    assert change.without_code.id == "glibc-keep-memory"
    assert change.without_code.ratio is not None
    assert change.without_code.ratio.median == pytest.approx(1)  # the program looks at its own text
    FORMS.of(result).save("markdown", project / "answer.md")
    said = (project / "answer.md").read_text()
    assert "Without a change of code (pinprof try --cure glibc-keep-memory)" in said
    assert "the two differ" in said


def test_a_line_of_a_library_is_answered_in_the_main_program(project: Path, found: list[tuple[str, int, str]]) -> None:
    found[:] = [("/usr/lib/libx.so", 0, "huge-pages")]
    assert [one.place for one in fixed(project).changes] == ["train.py"]
    (project / "package").mkdir()
    (project / "package" / "__main__.py").write_text((project / "train.py").read_text())
    commit(project)
    request = session.FixRequest((sys.executable, "-m", "package"), project, measure=parse("regex:seconds ([0-9.]+)"))
    assert [one.place for one in session.fix(request, os.environ, lambda _: None).changes] == ["package/__main__.py"]


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("stage", ["Copying", "Running the program", "Recording", "Finding", "Warming up", "Round 1"])
def test_an_interruption_leaves_nothing(project: Path, places: Path, stage: str) -> None:
    def say(text: str) -> None:
        if text.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fixed(project, say, apply=True)
    assert not list(places.iterdir())
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "worktree", "list").count("\n") == 1


@pytest.mark.usefixtures("found")
def test_an_interruption_during_a_run_ends_the_program(project: Path, places: Path, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    ends = f"[Path({str(note)!r}).write_text(str(os.getpid())), os.kill(os.getppid(), 2), time.sleep(600)]"
    code = f"{ends} if changed else 2"
    write(project, seconds=code)
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("import sys\n", "import os, sys, time\n"))
    commit(project)
    with pytest.raises(KeyboardInterrupt):
        fixed(project, apply=True)
    assert not Path(f"/proc/{note.read_text()}").exists()
    assert not list(places.iterdir())
    assert git(project, "status", "--porcelain") == ""


def test_a_copy_has_what_git_knows_and_what_is_named(project: Path, tmp_path: Path) -> None:
    below = project / "below"
    below.mkdir()
    (below / "new.py").write_text("")
    tree = WorkTree(below)
    assert tree.copy(tmp_path / "one") == tmp_path / "one" / "below"
    assert sorted(path.name for path in (tmp_path / "one").rglob("*") if path.is_file()) == [
        ".gitignore", "new.py", "train.py",
    ]  # fmt: skip
    words = tree.command(tmp_path / "one" / "below", ("python3", str(project / "train.py"), str(project / "ignored")))
    assert words[4:] == ("python3", str(tmp_path / "one" / "train.py"), str(project / "ignored"))
    WorkTree(below, (project / "ignored",)).copy(tmp_path / "two")
    assert (tmp_path / "two" / "ignored").read_text() == "data"
    with pytest.raises(UsageError, match="is not in"):
        WorkTree(below, (tmp_path / "one",))


@pytest.mark.usefixtures("found")
def test_the_answer_fits_its_schema_and_the_command_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = fixed(project)
    assert problems("fix", written(FORMS, result)) == []
    assert set(FORMS.names) == set(FORMATS)
    asked: list[session.FixRequest] = []

    def fix(request: session.FixRequest, *_: object) -> FixResult:
        asked.append(request)
        return result

    monkeypatch.setattr(session, "fix", fix)
    monkeypatch.chdir(project)
    done = pinprof(
        "fix",
        "--apply",
        "--test",
        "pytest -x",
        "--same-output",
        "--build",
        "make x",
        "--patch",
        "x.patch",
        "--",
        "a",
        "-b",
    )
    assert done.returncode == 0, done.stderr
    assert asked[0].command == ("a", "-b")
    assert asked[0].build == ("make", "x")
    assert (asked[0].test, asked[0].apply, asked[0].same_output) == (("pytest", "-x"), True, True)
    assert (project / "x.patch").read_text() == result.patch
    assert "lines of inserted functions" in done.stdout
    assert pinprof("fix").returncode == 2
