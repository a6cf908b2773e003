"""The stories run: their commands give the quoted output, and figures in their text are among those or measured."""

from __future__ import annotations

import json
import re
import shlex
import tarfile
from pathlib import Path

import pytest

from tests.cases.recorded import CASES
from tests.support.command import pinprof

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "data" / "cases"
STORIES = {"story-pytorch": "dataloader_fresh", "story-cuda": "fresh_h2d", "story-service": "pool_start"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"(?<![\w.])\d[\d.,]*(?= (?:(?:ms|s|GiB|MiB|KiB|batches|times)\b|%))")
PROGRAM = {"story-pytorch": ("80", "32"), "story-cuda": ("50", "64"), "story-service": ("512", "4")}
"""Figures of the programs themselves: how many batches and steps, of which size; 512 pages of 4 KiB are a huge one."""


def text(story: str) -> str:
    return (ROOT / "docs" / f"{story}.md").read_text("utf-8")


def commands(story: str) -> list[tuple[list[str], str]]:
    """(arguments after `pinprof`, quoted output) of every command of a story."""
    found = []
    for language, block in BLOCK.findall(text(story)):
        if language == "console":
            for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, output = one.partition("\n")
                name, *arguments = shlex.split(line)
                assert name == "pinprof"
                found.append((arguments, output))
    return found


def pattern(quoted: str) -> str:
    """What output must match: `…` alone on a line stands for any lines, and within one for any text."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in quoted.splitlines()
    ]
    return "".join(lines)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the capture of a story, on a machine without stored rates."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    name = STORIES[request.getfixturevalue("story")]
    with tarfile.open(CAPTURES / f"{name}.pinprof.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("story", STORIES)
def test_the_commands_of_a_story_give_what_it_quotes(story: str, place: Path) -> None:
    outputs = ""
    assert len(commands(story)) >= 3
    for arguments, quoted in commands(story):
        result = pinprof(*arguments, cwd=place)
        assert result.returncode == 0, result.stderr
        assert re.match(pattern(quoted), result.stdout), f"{arguments}\n{result.stdout}"
        outputs += result.stdout
    manifest = json.loads((place / f"{STORIES[story]}.pinprof" / "manifest.json").read_text())
    (recorded,) = (block for language, block in BLOCK.findall(text(story)) if language == "sh")
    assert Path(manifest["command"][-1]).name == Path(recorded.split()[-1]).name
    assert list((place).glob("*.html"))
    figures_are_known(story, outputs)


def figures_are_known(story: str, outputs: str) -> None:
    """Every figure in the text is in an output, was measured, or is one of the program's own."""
    case = next(case for case in CASES if case.name == STORIES[story])
    known = {figure.rstrip(".,") for figure in re.findall(r"[\d.,]*\d", outputs)}
    known |= {f"{case.as_is_s:.2f}", f"{case.cured_s:.3g}", f"{case.cured_s:.2f}", f"{case.saved_s:.2f}"}
    savings = [
        float(amount) * {"s": 1e3, "ms": 1}[unit] for amount, unit in re.findall(r"saves ([\d.]+) (ms|s) of", outputs)
    ]
    promised = sum(savings[:2])
    known |= {f"{promised:.0f}", f"{promised / 1e3:.2f}", *PROGRAM[story]}
    prose = BLOCK.sub("", text(story))
    used = {figure.split()[0].rstrip(".,") for figure in FIGURE.findall(prose)}
    assert len(used) >= 4
    assert used <= known


def test_the_start_page_quotes_a_story() -> None:
    (quoted,) = (block for language, block in BLOCK.findall(text("index")) if language == "text")
    assert quoted in text("story-cuda")
    case = next(case for case in CASES if case.name == "fresh_h2d")
    prose = " ".join(BLOCK.sub("", text("index")).split())
    assert {f"{case.as_is_s} s", f"{case.cured_s} s"} == set(re.findall(r"[\d.]+ s\b", prose))


def test_a_changed_figure_or_line_is_noticed() -> None:
    shown = "saves 518 ms of 1.4 s\nnext\nPage: /tmp/x/a.html\n"
    assert re.match(pattern("saves 518 ms of 1.4 s\n…\nPage: …/a.html\n"), shown)
    assert not re.match(pattern("saves 519 ms of 1.4 s\n…\nPage: …/a.html\n"), shown)
    assert not re.match(pattern("saves 518 ms of 1.4 s\n…\nPage: …/b.html\n"), shown)
    with pytest.raises(AssertionError):
        figures_are_known("story-cuda", "saves 1.3 s (1 s) and saves 361 ms (1 ms)")
