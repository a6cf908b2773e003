"""The process that reads a program's frames, as a tool of a recording."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import time

from pinprof import __version__
from pinprof.base.errors import CollectError
from pinprof.collect.collector import Setup, Tool, ToolResult, Waiter
from pinprof.collect.own_processes import await_word, said, started
from pinprof.collect.program import Program
from pinprof.collect.python_frames import READY, UNKNOWN
from pinprof.collect.recorder import Recorder, unstarted
from pinprof.streams.store import LOG, PYTHON_STACKS

RATE = 1000
"""Samples per second, unless the user says otherwise."""
MOST_SHARE, TOGETHER_SHARE = 0.125, 0.03
"""What looking takes of one processor at most, and of the machine's in several recordings that go on together."""
_PATIENCE, _SETTLE, _LOOK_S = 10_000, 500, 0.001
"""How often to look for a segment, which on a busy machine may be late, and how often after one that did not come; and
how long to wait between two looks, in seconds."""
_PR_SET_PTRACER = 0x59616D61


class LineRecorder(Tool):
    """The reader at work on a program; `python-stacks.jsonl.gz` lies in the capture directory afterwards."""

    recorder: Recorder

    def __init__(self, setup: Setup) -> None:
        self._rate, self._own_process = setup.request.python_rate or RATE, setup.request.own_process
        self._share = min(MOST_SHARE, TOGETHER_SHARE * setup.request.processors)
        self._log, self._output = setup.directory / LOG, setup.directory / PYTHON_STACKS
        self._patience = _PATIENCE

    def attach(self, program: Program) -> None:
        """Start the reader; it looks as soon as the program runs Python."""
        arguments = [str(program.pid), str(self._rate), str(self._share), str(self._output.resolve())]
        module, fork = "pinprof.collect.python_frames", not self._own_process
        try:
            self.recorder = started(module, "pinprof-python", arguments, self._log, fork=fork)
        except OSError as error:
            raise CollectError(*unstarted("The reader of Python lines", error), "python-lines") from error
        if program.pid == os.getpid():
            _may_be_read_by(self.recorder.pid)

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until it can look, so that the first lines are seen too."""
        await_word(READY, self.recorder, self._log, waiter)

    def flush(self) -> None:
        """Have it end the segment, and wait until that lies in the file."""
        self._cut(signal.SIGUSR1)

    def pause(self) -> None:
        """The same, and no more looks."""
        self._cut(signal.SIGUSR2)

    def resume(self) -> None:
        """Have it look again, and wait until it does."""
        self._cut(signal.SIGUSR1)

    def _cut(self, number: int) -> None:
        before, looks = self._stored(), self._patience
        self.recorder.send(number)
        while self._stored() == before and looks and not self.recorder.reap():
            # Counted rather than timed: a test may have stopped the clock.
            time.sleep(_LOOK_S)
            looks -= 1
        self._patience = _PATIENCE if looks else _SETTLE

    def under_way(self) -> ToolResult:
        """Its entry among the collectors."""
        return ToolResult(
            {"name": "python-lines", "version": __version__, "command": [], "options": {"rate": self._rate}}
        )

    def result(self) -> ToolResult:
        """How it went; what it did not see costs lines, not the recording."""
        facts, notes = self.under_way().facts, []
        if unknown := sorted(set(re.findall(rf"^{UNKNOWN}([ -~]+)$", said(self._log), re.MULTILINE))):
            notes.append(
                f"There are no Python lines for {', '.join(unknown)}. pinprof reads CPython 3.11 to 3.15; for older "
                "versions, use --python py-spy."
            )
        if not self.recorder.ended_well or self.recorder.died_first:
            # By the SIGINT that asks it to finish, it ends well: of a program that was over before it could listen.
            what = "Python lines are missing from then on" if self._output.exists() else "Python lines are missing"
            notes.append(f"The reader of Python lines ended before the program. {what}.")
        return ToolResult(facts, tuple(notes))

    def _stored(self) -> int:
        """How many bytes lie in the file."""
        try:
            return self._output.stat().st_size
        except OSError:
            return 0


def _may_be_read_by(pid: int) -> None:
    """Let one process read the memory of this one, where Yama lets none but parents do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
