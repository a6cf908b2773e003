"""A capture directory reads the same where neither perf, nor the binaries, nor that kernel's symbols are at hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.data.model import Capture
from pinprof.streams import store

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
volatile unsigned long sink;
__attribute__((noinline)) void spin(void) { for (int i = 0; i < 60000; i++) sink = sink * 31 + i; sink++; }
__attribute__((noinline)) void touch(void) {
  char *p = malloc(64 << 20); memset(p, 1, 64 << 20); sink += p[9]; free(p);
}
int main(void) { for (int i = 0; i < 40; i++) { for (int k = 0; k < 50; k++) spin(); touch(); } return 0; }
"""


@pytest.fixture
def recorded(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """A sealed capture directory of a program recorded with `--call-graph` as the test asks, and the program."""
    if shutil.which("perf") is None or shutil.which("cc") is None:
        pytest.skip("perf or cc is not installed")
    program = tmp_path / "work"
    (tmp_path / "work.c").write_text(PROGRAM)
    flags = ["-O0", "-fno-omit-frame-pointer"]
    subprocess.run(["cc", *flags, "-o", program, tmp_path / "work.c"], check=True)
    manifest = store.new_manifest(command=(str(program),))
    writer = store.CaptureWriter.create(tmp_path / "run", manifest)
    events = ["-e", "cpu-clock/freq=499/", "-k", "CLOCK_MONOTONIC", "--call-graph", request.param]
    done = subprocess.run(
        ["perf", "record", "-q", *events, "-o", writer.path / store.PERF_DATA, "--", program],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"perf may not record here: {done.stderr.decode()[:200]}")
    kallsyms = Path("/proc/kallsyms").read_bytes()
    (writer.path / store.KALLSYMS).write_bytes(kallsyms)
    read.seal_symbols(writer.path)
    return writer.finish(manifest), program


def names(capture: Capture) -> list[tuple[str, ...]]:
    stacks = capture.stacks
    return [
        tuple(stacks.frames.symbol[int(stacks.frame[node])] for node in stacks.chain(node))
        for node in capture.samples.stack.tolist()
    ]


@pytest.mark.parametrize("recorded", ["fp", "dwarf,2048"], indirect=True)
def test_capture_reads_without_perf_binaries_and_kallsyms(
    recorded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, program = recorded
    assert not (directory / store.KALLSYMS).exists(), "it holds the symbols that were seen"
    here = read.read(directory)
    program.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    elsewhere = read.read(directory)
    assert names(elsewhere) == names(here)
    assert (elsewhere.samples.weight == here.samples.weight).all()
    assert any("spin" in stack for stack in names(elsewhere))
    assert np.mean(["main" in stack for stack in names(elsewhere)]) > 0.8
    assert elsewhere.manifest.command == (str(program),)
    assert elsewhere.path == str(directory)
    assert elsewhere.losses.unresolved_frames == here.losses.unresolved_frames


@pytest.mark.parametrize("recorded", ["fp"], indirect=True)
def test_bare_file_of_a_capture_reads_too(recorded: tuple[Path, Path]) -> None:
    directory, _ = recorded
    bare = read.read(directory / store.PERF_DATA)
    assert names(bare) == names(read.read(directory))
    assert bare.manifest.collectors[0]["name"] == "perf"
