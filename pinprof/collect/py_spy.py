"""py-spy beside the program: Python's frames of interpreters that python_frames/ does not know.

Source: github.com/benfred/py-spy.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

from pinprof.base.errors import CollectError
from pinprof.collect.collector import Setup, Tool, ToolResult
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder
from pinprof.machine.children import asked
from pinprof.streams.store import LOG, PYTHON_STACKS

RATE = 100
"""Samples per second, unless the user says otherwise: each costs many times what one of python_frames/ does."""
INSTALL = "Install it with: pip install py-spy."


def find_py_spy() -> str | None:
    """The py-spy beside this interpreter, or on the PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def version_of(py_spy: str) -> str:
    """`0.4.3`; empty when it cannot run."""
    return asked(py_spy, "--version").output.strip().removeprefix("py-spy ")


class PySpy(Tool):
    """py-spy at work on a program; `python-stacks.jsonl.gz` lies in the capture directory afterwards."""

    recorder: Recorder

    def __init__(self, py_spy: str, setup: Setup) -> None:
        self._py_spy, self._rate = py_spy, setup.request.python_rate or RATE
        self._log, self._output = setup.directory / LOG, setup.directory / PYTHON_STACKS

    def attach(self, program: Program) -> None:
        """Start the keeper; py-spy begins when the program runs Python."""
        # -P: not what lies in the current directory.
        argv = [sys.executable, "-P", "-m", "pinprof.collect.py_spy_keeper"]
        argv += [self._py_spy, str(program.pid), str(self._rate), str(self._output.resolve())]
        try:
            self.recorder = Recorder(argv, os.environ, self._log)
        except OSError as error:
            raise CollectError(f"py-spy cannot be started: {error.strerror}.", INSTALL, "py-spy") from error

    def result(self) -> ToolResult:
        """How it went; what it did not see costs lines, not the recording."""
        options = ["--rate", str(self._rate), "--nonblocking", "--subprocesses", "--idle", "--full-filenames"]
        facts = {
            "name": "py-spy",
            "version": version_of(self._py_spy),
            "command": ["py-spy", "record", "--pid", "PID", "--format", "chrometrace", *options, "--threads"],
            "options": {"rate": self._rate},
        }
        if self.recorder.ended_well and not self.recorder.died_first:
            # By the SIGINT that asks it to finish, too: of a program that was over before the keeper could listen.
            return ToolResult(facts)
        what = "Python lines are missing from then on" if self._output.exists() else "Python lines are missing"
        return ToolResult(facts, (f"py-spy ended before the program ({self._reason()}). {what}.",))

    def _reason(self) -> str:
        """What the keeper said last."""
        with contextlib.suppress(OSError):
            said = re.findall(r"^py-spy: ([ -~]+)$", self._log.read_text("utf-8", "replace"), re.MULTILINE)
            if said:
                return str(said[-1]).rstrip(".")
        return "it was killed"
