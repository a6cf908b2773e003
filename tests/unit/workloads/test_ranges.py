"""ranges.jsonl: what is written, when, and what survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pinprof.scenario import phase


@pytest.fixture
def ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ranges.jsonl"
    monkeypatch.setenv("PINPROF_RANGES", str(path))
    return path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_nested_phases_are_written_with_depth_and_monotonic_times(ranges: Path) -> None:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    with phase("outer"), phase("inner"):
        pass
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    inner, outer = lines(ranges)
    assert list(outer) == ["name", "domain", "start_ns", "end_ns", "pid", "tid", "depth"]
    assert (inner["name"], inner["depth"], outer["name"], outer["depth"]) == ("inner", 1, "outer", 0)
    assert before <= outer["start_ns"] <= inner["start_ns"] <= inner["end_ns"] <= outer["end_ns"] <= after  # type: ignore[operator]
    assert outer["domain"] == "pinprof"
    assert (outer["pid"], outer["tid"]) == (os.getpid(), threading.get_native_id())


def test_nothing_is_written_while_a_phase_is_open(ranges: Path) -> None:
    with phase("outer"):
        with phase("inner"):
            pass
        assert not ranges.exists()
    assert len(lines(ranges)) == 2


def test_phases_left_by_an_exception_are_written(ranges: Path) -> None:
    with pytest.raises(KeyboardInterrupt), phase("outer"), phase("inner"):
        raise KeyboardInterrupt
    assert [line["name"] for line in lines(ranges)] == ["inner", "outer"]
    with phase("next"):
        pass
    assert lines(ranges)[-1]["depth"] == 0


def test_each_thread_nests_by_itself(ranges: Path) -> None:
    def work() -> None:
        with phase("worker"):
            pass

    with phase("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    worker, main = lines(ranges)
    assert (worker["name"], worker["depth"], main["depth"]) == ("worker", 0, 0)
    assert worker["tid"] != main["tid"]


def test_forked_child_does_not_write_the_phases_of_its_parent(ranges: Path) -> None:
    with phase("parent"):
        with phase("closed before fork"):
            pass
        child = os.fork()
        if not child:
            with phase("child"):
                pass
            os._exit(0)
        os.waitpid(child, 0)
    assert [line["name"] for line in lines(ranges)] == ["child", "closed before fork", "parent"]
    assert lines(ranges)[0]["pid"] == child


@pytest.mark.parametrize("name", ['"quote"', "line\nbreak", "</script>", "\udcff", "ü" * 3000])
def test_any_name_stays_one_line(ranges: Path, name: str) -> None:
    try:
        with phase(name):
            pass
    except UnicodeEncodeError:
        pytest.fail("a name of the program must not end the program")
    (line,) = lines(ranges)
    assert line["name"] == name


@pytest.mark.slow
def test_file_that_cannot_be_written_is_said_once_and_the_program_goes_on() -> None:
    code = "from pinprof.scenario import phase\nfor _ in range(3):\n  with phase('x'): pass\nprint('done')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PINPROF_RANGES": "/proc/none/ranges.jsonl"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "done\n"
    assert result.stderr.count("recording of ranges has stopped") == 1


@pytest.mark.slow
def test_phases_are_written_where_nvtx_is_not_installed(ranges: Path) -> None:
    code = "import sys\nsys.modules['nvtx'] = None\nfrom pinprof.scenario import phase\nwith phase('x'): pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [line["name"] for line in lines(ranges)] == ["x"]


@pytest.mark.slow
def test_killed_program_loses_only_the_open_outermost_phase(ranges: Path) -> None:
    code = (
        "import os, signal\nfrom pinprof.scenario import phase\n"
        "for number in range(3):\n"
        "  with phase(f'iteration {number}'), phase('inner'):\n"
        "    if number == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False)
    assert result.returncode == -signal.SIGKILL
    assert [line["name"] for line in lines(ranges)] == ["inner", "iteration 0", "inner", "iteration 1"]


def test_open_phase_with_many_children_is_written_in_pieces(ranges: Path) -> None:
    with phase("outer"):
        for _ in range(4096):
            with phase("inner"):
                pass
        assert len(lines(ranges)) == 4096
