"""The answer for programs that change code: short, with the lines of source, and nothing from outside the folder."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pinprof.analyze import Run
from pinprof.analyze.sites import Site
from pinprof.report.export import agent
from tests.support.h200 import own_analysis
from tests.support.opportunities import with_opportunities


def written(analysis: Run) -> str:
    stream = io.StringIO()
    agent.write(analysis, stream)
    return stream.getvalue()


class Named:
    """Places whose files have one path."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def path(self, file: str) -> str:
        return self._path if file else ""


def source(path: Path, line: int) -> list[str]:
    return list(agent._source(Site("step", path.name, line, ""), Named(path)))  # type: ignore[arg-type]


def test_the_answer_names_what_to_change_and_what_to_run() -> None:
    text = written(with_opportunities(own_analysis("alloc-loop-mistake")))
    first, *others = text.splitlines()
    assert first.startswith("answer: ")
    assert any(line.startswith("1. ") and line.endswith("]") for line in others)
    assert {line.partition(":")[0] for line in others} >= {"gain", "site", "cure", "next"}
    assert others[-1] == "next: pinprof report CAPTURE --format json   (everything)"


def test_what_does_not_fit_is_counted() -> None:
    blocks = [[f"{number} " + "word " * 70] for number in range(100)]
    text = agent._fitting(["answer: x"], blocks, ["next: y"])
    assert len(text) <= agent.MOST
    shown = sum(line.endswith(" word ") for line in text.splitlines())
    assert 15 < shown < 25
    assert text.endswith(f"\n\n{100 - shown} more entries are in the JSON.\n\nnext: y\n")


def test_a_place_has_its_lines_of_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("a\nb\nc\nd\n")
    assert source(path, 2) == ["source: train.py", "     1 a", ">    2 b", "     3 c", "     4 d"]
    assert source(path, 9) == []


def test_a_recording_cannot_have_other_files_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(tmp_path / "here")
    assert source(tmp_path / "secret", 1) == source(tmp_path / "here" / "link", 1) == []
