"""What a recording starts with: forked recorders, the kernel's symbols beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pinprof.base.zstd import ZstdDecompressor
from pinprof.collect import kallsyms, own_processes
from pinprof.collect.recorder import Recorder
from pinprof.streams.store import KALLSYMS


def test_a_forked_recorder_finds_what_a_new_program_finds(tmp_path: Path) -> None:
    log, held = tmp_path / "log", os.open("/dev/null", os.O_RDONLY)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])

    def work() -> int:
        print(sorted(int(file.name) for file in Path("/proc/self/fd").iterdir())[:4], flush=True)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpgid(0) == os.getpid(), flush=True)
        print(signal.getsignal(signal.SIGINT) is signal.SIG_DFL, os.read(0, 1), flush=True)
        return 7

    try:
        recorder = Recorder.forked(lambda: _printed(work), log)
        os.close(recorder._lifeline)
        recorder._lifeline = -1
        recorder.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(held)
    assert recorder.wait_status is not None
    assert os.waitstatus_to_exitcode(recorder.wait_status) == 7
    files, state, rest = log.read_text().splitlines()
    assert files.startswith("[0, 1, 2, ")
    assert str(held) not in files
    assert (state, rest) == ("set() True", "True b''")


def _printed(work: object) -> int:
    """pytest has its own standard output, which is no file."""
    sys.stdout = os.fdopen(1, "w", closefd=False)
    assert callable(work)
    status = work()
    assert isinstance(status, int)
    return status


def test_what_fails_in_a_forked_recorder_lies_in_its_log(tmp_path: Path) -> None:
    recorder = Recorder.forked(lambda: 1 // 0, tmp_path / "log")
    recorder.wait()
    assert not recorder.ended_well
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()


def test_a_process_with_threads_is_not_forked() -> None:
    code = (
        "import threading; from pinprof.collect.own_processes import may_fork; alone = may_fork(); "
        "end = threading.Event(); other = threading.Thread(target=end.wait); other.start(); "
        "both = may_fork(); end.set(); other.join(); raise SystemExit(0 if alone and not both else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("fork", [True, False])
def test_the_kernels_symbols_are_copied_beside(fork: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kallsyms"
    source.write_text("ffffffff81000000 T _text\nffffffff81000100 T fault\n")
    monkeypatch.setattr(kallsyms, "SOURCE", source)
    monkeypatch.setattr(kallsyms, "may_fork", lambda: True)
    copying = kallsyms.Copying(tmp_path, tmp_path / "log", fork=fork)
    assert copying.note() == ""
    copying.end()
    assert ZstdDecompressor().decompress((tmp_path / KALLSYMS).read_bytes()) == source.read_bytes()
    assert not any(thread.name == "pinprof-kallsyms" for thread in threading.enumerate())


@pytest.mark.parametrize("fork", [True, False])
def test_symbols_that_cannot_be_written_are_an_error(
    fork: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "kallsyms"
    source.write_text("ffffffff81000000 T _text\n")
    monkeypatch.setattr(kallsyms, "SOURCE", source)
    monkeypatch.setattr(kallsyms, "may_fork", lambda: True)
    copying = kallsyms.Copying(tmp_path / "nowhere", tmp_path / "log", fork=fork)
    with pytest.raises(FileNotFoundError):
        copying.note()
    copying.end()


@pytest.mark.slow
def test_a_fork_is_named_and_runs_the_module(tmp_path: Path) -> None:
    code = """
import os
import sys
from pathlib import Path
from pinprof.collect.own_processes import started

folder = Path(sys.argv[1])
log = folder / "log"
recorder = started("pinprof.collect.uvm", "pinprof-uvm", [str(os.getpid()), str(folder), "inf"], log, fork=True)
while recorder.wait_status is None and (not log.exists() or "ready" not in log.read_text()):
    recorder.reap()
print(Path(f"/proc/{recorder.pid}/comm").read_text().strip())
recorder.finish()
recorder.wait()
sys.exit(not recorder.ended_well)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "pinprof-uvm\n"), done.stderr
    assert own_processes.collector_environment()["PYTHONPATH"]
