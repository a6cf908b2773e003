"""Processes that read captures: a terminal's Ctrl-C is for the command, which ends them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from pinprof.fleet import engine

ASKS = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_processes_that_begin_inside_ignore_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    with engine._deaf_children():
        said = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True).stdout
    assert said == "True\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_nothing_is_changed() -> None:
    seen = []

    def look() -> None:
        with engine._deaf_children():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
