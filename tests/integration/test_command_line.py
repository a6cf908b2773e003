"""The command line as a process of its own: streams closed, full or read by nobody, encodings, doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hostile_text import HOSTILE, shows

PINPROF = (sys.executable, "-m", "pinprof")


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    path = tmp_path / "in.folded"
    path.write_text("a;b 3\n")
    return path


def pinprof(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PINPROF, *arguments], check=False, **options)  # type: ignore[call-overload,no-any-return]


def closed(number: int, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """pinprof, started by a shell that closes one stream."""
    words = ["sh", "-c", f'exec "$@" {number}>&-', "sh", *PINPROF, *arguments]
    return subprocess.run(words, capture_output=True, check=False)


def test_a_report_without_standard_output_or_error_is_written_all_the_same(folded: Path) -> None:
    for number in (1, 2):
        page = folded.with_name(f"{number}.html")
        told = closed(number, "report", str(folded), "-o", str(page))
        assert (told.returncode, told.stderr) == (0, b"")
        assert page.read_text().endswith("</html>")


def test_an_export_to_a_closed_standard_output_is_an_error_in_words(folded: Path) -> None:
    told = closed(1, "report", str(folded), "--format", "json")
    assert told.returncode == 1
    assert told.stderr.endswith(b"[output]\n")
    assert b"Traceback" not in told.stderr


def unread(*arguments: str, streams: tuple[str, ...]) -> tuple[int, bytes]:
    """pinprof's exit status and what else it says, when nobody reads those streams."""
    reader, writer = os.pipe()
    os.close(reader)
    options = {name: writer if name in streams else subprocess.PIPE for name in ("stdout", "stderr")}
    told = pinprof(*arguments, **options)
    os.close(writer)
    return told.returncode, (told.stderr or b"")


def test_a_page_is_written_although_nobody_reads_the_summary(folded: Path) -> None:
    page = folded.with_name("page.html")
    assert unread("report", str(folded), "-o", str(page), streams=("stdout", "stderr")) == (141, b"")
    assert page.read_text().endswith("</html>")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--json"],
        ["doctor"],
        ["report", "{}", "--format", "text"],
        ["report", "{}", "--format", "json"],
        ["report", "{}", "--format", "folded"],
        ["report", "{}", "--format", "pprof"],
        ["report", "{}", "--format", "html", "-o", "{}.html"],
    ],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_141_everywhere(arguments: list[str], folded: Path) -> None:
    words = [word.replace("{}", str(folded)) for word in arguments]
    assert unread(*words, streams=("stdout",)) == (141, b"")


def test_a_full_disk_behind_standard_output_is_named(folded: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        told = pinprof("report", str(folded), "--format", "folded", stdout=full, stderr=subprocess.PIPE)
    assert told.returncode == 1
    assert told.stderr.endswith(b"[disk-full]\n")
    assert told.stderr.count(b"\n") == 1


def test_folded_stacks_have_no_control_character(folded: Path) -> None:
    folded.write_text(f"a{HOSTILE};b 3\n".replace("\r", ""), "utf-8")
    told = pinprof("report", str(folded), "--format", "folded", stdout=subprocess.PIPE).stdout.decode()
    assert told.endswith(";b 3\n")
    assert shows(told)


def test_the_name_of_standard_output_is_no_place_for_a_file(folded: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        pinprof("report", str(folded), "--format", "folded", "-o", "/dev/stdout", stdout=out)
    assert (tmp_path / "out").read_text() == "a;b 3\n"
    assert Path("/dev/stdout").is_symlink()


def doctor(**environment: str) -> str:
    done = subprocess.run([*PINPROF, "doctor"], env={**os.environ, **environment}, capture_output=True, check=True)
    return done.stdout.decode()


def test_what_ascii_cannot_say_is_spelled_out() -> None:
    text = doctor(PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "\\u" in text


def test_doctor_says_the_fix_below_what_it_found() -> None:
    lines = doctor().splitlines()
    assert max(map(len, lines)) <= 100
    assert lines == [line.rstrip() for line in lines]
    assert lines[0].split()[1] == "place"


def test_doctor_fails_only_when_recording_is_impossible(tmp_path: Path) -> None:
    command = [*PINPROF, "doctor", "--json"]
    without = {**os.environ, "PATH": str(tmp_path)}
    tools = Path("/usr/lib/linux-tools")
    if not tools.exists():
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=without)
        states = {check["name"]: check["state"] for check in json.loads(result.stdout)}
        assert states["perf"] == "info", "the native collector needs none"
        assert result.returncode == int("problem" in states.values())
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    states = {check["state"] for check in json.loads(result.stdout)}
    assert result.returncode == int("problem" in states)
    table = subprocess.run(command[:-1], capture_output=True, text=True, check=False)
    assert table.returncode == result.returncode
    assert "locked memory" in table.stdout
