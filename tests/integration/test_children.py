"""Programs with ways of their own to treat child processes, the collector among them: they and it go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.streams import store
from tests.support.recorded_programs import needs_native

pytestmark = needs_native

IGNORES = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
"""
TAKES_ALL = """
import os, signal
def take(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
signal.signal(signal.SIGCHLD, take)
"""
RECORDS_ITSELF = """
import pinprof
with pinprof.record("part", output="part"):
    bytearray(1 << 20)
"""
FORKS = """
import os, pinprof, sys, time
try:
    with pinprof.record("part", output="part"):
        if os.fork() == 0:
            sys.exit()  # through the block, as an exception
        print(os.wait()[1])
        assert os.path.isdir("part.pinprof.partial")
        with pinprof.phase("after"):
            time.sleep(0.01)
except SystemExit:
    os._exit(7 if os.path.isdir("part.pinprof.partial") else 8)
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("habit", [IGNORES, TAKES_ALL], ids=["ignores", "takes all"])
def test_a_program_may_ignore_its_children_or_take_them_all(habit: str, tmp_path: Path) -> None:
    result = run(habit + RECORDS_ITSELF, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    manifest = store.read_manifest(tmp_path / "part.pinprof")
    assert manifest.outcome["state"] == "complete"
    assert manifest.collectors[0]["lost_records"] == 0


def test_a_collector_that_was_killed_and_taken_is_told(tmp_path: Path) -> None:
    # Other children come to their end by themselves, perhaps just now.
    kills = "import os, pathlib, signal, time\nfrom pinprof.collect.proc import contents\n"
    kills += "with pinprof.record('part', output='part'):\n"
    kills += " for place in pathlib.Path(f'/proc/self/task/{os.getpid()}/children').read_text().split():\n"
    kills += "  if b'pinprof.collect.native' not in contents(f'/proc/{place}/cmdline'): continue\n"
    kills += "  os.kill(int(place), signal.SIGKILL)\n"
    kills += "  while os.path.exists(f'/proc/{place}'): time.sleep(0.01)\n"
    result = run(f"{IGNORES}import pinprof\n{kills}", tmp_path)
    assert "CollectError: The collector ended while the program was running" in result.stderr
    assert store.read_manifest(tmp_path / "part.pinprof").outcome["state"] == "failed"


def test_a_forked_child_that_leaves_the_block_ends_nothing(tmp_path: Path) -> None:
    result = run(FORKS, tmp_path)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", f"{7 << 8}\n")
    assert store.read_manifest(tmp_path / "part.pinprof").outcome["state"] == "complete"
    assert "after" in (tmp_path / "part.pinprof/ranges.jsonl").read_text()


def test_a_recording_may_begin_where_sigchld_is_ignored(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pinprof", "record", "--no-report", "-o", "part", "--", sys.executable, "-c"]
    asks = "import signal; exit(3 + (signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN))"
    result = run(f"{IGNORES}import os\nos.execv({sys.executable!r}, {[*command, asks]!r})", tmp_path)
    assert result.returncode == 4, result.stderr
    assert store.read_manifest(tmp_path / "part.pinprof").outcome["state"] == "complete"
    assert os.listdir(tmp_path) == ["part.pinprof"]  # noqa: PTH208 - names
