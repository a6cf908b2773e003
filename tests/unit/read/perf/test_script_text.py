"""A perf that finds no end in a recording is stopped, and the report says what is missing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.read import ReadOptions
from pinprof.read.perf import capture as perf_capture
from pinprof.read.perf import records as rec
from pinprof.read.perf import script_text
from tests.support import perf_file as pf

SAMPLE = "app 7/7 1.5: 3 cycles:\n\t401000 main+0x1 (/app)\n\n"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of two samples with copied stacks, which are empty."""
    spec = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_STACK_USER)
    chain = (rec.CONTEXT_USER, pf.USER_IP)
    samples = [pf.sample(spec, chain, time=time, behind=struct.pack("<Q", 0)) for time in (100, 200)]
    path = tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([spec], b"".join(samples), pf.Features()))
    return path


def read_with(script: str, recording: Path, monkeypatch: pytest.MonkeyPatch) -> Capture:
    """The recording as read with a perf that does this."""
    tool = recording.parent / "bin" / "perf"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    return perf_capture.read_file(recording, ReadOptions())


def test_where_perf_says_nothing_the_samples_are_there_without_their_callers(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_text, "SECONDS", 0.2)
    capture = read_with("sleep 600", recording, monkeypatch)
    assert capture.samples.time_ns.tolist() == [100, 200]
    assert any("stopped perf script" in note and "not innermost" in note for note in capture.losses.notes)


def test_where_an_older_perf_can_print_nothing_the_samples_are_there_without_their_callers(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = read_with("echo 'failed to process type: 83' >&2; exit 1", recording, monkeypatch)
    assert capture.samples.time_ns.tolist() == [100, 200]
    assert any("prints no sample" in note and "not innermost" in note for note in capture.losses.notes)


def test_where_perf_stops_talking_what_it_said_is_kept(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_text, "SECONDS", 1.5)
    capture = read_with(f"printf '{SAMPLE}'; sleep 600", recording, monkeypatch)
    assert capture.samples.time_ns.tolist() == [1_500_000_000]
    assert any("stopped perf script" in note and "later samples" in note for note in capture.losses.notes)


def test_text_without_end_is_cut(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_text, "_PRINTED", 50_000)
    monkeypatch.setattr(script_text, "_TIMES_PRINTED", 0)
    capture = read_with(f"while :; do printf '{SAMPLE}'; done", recording, monkeypatch)
    assert len(capture.samples) == -(-50_000 // len(SAMPLE))
    assert any("printed too much" in note for note in capture.losses.notes)


def test_a_capture_keeps_that_perf_was_stopped_when_it_was_recorded(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_text, "SECONDS", 1.5)
    read_with(f"printf '{SAMPLE}'; sleep 600", recording, monkeypatch)
    script_text.store_text(perf_capture.perf_data.load(recording), recording.parent / "perf-script.txt.gz")
    monkeypatch.setenv("PATH", "/none")
    capture = perf_capture.read_file(recording, ReadOptions())
    assert len(capture.samples) == 1
    assert any("later samples" in note for note in capture.losses.notes)


def test_a_line_without_end_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_text, "_LONGEST_LINE", 10)
    assert list(script_text.lines([b"one\ntwo", b" and more", b" of it\n", b"end"])) == [
        "one",
        "two and more",
        " of it",
        "end",
    ]
