"""Recordings that only `perf script` can read: perf names kernel functions from the machine that it runs on."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import pytest

from pinprof.data import perf_format as perf
from pinprof.data.model import KERNEL, Capture
from pinprof.read import ReadOptions
from pinprof.read.perf import capture as perf_capture
from pinprof.streams import store
from tests.support import perf_file as pf

TEXT_AT = 0xFFFFFFFF89400000
PRINTED = f"app 7/7 1.5: 3 cycles:\n\t{TEXT_AT + 16:x} vm_map_ram+0x1 ([kernel.kallsyms])\n\t401000 main+0x1 (/app)\n\n"


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording with copied stacks of this release of Linux, and a perf that prints what is expected of it."""
    tool = tmp_path / "bin" / "perf"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{PRINTED}END\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    spec = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_STACK_USER)
    body = struct.pack("<iiQQQ", -1, 0, TEXT_AT, 1 << 24, TEXT_AT) + pf.text("[kernel.kallsyms]_text")
    records = pf.record(perf.RECORD_MMAP, body + pf.trailer(spec, time=0), perf.MISC_KERNEL)
    path = tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([spec], records, pf.Features().kernel(os.uname().release)))
    return path


def this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text_at: int) -> None:
    kallsyms = tmp_path / "kallsyms"
    kallsyms.write_text(f"{text_at:x} T _text\n{text_at + 4096:x} T vm_map_ram\n")
    monkeypatch.setattr(perf_capture, "_KALLSYMS", kallsyms)


def kernel_functions(capture: Capture) -> list[str]:
    frames = capture.stacks.frames
    return [symbol for symbol, mode in zip(frames.symbol, frames.mode.tolist(), strict=True) if mode == KERNEL]


def test_a_foreign_kernel_has_no_names(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this_machine(monkeypatch, tmp_path, TEXT_AT + (1 << 21))
    capture = perf_capture.read_file(recording, ReadOptions())
    assert kernel_functions(capture) == ["[unknown kernel]"]
    assert "main" in capture.stacks.frames.symbol
    assert capture.losses.unresolved_frames == 1
    assert "--kallsyms" in " ".join(capture.losses.notes)


def test_the_kernel_that_runs_here_has_names(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this_machine(monkeypatch, tmp_path, TEXT_AT)
    assert kernel_functions(perf_capture.read_file(recording, ReadOptions())) == ["_text"]


def test_a_foreign_kernel_has_the_names_of_its_own_symbols(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_machine(monkeypatch, tmp_path, TEXT_AT + (1 << 21))
    own = tmp_path / "recorded.kallsyms"
    own.write_text(f"{TEXT_AT:x} T _text\n{TEXT_AT + 8:x} T do_syscall\n{TEXT_AT + 64:x} T after\n")
    capture = perf_capture.read_file(recording, ReadOptions(kallsyms=own))
    assert kernel_functions(capture) == ["do_syscall"]


def test_text_that_perf_printed_while_recording_is_trusted(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    (recording.parent / store.PERF_SCRIPT).write_bytes(gzip.compress(PRINTED.encode()))
    monkeypatch.setattr(perf_capture, "_KALLSYMS", Path("/none"))
    assert kernel_functions(perf_capture.read_file(recording, ReadOptions())) == ["vm_map_ram"]
