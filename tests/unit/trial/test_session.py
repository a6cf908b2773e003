"""Whole trials of small shell programs that print what they measure; only a recording is a stand-in."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.base.errors import ProgramNotFound, TrialError, UsageError
from pinprof.data.model import RangeTable
from pinprof.machine.libraries import compiler
from pinprof.trial import processes, recorded, session
from pinprof.trial.measure import parse
from pinprof.trial.processes import EndedRun
from pinprof.trial.recorded import RecordedRun
from pinprof.trial.result import CureResult, TrialResult
from pinprof.trial.session import TrialRequest, trial
from tests.support.small_capture import small_capture

NUMBER = parse("regex:seconds ([0-9.]+)")
HALVES = 'if [ -n "$MALLOC_TOP_PAD_" ]; then echo seconds 1; else echo seconds 2; fi'
KEEP, HUGE = "glibc-keep-memory", "glibc-huge-pages"


@pytest.fixture(autouse=True)
def unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = EndedRun(0, 0, 1, 1, b"", "")
    monkeypatch.setattr(recorded, "record", lambda *_, **__: RecordedRun(ended, None, "perf is not allowed here."))


def tried(script: str, *cures: str, measure: str = NUMBER.text, **asked: object) -> TrialResult:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    request = TrialRequest(("sh", "-c", script), cures or (KEEP, HUGE), parse(measure), **asked)
    return trial(request, environment, lambda _: None)


def by_id(result: TrialResult) -> dict[str, CureResult]:
    return {cure.id: cure for cure in result.cures}


def test_a_cure_that_halves_the_number_is_found_and_the_other_is_not() -> None:
    result = tried(HALVES)
    keep, huge = (by_id(result)[name] for name in (KEEP, HUGE))
    assert keep.ratio is not None
    assert keep.ratio.median == pytest.approx(0.5)
    assert keep.significant
    assert huge.ratio is not None
    assert huge.ratio.median == 1
    assert not huge.significant
    assert huge.no_larger_than == 0
    assert result.best is keep
    assert result.as_is.median == 2
    assert result.rounds == keep.rounds == 6
    assert result.runs == 1 + 1 + 2 + 3 * 6


def test_a_trial_without_a_recording_says_so_and_predicts_nothing() -> None:
    result = tried(HALVES)
    assert "perf is not allowed here." in result.notes[0]
    assert all(cure.predicted_ratio is None for cure in result.cures)


def test_without_a_recording_there_is_nothing_to_choose_cures_by() -> None:
    with pytest.raises(TrialError) as caught:
        trial(TrialRequest(("true",)), os.environ, lambda _: None)
    assert caught.value.slug == "not-recorded"


@pytest.mark.parametrize(
    ("ends", "problem"),
    [
        ("echo no >&2; exit 3", "The program exits with 3: no."),
        ("kill -SEGV $$", "The program was ended by SIGSEGV."),
        (
            "echo seconds x; exit 0",
            "Nothing that the program prints matches 'seconds ([0-9.]+)' with a number above 0.",
        ),
    ],
)
def test_a_program_that_fails_with_a_cure_is_a_result(ends: str, problem: str) -> None:
    result = tried(f'if [ -n "$MALLOC_TOP_PAD_" ]; then {ends}; fi; echo seconds 2')
    failed = by_id(result)[KEEP]
    assert (failed.state, failed.ratio, failed.rounds) == ("failed", None, 0)
    assert failed.problem == problem
    assert by_id(result)[HUGE].state == "measured"
    assert result.cures[-1] is failed


def test_a_program_that_hangs_with_a_cure_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_CURED_MARGIN_S", 0.5)
    result = tried('if [ -n "$MALLOC_TOP_PAD_" ]; then exec sleep 600; fi; echo seconds 2', KEEP)
    assert by_id(result)[KEEP].problem == "The program did not end in time."


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 7", "As it is, the program exits with 7, so"),
        ("echo it broke >&2; exit 1", "As it is, the program exits with 1: it broke, so"),
        ("kill -KILL $$", "As it is, the program was ended by SIGKILL, so"),
    ],
)
def test_a_program_that_cannot_be_repeated_is_refused_in_one_sentence(script: str, words: str) -> None:
    with pytest.raises(TrialError) as caught:
        tried(script)
    assert caught.value.problem.startswith(words)
    assert caught.value.slug == "not-repeatable"


@pytest.fixture
def waiting_input() -> Iterator[None]:
    """Standard input on which somebody may still type."""
    source, target = os.pipe()
    before = os.dup(0)
    os.dup2(source, 0)
    yield
    os.dup2(before, 0)
    for file in (source, target, before):
        os.close(file)


@pytest.mark.usefixtures("waiting_input")
@pytest.mark.parametrize("script", ["read name; echo seconds 1", "cat; echo seconds 1", "read name && exit 3"])
def test_a_program_that_wants_input_is_refused(script: str) -> None:
    with pytest.raises(TrialError, match="The program reads its standard input, so it cannot be repeated"):
        tried(script)


@pytest.mark.usefixtures("waiting_input")
def test_a_program_that_only_inherits_its_input_is_not() -> None:
    assert by_id(tried(HALVES, record=False))[KEEP].significant


def test_reading_nothing_can_be_repeated() -> None:
    before = os.dup(0)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    try:
        assert tried("cat; echo seconds 1", KEEP, record=False).as_is.median == 1
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_a_program_that_runs_too_long_is_refused() -> None:
    with pytest.raises(TrialError, match="runs longer than"):
        tried("exec sleep 600", limit_s=0.3)


def test_a_measure_that_finds_nothing_is_refused() -> None:
    with pytest.raises(TrialError) as caught:
        tried("echo minutes 1")
    assert caught.value.slug == "measure"


def test_a_program_that_does_not_exist_is_refused_as_a_shell_does() -> None:
    with pytest.raises(ProgramNotFound):
        trial(TrialRequest(("/no/such",), (KEEP,)), os.environ, lambda _: None)


def test_a_cure_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean glibc-huge-pages"):
        trial(TrialRequest(("true",), ("glibc-hugepages",)), os.environ, lambda _: None)


def test_output_that_a_cure_changes_is_a_failure_only_where_it_counts() -> None:
    script = 'echo seconds 2; echo sum "$MALLOC_TOP_PAD_"'
    assert by_id(tried(script))[KEEP].state == "measured"
    strict = by_id(tried(script, same_output=True))
    assert (strict[KEEP].state, strict[KEEP].problem) == ("failed", "The program's output differs.")
    assert strict[HUGE].state == "measured"


def test_the_measured_number_may_differ_where_output_counts() -> None:
    assert by_id(tried(HALVES, same_output=True))[KEEP].state == "measured"


def test_a_program_whose_output_always_differs_cannot_be_compared_by_it() -> None:
    with pytest.raises(TrialError) as caught:
        tried("echo seconds 1; echo $$", same_output=True)
    assert caught.value.slug == "not-repeatable"


def test_what_the_user_has_set_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    request = TrialRequest(("sh", "-c", HALVES), (KEEP, HUGE), NUMBER)
    result = trial(request, {**os.environ, "MALLOC_TOP_PAD_": "1"}, lambda _: None)
    left = by_id(result)[KEEP]
    assert (left.state, left.problem) == ("left-out", "MALLOC_TOP_PAD_ is already set to 1.")


def test_cures_for_which_there_is_no_time_are_left_out() -> None:
    now = iter(range(0, 10**6, 50))
    request = TrialRequest(("sh", "-c", HALVES), (KEEP, HUGE), NUMBER, time_s=1.0)
    result = trial(request, os.environ, lambda _: None, lambda: float(next(now)))
    assert by_id(result)[KEEP].state == "too-few"
    assert by_id(result)[HUGE].state == "left-out"


@pytest.mark.slow
def test_peak_memory_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    high_water = processes._high_water

    def seen(pid: int) -> int:
        size = high_water(pid)
        (tmp_path / f"{pid}-{size >> 25}").touch()
        return size

    monkeypatch.setattr(processes, "_high_water", seen)
    # It lives until its memory was looked at.
    hungry = (
        "import os, sys, time\nfull = 'MALLOC_TOP_PAD_' in os.environ\nblock = b'x' * ((64 << 20) if full else 1)\n"
        "while not os.path.exists(f'{sys.argv[1]}/{os.getpid()}-{2 if full else 0}'): time.sleep(0.01)"
    )
    command = ("python3", "-c", hungry, str(tmp_path))
    request = TrialRequest(command, (KEEP,), parse("memory"), least_rounds=3, error=0.5)
    result = trial(request, os.environ, lambda _: None)
    cure = by_id(result)[KEEP]
    assert result.unit == "bytes"
    assert cure.memory_bytes is not None
    assert cure.memory_bytes > 32 << 20
    assert cure.ratio is not None
    assert cure.ratio.median > 1.5


def test_nothing_of_a_run_outlives_it(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! >> {tmp_path}/left; echo seconds 1"
    tried(script, KEEP, least_rounds=3)
    left = (tmp_path / "left").read_text().split()
    assert len(left) == 1 + 1 + 2 * 3
    assert not [pid for pid in left if _sleeps(pid)]


def test_a_run_that_began_while_ctrl_c_was_pressed_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = processes._start
    started: list[int] = []

    def interrupted(*arguments: Any) -> int:
        started.append(start(*arguments))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(processes, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        processes.run(["sh", "-c", "sleep 600 & exec sleep 600"], os.environ, tmp_path, 600.0)
    assert started
    assert not processes._alive(started[0])


def _sleeps(pid: str) -> bool:
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_every_run_reads_the_file_that_pinprof_was_given_from_the_same_place(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "input").write_text("skipped\nseconds 4\n")
    code = (
        "import os, sys\n"
        "from pinprof.trial import recorded\n"
        "from pinprof.trial.measure import parse\n"
        "from pinprof.trial.session import TrialRequest, trial\n"
        "recorded.record = lambda *_, **__: recorded.RecordedRun(None, None, 'not here')\n"
        "os.read(0, 8)\n"
        "program = ('sh', '-c', 'read line; echo $line')\n"
        "asked = TrialRequest(program, ('glibc-huge-pages',), parse('regex:seconds ([0-9]+)'))\n"
        "print(trial(asked, os.environ, lambda _: None).as_is.median)\n"
    )
    with (tmp_path / "input").open() as given:
        done = subprocess.run([sys.executable, "-c", code], stdin=given, capture_output=True, text=True, check=True)
    assert done.stdout == "4.0\n"


def with_ranges(*names: str) -> RecordedRun:
    """A recorded run with ranges of 100 ns each."""
    start = np.arange(len(names), dtype=np.int64) * 1000
    thread = np.ones(len(names), np.int32)
    ranges = RangeTable(names, ("",) * len(names), start, start + 100, thread, thread, np.zeros(len(names), np.int32))
    return RecordedRun(
        EndedRun(0, 0, 1, 1, b"", ""), replace(small_capture([(0, 5, 0)], [("f", 1)], [(-1, 0)]), ranges=ranges)
    )


def test_ranges_of_one_name_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "record", lambda *_, **__: with_ranges("load", "step", "load"))
    result = tried("true", KEEP, measure="range:load")
    assert result.as_is.median == 200
    assert result.unit == "ns"


def test_a_range_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "record", lambda *_, **__: with_ranges("step"))
    with pytest.raises(TrialError, match="The program has no range 'load'"):
        tried("true", KEEP, measure="range:load")


def test_a_recorded_run_that_fails_with_a_cure_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(_command: object, _given: object, changed: object, *_: object, **__: object) -> RecordedRun:
        good = with_ranges("load")
        return replace(good, ended=replace(good.ended, status=139, complaint="it broke")) if changed else good

    monkeypatch.setattr(recorded, "record", record)
    failed = by_id(tried("true", KEEP, measure="range:load"))[KEEP]
    assert (failed.state, failed.problem) == ("failed", "The program exits with 139: it broke.")


def test_named_cures_need_no_recorded_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(recorded, "record")
    result = tried(HALVES, record=False)
    assert by_id(result)[KEEP].significant
    assert result.notes == ()


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_a_library_that_the_program_never_needs_is_left_out() -> None:
    result = tried("echo seconds 1", "large-blocks", "pinned-pool", record=False)
    assert {cure.state for cure in result.cures} == {"left-out"}
    assert {cure.problem for cure in result.cures} == {
        (
            "No process of the program loads the agent: it is linked statically, belongs to another user, or "
            "is only a "
            "shell."
        )
    }
    words = "import sys; print('seconds 1')"
    request = TrialRequest((sys.executable, "-S", "-c", words), ("pinned-pool",), NUMBER, record=False)
    assert (
        trial(request, os.environ, lambda _: None).cures[0].problem
        == "The program makes none of the calls that this cure replaces."
    )


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_a_child_that_needs_its_parents_memory_fails_the_cure() -> None:
    code = (
        "import os\nblock = bytearray(2 << 20)\npid = os.fork()\nif not pid: os._exit(block[5])\n"
        "os.waitpid(pid, 0)\nprint('seconds 1')"
    )
    request = TrialRequest((sys.executable, "-S", "-c", code), ("unshared-forks",), NUMBER, record=False)
    cure = trial(request, os.environ, lambda _: None).cures[0]
    assert (cure.state, cure.problem) == ("failed", "A forked child reads the memory of its parent.")
