"""Readers declare themselves: the most certain one reads, and a new format needs one object and one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinprof import read
from pinprof.base.errors import CaptureError
from pinprof.cli import main
from pinprof.read.formats import folded
from pinprof.read.reader import Certainty, Reader
from tests.support.documented import module

TEXT = "#toy 7\nmain;work 3\nmain;rest 1\n"


TOY: Reader = module("input_format.py").READER
"""Of docs/extending.md: lines of folded stacks whose counts are faults."""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "READERS", (*read.READERS, f"{__name__}:TOY"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "recording.txt"
    path.write_text(TEXT)
    return path


def test_text_that_nobody_else_knows_is_folded_stacks(path: Path) -> None:
    assert folded.READER.certainty(path, TEXT.encode()) == Certainty.MAYBE
    assert read.read(path).events[0].name == "samples"


@pytest.mark.usefixtures("toy")
def test_a_format_added_at_the_end_gets_its_file(path: Path) -> None:
    capture = read.read(path)
    assert [(event.name, event.unit) for event in capture.events] == [("toy-faults", "faults")]
    assert capture.samples.weight.tolist() == [3, 1]


@pytest.mark.usefixtures("toy")
def test_an_added_format_is_reported_end_to_end(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path), "--format", "json"])
    assert not stop.value.code
    (event,) = json.loads(capsys.readouterr().out)["events"]
    assert (event["name"], event["total"]) == ("toy-faults", 4)


@pytest.mark.usefixtures("toy")
def test_an_added_format_leaves_others_their_files(tmp_path: Path) -> None:
    (tmp_path / "stacks").write_text("main;work 3\n")
    assert read.read(tmp_path / "stacks").events[0].name == "samples"


@pytest.mark.usefixtures("toy")
def test_an_unknown_file_is_told_every_format(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(1, 200)))
    with pytest.raises(
        CaptureError, match=r"begins with '\\x01.*one of these: perf\.data, .*, folded stacks, toy stacks\."
    ):
        read.read(tmp_path / "noise")


def reader(name: str, certainty: Certainty) -> Reader:
    """One that claims everything with the same certainty."""
    return Reader(name, lambda path, head: certainty, TOY.read)


SURE, LIKELY, ALSO_LIKELY, UNSURE, NEVER = (
    reader(name, certainty)
    for name, certainty in (
        ("sure", Certainty.CERTAIN),
        ("likely", Certainty.LIKELY),
        ("also likely", Certainty.LIKELY),
        ("unsure", Certainty.MAYBE),
        ("never", Certainty.NO),
    )
)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("UNSURE", "LIKELY", "SURE"), "sure"),
        (("UNSURE", "LIKELY", "ALSO_LIKELY"), "likely"),
        (("ALSO_LIKELY", "LIKELY", "UNSURE"), "also likely"),
        (("NEVER", "UNSURE"), "unsure"),
        (("SURE", "NO_SUCH_READER"), "sure"),
    ],
)
def test_the_most_certain_reads_and_of_equals_the_first(
    monkeypatch: pytest.MonkeyPatch, path: Path, names: tuple[str, ...], chosen: str
) -> None:
    monkeypatch.setattr(read, "READERS", tuple(f"{__name__}:{name}" for name in names))
    assert read._reader_of(path, str(path)).name == chosen


def test_every_reader_of_the_registry_says_no_to_an_unknown_file(path: Path) -> None:
    head = bytes(range(1, 200))
    assert {entry.certainty(path, head) for entry in read._readers()} == {Certainty.NO}


def test_a_folder_is_a_format_like_any_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(read, "READERS", (*read.READERS, f"{__name__}:FOLDER"))
    (tmp_path / "toy.txt").write_text(TEXT)
    assert len(read.read(tmp_path).samples) == 2


FOLDER = Reader(
    "toy folder",
    lambda path, head: Certainty.LIKELY if (path / "toy.txt").is_file() else Certainty.NO,
    lambda path, options: TOY.read(path / "toy.txt", options),
)
