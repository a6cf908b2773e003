"""Programs that pinprof asks have limits of time and output, and leave nothing behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pinprof.machine import children
from pinprof.machine.children import Limits

LIMITED = 'while [ "$(ulimit -f)" = unlimited ]; do sleep 0.01; done'
"""Waits until the size of files has a limit."""


def shell(script: str, limits: Limits = children.AT_ONCE) -> children.Ended:
    return children.ran(["sh", "-c", script], limits)


def test_a_program_that_ends_says_what_it_said_and_its_status() -> None:
    assert shell("echo said; echo not said >&2; exit 3") == children.Ended(3, "said\n")
    assert children.ran(["sh", "-c", "echo both >&2"], errors=True).output == "both\n"


def test_nothing_that_a_program_starts_outlives_it(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    assert shell(f"sleep 600 & echo $! > {marker}; echo done") == children.Ended(0, "done\n")
    assert_gone(int(marker.read_text()))


def test_a_program_past_its_time_is_ended_with_all_it_started(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    with children.started(["sh", "-c", f"sleep 600 & echo $! > {marker}; echo begun; wait"], Limits(1e-3)) as child:
        while not (marker.exists() and marker.read_text().endswith("\n")):
            time.sleep(0.01)
        assert b"".join(child.pieces()) in (b"begun\n", b"")
    assert (child.status, child.stopped) == (None, "took more than 0 seconds")
    assert_gone(int(marker.read_text()))


def test_a_program_that_closes_its_output_and_goes_on_is_ended() -> None:
    assert shell("exec >&-; sleep 600", Limits(0.2)).stopped == "took more than 0 seconds"


def test_a_program_that_falls_silent_is_ended_though_it_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bytes] = []
    monkeypatch.setattr(children, "monotonic", lambda: time.monotonic() if said else 0.0)
    with children.started(["sh", "-c", "echo begun; sleep 600"], Limits(500, silent_s=2)) as child:
        for piece in child.pieces():
            assert piece == b"begun\n"
            said.append(piece)
    assert (said, child.status, child.stopped) == ([b"begun\n"], None, "printed nothing for 2 seconds")


def test_of_output_without_end_there_is_as_much_as_there_may_be() -> None:
    ended = shell("yes", Limits(printed=100_001))
    assert (ended.status, len(ended.output), ended.stopped) == (None, 100_001, "printed more than 100,001 bytes")


def test_a_file_may_have_so_many_bytes(tmp_path: Path) -> None:
    ended = shell(f"{LIMITED}; yes > {tmp_path}/file", Limits(written=50_000))
    assert ended.stopped == "wrote more than 50,000 bytes"
    assert (tmp_path / "file").stat().st_size == 50_000


def test_what_its_reader_takes_is_not_the_programs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(children, "monotonic", lambda: now[0])
    with children.started(["sh", "-c", "echo one; echo two"]) as child:
        for _ in child.pieces():
            now[0] += 1000
    assert child.status == 0


def test_a_program_that_is_not_there_has_said_nothing() -> None:
    with pytest.raises(FileNotFoundError):
        children.ran(["/none/such"])
    assert children.asked("/none/such") == children.Ended(None, "")


def assert_gone(pid: int) -> None:
    """A process is gone, or waits as a zombie for its adoptive parent."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("a process was left behind")
