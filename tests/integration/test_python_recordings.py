"""Python programs recorded for real: the right lines, threads and processes by name, and the reader's own accidents."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pinprof.workloads.backends.io_uring import Ring

from pinprof.analyze import Run, analyze
from pinprof.base.errors import ScenarioError
from pinprof.collect import permission, proc
from pinprof.collect.python import forbidden
from pinprof.read import ReadOptions, read
from pinprof.read.python.stacks import load
from pinprof.report.gather import build
from pinprof.report.page.html import render
from pinprof.streams.store import PYTHON_STACKS

pytestmark = [
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
    pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel"),
]
needs_lines = pytest.mark.skipif(bool(forbidden()), reason="other processes' memory may not be read")

HERE = Path(__file__).parent
PROGRAM = HERE / "python_program.py"
ROOT = HERE.parents[1]
PINPROF = [sys.executable, "-m", "pinprof", "record", "--with", "perf", "-o", "out", "--no-report"]


FAR_NS = 20_000_000
"""Between two looks, of which there are a thousand a second."""


def record(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PINPROF, *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env=environment()
    )


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPERFSUPPORT"}


def explained(tmp_path: Path) -> Run:
    return analyze(read(tmp_path / "out.pinprof", ReadOptions()))


def line_of(mark: str) -> str:
    number = next(number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if mark in text)
    return f"{PROGRAM.name}:{number}"


def can_pin() -> bool:
    try:
        Ring().close()
    except ScenarioError:
        return False
    return True


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    result = record(folder, "--python", "lines", "--", sys.executable, str(PROGRAM), "notes.json", "0.8")
    assert result.returncode == 0, result.stderr
    return folder


@needs_lines
@pytest.mark.skipif(not can_pin(), reason="io_uring is not available here")
def test_samples_get_the_line_that_ran(recorded: Path) -> None:
    """At least 90 % of what is sampled and has a line while one line works is that line's."""
    capture, looks = explained(recorded).capture, load(recorded / "out.pinprof" / PYTHON_STACKS)
    samples, stacks = capture.samples, capture.stacks
    threads = sorted(set(zip(samples.pid.tolist(), samples.tid.tolist(), strict=True)))
    looked = np.zeros(len(samples), np.bool_)  # A reader that has no processor sees nothing.
    for pid, tid in threads:
        mine, times = (samples.pid == pid) & (samples.tid == tid), looks.looks(pid, tid).time
        after = np.searchsorted(times, samples.time_ns[mine])
        apart = np.diff(times, prepend=-FAR_NS, append=2**62)
        looked[mine] = apart[after] < FAR_NS
    for start, end, name in json.loads((recorded / "notes.json").read_text()):
        inside = (samples.time_ns >= start) & (samples.time_ns < end) & (samples.event == 0)
        inside &= looked
        assert inside.sum() > 50, "of 800, were there no others on this machine"
        wanted = f"({line_of(f'the line that {name}')})"
        rows = np.flatnonzero(inside)
        right = known = 0
        for row in rows.tolist():
            chain = [stacks.frames.symbol[stacks.frame[node]] for node in stacks.chain(int(samples.stack[row]))]
            known += any(f"({PROGRAM.name}:" in symbol for symbol in chain)
            right += any(symbol.endswith(wanted) for symbol in chain)
        assert known >= 0.8 * len(rows), (name, known, len(rows))
        assert right >= 0.9 * known, (name, right, known)


@needs_lines
@pytest.mark.skipif(not can_pin(), reason="io_uring is not available here")
def test_the_page_and_the_table_name_the_line_that_pins(recorded: Path) -> None:
    analysis = explained(recorded)
    lines = {row.place: row for row in analysis.python[0].lines}
    pinning, touching = lines[line_of("the line that pins")], lines[line_of("the line that touches")]
    assert sum(weight for leaf, weight in pinning.leaves.items() if leaf.startswith("pin.")) > 0.5 * pinning.weight
    assert next(iter(touching.leaves)).startswith("fault.")
    pins = {place: sum(row.leaves.get(leaf, 0) for leaf in ("pin.walk", "pin.faultin")) for place, row in lines.items()}
    assert max(pins, key=lambda place: pins[place]) == line_of("the line that pins")
    page = render(build(analysis))
    assert line_of("the line that pins") in page
    assert str(recorded) not in page, "only names of files"


@needs_lines
def test_threads_and_children_appear_by_name(recorded: Path) -> None:
    analysis = explained(recorded)
    names = set(analysis.capture.threads.values())
    assert {"test_worker", "test_pin_thread"} <= names
    threads = {row.place: row.threads for row in analysis.python[0].lines}
    assert "test_worker" in threads[line_of("the line that touches")], "forked by multiprocessing"
    assert "test_pin_thread" in threads[line_of("the line that copies")]
    page = render(build(analysis))
    assert "test_worker" in page
    assert "test_pin_thread" in page


@needs_lines
def test_a_reader_that_dies_costs_lines_and_not_the_recording(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *PINPROF,
            "--",
            sys.executable,
            "-c",
            "import time\nend=time.process_time()+2\nwhile time.process_time()<end: sum(range(999))",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    deadline = time.monotonic() + 60
    while not (found := descendants(process.pid, b"pinprof-python")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(found[0], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "The reader of Python lines ended before the program. Python lines are missing." in said
    assert len(read(tmp_path / "out.pinprof").samples) > 500


def newer_interpreter() -> str | None:
    places = sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python3"))
    for path in [*(shutil.which(f"python3.{minor}") for minor in (12, 13, 14)), *map(str, places)]:
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


@needs_lines
def test_an_interpreter_that_a_shell_starts_later_has_lines_and_leaves_no_perf_map(tmp_path: Path) -> None:
    """A newer one than ours where there is one: its trampoline is switched on too."""
    busy = "import os, time; print(os.getpid())\nend = time.process_time() + 1\n"
    busy += "while time.process_time() < end:\n    bytes(1 << 25)"
    python = newer_interpreter() or sys.executable
    result = record(tmp_path, "--python", "both", "--", "sh", "-c", f"sleep 0.1; '{python}' -c '{busy}'; true")
    assert result.returncode == 0, result.stderr
    row = explained(tmp_path).python[0].lines[0]
    assert (row.place, row.function) == ("<string>:4", "<module>")
    assert not Path(f"/tmp/perf-{int(result.stdout)}.map").exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the trampoline of this test is x86-64 code")
def test_the_trampolines_functions_and_their_files_are_in_the_capture(tmp_path: Path) -> None:
    program = tmp_path / "python3.12"
    options = ["-O1", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run(["gcc", *options, "-o", str(program), str(HERE / "trampoline.c")], check=True)
    result = record(tmp_path, "--python", "trampoline", "--", str(program), "0.4")
    assert result.returncode == 0, result.stderr
    analysis = explained(tmp_path)
    capture = analysis.capture
    pids = {pid for pid, _ in capture.threads}
    assert len(pids) == 2, "each process with a map of its own"
    assert not any(Path(f"/tmp/perf-{pid}.map").exists() for pid in pids), "saved in the capture, and removed"
    row = analysis.python[0].lines[0]
    assert (row.file, row.line, row.function) == ("train.py", 0, "Loader.__next__")
    assert row.weight > 0.8 * analysis.python[0].total
    chains = {
        tuple(capture.stacks.frames.symbol[capture.stacks.frame[node]] for node in capture.stacks.chain(stack))[::-1]
        for stack in np.unique(capture.samples.stack[capture.samples.event == 0]).tolist()
    }
    inside = [chain for chain in chains if "load_batch" in chain]
    assert inside
    for chain in inside:
        place = chain.index("load_batch")
        assert chain[place - 2 : place] == ("<module> (train.py)", "Loader.__next__ (train.py)")
        assert "_PyEval_EvalFrameDefault" not in chain
    kept = read(tmp_path / "out.pinprof", ReadOptions(interpreter_frames=True))
    assert "_PyEval_EvalFrameDefault" in kept.stacks.frames.symbol
    assert (tmp_path / "out.pinprof/manifest.json").read_text().count("PYTHONPERFSUPPORT") == 0


def descendants(pid: int, word: bytes) -> list[int]:
    """Processes below a process with this name."""
    return [child for child in proc.tree(pid)[1:] if proc.contents(f"/proc/{child}/comm").strip() == word]
