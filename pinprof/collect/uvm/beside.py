"""The process that follows a program's managed memory, as a tool of a recording."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence

from pinprof import __version__
from pinprof.base import files
from pinprof.base.errors import CollectError
from pinprof.collect import cuda_traced
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult, Waiter
from pinprof.collect.own_processes import await_word, said, started
from pinprof.collect.permission import allow, forbidden
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder
from pinprof.collect.request import RecordRequest
from pinprof.collect.uvm import READY, REFUSED, descriptors, driver
from pinprof.collect.uvm.source import BUDGET
from pinprof.streams.store import LOG, UVM


class ManagedMemoryTool(Tool):
    """The follower at work; the files lie in the capture's `uvm/` afterwards."""

    recorder: Recorder

    def __init__(self, setup: Setup) -> None:
        self._log, self._folder = setup.directory / LOG, (setup.directory / UVM).resolve()
        self._own_process, self._asked = setup.request.own_process, setup.request.gpu == "uvm"
        self._budget = BUDGET if setup.request.gpu in ("auto", "windows") else math.inf
        self._folder.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
        setup.places.callback(files.remove_empty, self._folder)

    def attach(self, program: Program) -> None:
        """Start the follower; it finds an address space soon after the program opens it."""
        arguments, fork = [str(program.pid), str(self._folder), str(self._budget)], not self._own_process
        try:
            self.recorder = started("pinprof.collect.uvm", "pinprof-uvm", arguments, self._log, fork=fork)
        except OSError as error:
            problem = f"The follower of managed memory cannot be started: {error.strerror}."
            raise CollectError(problem, "Record with --gpu off.", "gpu") from error

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until it looks."""
        await_word(READY, self.recorder, self._log, waiter)

    def result(self) -> ToolResult:
        """How it went; what it did not see costs events, not the recording."""
        facts = {
            "name": "uvm", "version": __version__, "command": [], "options": {}, "cpu_ns": self.recorder.cpu_ns,
        }  # fmt: skip
        notes = [
            f"Managed memory of a process was not recorded: pinprof could not {reason}."
            for reason in sorted(set(re.findall(rf"^{REFUSED}([ -~]+)$", said(self._log), re.MULTILINE)))
        ]
        if self._asked and not any(self._folder.glob("*.bin")) and not notes:
            notes.append(
                "No process of the program used the unified-memory driver, so there are no migrations in the recording."
            )
        if not self.recorder.ended_well or self.recorder.died_first:
            notes.append("The follower of managed memory ended before the program. Later events are missing.")
        return ToolResult(facts, tuple(notes))


def problem() -> tuple[str, str]:
    """Why the driver's events are not available here, and what to do; empty where they can."""
    if not driver.DEVICE.exists():
        return (
            f"{driver.DEVICE} does not exist.",
            "With an NVIDIA driver, `nvidia-modprobe -u -c=0` creates it.",
        )
    if not os.access(driver.DEVICE, os.R_OK | os.W_OK):
        return f"{driver.DEVICE} cannot be opened.", f"Run pinprof as root, or `sudo chmod a+rw {driver.DEVICE}`."
    if reason := forbidden() or descriptors.impossible():
        return f"pinprof can't get the program's descriptor for unified memory: {reason}.", allow()
    return "", ""


def _check(request: RecordRequest) -> None:
    """Raise where the events are asked for and not available."""
    if request.gpu != "uvm":
        return
    if cuda_traced(request):
        text = "Nsight Systems already records managed memory."
        raise CollectError(text, "Leave out --gpu uvm, or nsys.", "gpu")
    text, remedy = problem()
    if text:
        raise CollectError(text, remedy, "gpu")


def records_events(request: RecordRequest) -> bool:
    """Whether the driver's events are recorded: where they are available and no other tool records managed memory."""
    return request.gpu == "uvm" or (request.gpu != "off" and not cuda_traced(request) and not problem()[0])


def _join(setup: Setup) -> Sequence[Tool]:
    return [ManagedMemoryTool(setup)] if records_events(setup.request) else []


COLLECTOR = Collector(_join, check=_check, forks=True, lost="Events of managed memory are not recorded")
