import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pinprof.base.errors import CollectError, ToolMissing
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult, Waiter
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder
from pinprof.collect.request import RecordRequest

if TYPE_CHECKING:
    from pinprof.data.model import Capture

OUTPUT = "top.txt"
ROW = re.compile(r"^ *\d+ +(?:\S+ +){6}[A-Z] +(\d+)", re.MULTILINE)
"""A process: PID, six columns, its state, and %CPU."""


class Top(Tool):
    recorder: Recorder

    def __init__(self, setup: Setup) -> None:
        self._output = setup.directory / OUTPUT

    def attach(self, program: Program) -> None:
        command = ["top", "-b", "-d", "1", "-p", str(program.pid)]
        self.recorder = Recorder(command, os.environ, self._output)

    def await_ready(self, waiter: Waiter) -> None:
        while self.recorder.wait_status is None and not self._output.stat().st_size:
            waiter.wait_ready(0.1)

    def result(self) -> ToolResult:
        facts = {"name": "top", "version": "", "command": ["top", "-b", "-d", "1"], "options": {}}
        failed = CollectError("top ended early.", f"See {OUTPUT} in the capture.", "top")
        return ToolResult(facts, failure=None if self.recorder.ended_well else failed)


def with_top(capture: "Capture", path: Path, reading: object) -> "Capture":
    loads = [int(load) for load in ROW.findall(path.read_text("utf-8", "replace"))]
    return capture.with_notes(f"top saw a load of up to {max(loads)} %.") if loads else capture


def check(request: RecordRequest) -> None:
    if shutil.which("top") is None:
        raise ToolMissing("top is not installed.", "Install procps.", "top")


COLLECTOR = Collector(lambda setup: [Top(setup)], check, leaves=(OUTPUT,))
