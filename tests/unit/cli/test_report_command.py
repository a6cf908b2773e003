"""`pinprof report` with outputs of every kind, and what it says when one cannot be written."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import jsonschema
import pytest

from pinprof.base.errors import UsageError
from pinprof.cli import cli, main, pipeline
from pinprof.report.export.formats import EXPORTS
from pinprof.report.export.schema import schema
from tests.support import perf_file


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.folded"
    path.write_text("main;work;asm_exc_page_fault_[k];do_anonymous_page_[k] 70\nmain;read 30\n")
    return path


@pytest.mark.parametrize("form", ["text", "json", "folded", "speedscope", "pprof", "csv"])
def test_a_place_that_cannot_be_written_is_an_error_of_one_sentence(
    form: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "/proc/nowhere/out"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(recording), "--format", form, "-o", place])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"pinprof: error: {place} cannot be written: ")
    assert told.endswith("Choose another place with -o. [output]\n")


@pytest.mark.parametrize("form", ["html", "text", "json", "folded", "markdown", "pprof", "csv"])
def test_the_folder_of_an_output_is_made(form: str, recording: Path, tmp_path: Path) -> None:
    place = tmp_path / "new" / "folder" / "out"
    cli.main(["report", str(recording), "--format", form, "-o", str(place)], standalone_mode=False)
    assert place.exists()


@pytest.mark.parametrize("form", ["text", "json", "folded", "speedscope", "pprof"])
def test_a_file_whose_name_ends_in_gz_is_compressed(form: str, recording: Path, tmp_path: Path) -> None:
    plain, packed = tmp_path / "out", tmp_path / "out.gz"
    for path in (plain, packed):
        cli.main(["report", str(recording), "--format", form, "-o", str(path)], standalone_mode=False)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.gz", "run.folded"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["html", "text", "json", "folded", "markdown", *EXPORTS])
def test_outputs_are_for_their_owner_alone(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, recording = perf_file.Spec(), tmp_path / "run.data"
    samples = b"".join(perf_file.sample(spec, time=time) for time in (100, 200))
    recording.write_bytes(perf_file.file_mode([spec], perf_file.comm(spec, "app") + samples))
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    try:
        cli.main(["report", str(recording), "--format", form, "-o", "out"], standalone_mode=False)
        cli.main(["report", str(recording), "-q", "--shared-assets", "assets"], standalone_mode=False)
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_file() and path != recording]
    assert len(made) >= 3
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in made} == {path.name: 0o600 for path in made}


def test_a_dash_is_standard_output(recording: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cli.main(["report", str(recording), "--format", "json", "-o", "-"], standalone_mode=False)
    assert json.loads(capfdbinary.readouterr().out)["schema"] == 1


@pytest.mark.parametrize("option", ["--open", "--serve"])
def test_only_a_page_can_be_opened_or_served(option: str, recording: Path) -> None:
    with pytest.raises(UsageError, match="json can't be opened"):
        cli.main(["report", str(recording), "--format", "json", option], standalone_mode=False)


def test_a_port_is_one_of_those_that_exist(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(recording), "--serve", "--port", "99999"])
    assert ended.value.code == 2
    assert "99999 is not between 0 and 65535." in capsys.readouterr().err


def test_the_page_of_standard_input_has_a_name() -> None:
    assert pipeline.default_page(Path("-")).name == "stdin.html"
    assert pipeline.default_page(Path("run.pinprof")) == Path("run.html")
    assert pipeline.default_page(Path("run.pinprof"), part=True) == Path("run-part.html")
    assert pipeline.default_page(Path("run.pinprof").absolute()) == Path("run.html").absolute()


@pytest.mark.parametrize("form", ["html", "csv"])
def test_what_is_no_stream_wants_a_name(form: str, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recording.parent)
    with pytest.raises(UsageError, match="for example -o"):
        cli.main(["report", str(recording), "--format", form, "-o", "-"], standalone_mode=False)
    assert [path.name for path in recording.parent.iterdir()] == ["run.folded"]


PART = ["--after", "200ms", "--until", "1s", "--thread", "fresh_h2d"]
CASE = Path(__file__).parents[2] / "data" / "cases" / "fresh_h2d.pinprof.tar.xz"


def folded(path: Path, *options: str) -> int:
    cli.main(["report", str(CASE), "--format", "folded", "-o", str(path), *options], standalone_mode=False)
    return sum(int(line.rsplit(" ", 1)[1]) for line in path.read_text("utf-8").splitlines())


@pytest.mark.slow
def test_every_output_is_of_the_part_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["report", str(CASE), "--format", "json", "-o", str(tmp_path / "json"), *PART], standalone_mode=False)
    document = json.loads((tmp_path / "json").read_text("utf-8"))
    assert document["part"] == {
        "after_ns": 200_000_000,
        "until_ns": 1_000_000_000,
        "whole_ns": document["part"]["whole_ns"],
        "ranges": [],
        "threads": ["fresh_h2d"],
        "processes": [],
    }
    assert jsonschema.Draft202012Validator(schema()).is_valid(document)
    total = document["events"][0]["total"]
    assert 0 < total <= 800_000_000
    assert folded(tmp_path / "folded", *PART) == total
    said = "Part of the recording: 200 ms to 1 s of 2.38 s, thread fresh\\_h2d."
    for form, words in (("markdown", said), ("text", said.replace("\\", ""))):
        cli.main(["report", str(CASE), "--format", form, "-o", str(tmp_path / form), *PART], standalone_mode=False)
        assert words.replace("\\", "") in " ".join((tmp_path / form).read_text("utf-8").split()).replace("\\", "")
    cli.main(["report", str(CASE), "-o", str(tmp_path / "page.html"), *PART], standalone_mode=False)
    page = (tmp_path / "page.html").read_text("utf-8").replace("\u00a0", " ")
    assert said.replace("\\", "") in page
    assert said.replace("\\", "") in " ".join(capsys.readouterr().out.split())
    cli.main(["report", str(CASE), "--format", "speedscope", "-o", str(tmp_path / "s"), *PART], standalone_mode=False)
    profiles = json.loads((tmp_path / "s").read_text("utf-8"))["profiles"]
    assert sum(sum(one["weights"]) for one in profiles if one["name"].startswith("cpu-clock")) == total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--after", "3s", "--until", "1s"], "There is no time between 3 s and 1 s."),
        (["--after", "soon"], "'soon' is not a duration."),
        (["--thread", "nobody"], "The recording has no thread 'nobody'."),
        (["--share", "--after", "1s"], "--share copies whole captures."),
    ],
)
def test_a_part_that_cannot_be_is_refused(options: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        cli.main(["report", str(CASE), "-o", str(tmp_path / "out"), *options], standalone_mode=False)
    assert said in str(refused.value)


def test_a_time_in_a_recording_without_times_is_refused(recording: Path) -> None:
    for form in ("text", "folded"):
        with pytest.raises(UsageError, match="does not say when"):
            cli.main(["report", str(recording), "--format", form, "--after", "1s"], standalone_mode=False)
