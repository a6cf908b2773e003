"""Of programs that become daemons, and of programs with another clock, it is said what does not fit the samples."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.read import read
from pinprof.streams import store
from tests.support.recorded_programs import BUSY, both_samplers, needs_native, record

DAEMON = f"""
import os, sys, time
# Samples enough that a stack or two that are cut are no gap.
{BUSY.format(0.3)}
if middle := os.fork():
    os.waitpid(middle, 0)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.close(0), os.close(1), os.close(2)
time.sleep(float(sys.argv[1]))
"""
PARENT = f"""
import os
child = os.fork()
{BUSY.format(0.1)}
if child:
    os.waitpid(child, 0)
"""
PHASED = f"""
from pinprof.scenario import phase
with phase("work"):
{"".join(f"    {line}" + chr(10) for line in BUSY.format(1.5).splitlines())}
"""


def notes(folder: Path, *command: str, options: tuple[str, ...] = ()) -> str:
    """What a recording's manifest says, which it also prints."""
    result = record(folder, *command, options=("--no-calibrate", *options))
    assert result.returncode == 0, result.stderr
    said = "\n".join(store.read_manifest(folder / "out.pinprof").outcome["notes"])
    for note in said.splitlines():
        assert note in result.stderr
    return said


def clock_of_its_own(*options: str) -> tuple[str, ...]:
    """What runs a command in a time namespace; skips where that is not allowed."""
    command = ("unshare", "--time", *options, "--")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this process may not make a time namespace")
    return command


@both_samplers
@needs_native
def test_a_daemon_that_goes_on_is_said(sampler: str, tmp_path: Path) -> None:
    said = notes(tmp_path, sys.executable, "-c", DAEMON, "30", options=("--with", sampler))
    assert "1 process of the program went on when its first process ended: " in said
    assert "is not recorded" in said
    (gap,) = analyze(read(tmp_path / "out.pinprof")).gaps
    assert (gap.kind, gap.text in said, gap.hides) == ("outlived", True, True)


@needs_native
@pytest.mark.parametrize("program", [PARENT, BUSY.format(0.2)])
def test_nothing_is_said_of_a_program_that_waits_for_what_it_starts(program: str, tmp_path: Path) -> None:
    assert "went on" not in notes(tmp_path, sys.executable, "-c", program)


@needs_native
def test_nothing_is_said_of_a_program_of_which_a_part_is_recorded(tmp_path: Path) -> None:
    said = notes(tmp_path, sys.executable, "-c", BUSY.format(1), options=("--duration", "300ms"))
    assert "went on" not in said


@needs_native
@pytest.mark.parametrize(("ahead", "told"), [(1000, "1,000 s ahead of"), (-20, "20 s behind")])
def test_a_program_in_another_time_namespace_is_said(ahead: int, told: str, tmp_path: Path) -> None:
    command = clock_of_its_own(f"--monotonic={ahead}")
    said = notes(tmp_path, *command, sys.executable, "-c", PHASED)
    assert f"is in another time namespace, whose CLOCK_MONOTONIC is {told} the kernel's." in said


@needs_native
def test_a_short_program_in_another_time_namespace_is_known_by_what_it_notes(tmp_path: Path) -> None:
    command = clock_of_its_own("--monotonic=1000")
    said = notes(tmp_path, *command, sys.executable, "-c", "from pinprof.scenario import phase\nwith phase('x'): pass")
    assert "in another time namespace" in said


@needs_native
def test_that_pinprof_itself_is_in_a_time_namespace_is_said(tmp_path: Path) -> None:
    command = (*clock_of_its_own("--monotonic=1000"), sys.executable, "-m", "pinprof", "record", "--no-report")
    given = (*command, "--no-calibrate", "-o", "out", "--", sys.executable, "-c", BUSY.format(0.1))
    result = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "pinprof runs in a time namespace, whose CLOCK_MONOTONIC is 1,000 s ahead of the kernel's" in result.stderr
