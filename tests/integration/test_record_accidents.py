"""Recordings that a signal, a full disk or the death of the sampler breaks off: what survives, and what is said."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pinprof.collect import permission
from pinprof.read import ReadOptions, read
from tests.support.recorded_programs import (
    BUSY,
    GO_ON,
    TOUCH,
    after_start,
    both_samplers,
    captured,
    outcome,
    pending,
    python,
    record,
    recording,
    sampler_of,
    wait_ended,
)

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")


def test_a_daemon_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    assert record(tmp_path, "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > daemon; exit 5").returncode == 5
    os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)  # it was there to the end
    assert outcome(tmp_path)["state"] == "complete"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, 137), (signal.SIGSEGV, 139)])
def test_a_program_that_a_signal_ends_is_kept_and_named(number: signal.Signals, status: int, tmp_path: Path) -> None:
    result = record(tmp_path, *python(f"{BUSY.format(0.6)}\nimport os\nos.kill(os.getpid(), {int(number)})"))
    assert result.returncode == status
    assert number.name in result.stderr
    assert outcome(tmp_path)["state"] == "complete"
    assert number.name in str(outcome(tmp_path)["notes"])
    assert len(captured(tmp_path).samples) > 100


def test_an_interrupt_of_the_group_ends_the_program_and_keeps_the_recording(tmp_path: Path) -> None:
    # Whom it has reached half a second ago and who still runs, pinprof interrupts once more.
    code = f"{BUSY.format(0.6)}\nimport os, signal\nsignal.signal(signal.SIGINT, lambda *_: os._exit(42))\n"
    with recording(tmp_path, *python(f"{code}open('started', 'w').close()\n{BUSY.format(60)}")) as process:
        os.killpg(process.pid, signal.SIGINT)
    assert process.returncode == 42
    assert outcome(tmp_path)["state"] == "interrupted"
    assert len(captured(tmp_path).samples) > 100
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sent_to_pinprof_alone_is_passed_on(number: signal.Signals, tmp_path: Path) -> None:
    with recording(tmp_path, "sh", "-c", "touch started; exec sleep 600") as process:
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert outcome(tmp_path)["state"] == "interrupted"
    captured(tmp_path)


def test_the_third_interrupt_ends_a_program_that_ignores_them(tmp_path: Path) -> None:
    with recording(tmp_path, "sh", "-c", "trap '' INT TERM; touch started; while :; do :; done") as process:
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            # One that comes while another waits to be taken would count as one with it.
            while pending(process.pid):
                time.sleep(0.02)
    assert process.returncode == 137
    assert outcome(tmp_path)["state"] == "interrupted"


@both_samplers
def test_a_sampler_dying_leaves_the_program_alone_and_is_said(sampler: str, tmp_path: Path) -> None:
    code = f"{BUSY.format(0.5)}\nopen('started', 'w').close()\n{GO_ON}\nprint('done')\nraise SystemExit(4)"
    with recording(tmp_path, *python(code), options=("--with", sampler)) as process:
        killed = sampler_of(process, sampler)
        os.kill(killed, signal.SIGKILL)
        wait_ended(killed)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert out == "done\n"
    assert "SIGKILL" in err
    assert outcome(tmp_path)["state"] == "failed"
    captured(tmp_path)


def test_a_program_under_nohup_still_ignores_the_hangup(tmp_path: Path) -> None:
    code = "touch started; until [ -e go ]; do sleep 0.02; done; exit 9"
    with recording(tmp_path, "sh", "-c", code, before=("nohup",)) as process:
        os.killpg(process.pid, signal.SIGHUP)
        while pending(process.pid):
            time.sleep(0.02)
        (tmp_path / "go").touch()
    assert process.returncode == 9


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 1)])
def test_a_recording_that_failed_is_said_and_with_strict_is_a_failure(
    options: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    with recording(tmp_path, *after_start(GO_ON), options=options) as process:
        ended = sampler_of(process, "native")
        os.kill(ended, signal.SIGTERM)
        wait_ended(ended)
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert "collector" in err
    assert "Traceback" not in err
    assert outcome(tmp_path)["exit_status"] == 0


@both_samplers
def test_a_killed_pinprof_takes_the_sampler_with_it_and_leaves_what_reads(sampler: str, tmp_path: Path) -> None:
    with recording(tmp_path, *after_start(BUSY.format(1)), options=("--system-wide", "--with", sampler)) as process:
        mine = sampler_of(process, sampler)
        process.kill()
        # It has as long as it takes: what is left of the recording is ended with this block.
        wait_ended(mine)
    partial = tmp_path / "out.pinprof.partial"
    assert json.loads((partial / "manifest.json").read_text())["outcome"]["state"] == "recording"
    assert len(read(str(partial), ReadOptions()).samples) > 0


@both_samplers
def test_a_disk_that_fills_up_keeps_what_was_recorded(sampler: str, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        options = ("--with", sampler, "--frequency", "20000", "--fault-period", "1")
        result = record(tmp_path, *python(TOUCH + "\n" + BUSY.format(1)), options=("-o", str(small / "out"), *options))
        assert result.returncode == 0
        assert "disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        raw = json.loads((small / "out.pinprof/manifest.json").read_text())
        assert raw["outcome"]["state"] == "failed"
        assert raw["outcome"]["exit_status"] == 0
        capture = read(str(small / "out.pinprof"), ReadOptions())
        assert len(capture.samples) > 1000
        assert "handle_mm_fault" in capture.stacks.frames.symbol, "kernel symbols were saved before"
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_the_program_gets_only_our_variables_and_the_signals_it_would_have(tmp_path: Path) -> None:
    handler = "signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    code = f"import os, signal; print(sorted(os.environ)); print({handler})"
    plain = subprocess.run(python(code), capture_output=True, text=True, check=True).stdout
    recorded = record(tmp_path, *python(code)).stdout
    names, mine = (ast.literal_eval(said.splitlines()[0]) for said in (recorded, plain))
    of_cuda = ("CUDA_INJECTION64_PATH", "PINPROF_CUPTI", "PINPROF_GPU", "PINPROF_GPU_BUDGET")
    inside = ("LD_PRELOAD", "PINPROF_INSIDE", "ASAN_OPTIONS")
    ours = (*of_cuda, *inside, "NVTX_INJECTION64_PATH", "PINPROF_NVTX", "PINPROF_RANGES")
    assert names == sorted((*mine, *ours))
    assert recorded.splitlines()[1:] == plain.splitlines()[1:]
    masks = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    shell = subprocess.run(["sh", "-c", masks], capture_output=True, text=True, check=True).stdout
    assert record(tmp_path, "sh", "-c", masks, options=("--force",)).stdout == shell


BROKEN_OFF = """
import os, signal
from pinprof import read
from pinprof.__main__ import main
read.read_fresh = lambda *_: os.kill(os.getpid(), signal.{})
main()
"""


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        ("SIGTERM", 143, "pinprof: stopped. Capture: out.pinprof"),
        ("SIGINT", 0, "pinprof: stopped; symbols, the answer and the page are missing."),
    ],
)
def test_a_signal_while_symbols_are_stored_leaves_a_whole_capture(
    number: str, status: int, said: str, tmp_path: Path
) -> None:
    result = subprocess.run(
        [*python(BROKEN_OFF.format(number)), "record", "-o", "out", "--python=off", "--", *python(BUSY.format(0.6))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == status
    assert said in result.stderr
    assert result.stderr.endswith("Capture: out.pinprof\n")
    assert outcome(tmp_path)["state"] == "complete"
    assert any(note.startswith("Symbols were not stored") for note in outcome(tmp_path)["notes"])
    assert len(captured(tmp_path).samples) > 50


def test_ctrl_c_after_the_answer_costs_the_page_alone(tmp_path: Path) -> None:
    # Writing the page waits for a reader who never comes.
    os.mkfifo(tmp_path / "out.html")
    command = [sys.executable, "-m", "pinprof", "record", "-o", "out", "--no-calibrate", "--", "sh", "-c", "exit 7"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        answer = next(line for line in process.stderr if "too few samples" in line or "to gain" in line)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 7
    assert re.search("page (is|are) missing. To get it all: pinprof report out.pinprof", rest)
    assert answer not in rest
    assert rest.endswith("Capture: out.pinprof\n")
    captured(tmp_path)
