"""The one shape of everything that takes part in a recording: collectors, and what works beside them.

A module declares its part as `COLLECTOR = Collector(…)`. For a recording that it has something to do in, `join` gives
its tools. A recording (run.py) takes all tools through the same steps, in the order of their methods here.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import Any

from pinprof.base import files
from pinprof.base.errors import CollectError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.program import HeldSignals, Program
from pinprof.collect.recorder import Recorder
from pinprof.collect.request import RecordRequest
from pinprof.machine.libraries import INSIDE

SAMPLES_LOST = "CPU time, page faults and waits are not recorded"


@dataclass(frozen=True)
class Setup:
    """A recording before anything of it runs: what tools are made from, and what they add to it."""

    request: RecordRequest
    directory: Path
    """The capture."""
    places: ExitStack
    """Closed after the recording: for folders and FIFOs that only serve it."""
    environment: dict[str, str]
    """The program's."""
    notes: list[str] = field(default_factory=list)
    """Sentences for the manifest."""

    def agent(self, name: str) -> tuple[Path, Path]:
        """The agent, and the capture's folder NAME for what it writes; ToolMissing or CollectError without these."""
        library, folder = INSIDE.find(), (self.directory / name).resolve()
        try:
            folder.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
        except OSError as error:
            raise CollectError(f"{error.strerror}.", "", "output") from error
        self.places.callback(files.remove_empty, folder)
        return library, folder


@dataclass(frozen=True)
class ToolResult:
    """What one tool has to say after the run."""

    facts: Mapping[str, Any]
    """`name, version, command, options`, for the manifest's `collectors`; empty where it is not to be listed."""
    notes: tuple[str, ...] = ()
    failure: CollectError | None = None
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """What of the program was not recorded: kind of gap (analyze/completeness.py) → one sentence or two."""


class Tool:
    """One part of one recording; a step in which it has nothing to do stays as it is here."""

    recorder: Recorder | None = None
    """Its process, from `attach` on, or `launch`."""

    def attach(self, program: Program) -> None:
        """Begin with a program that waits; raises why that cannot be."""

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until it records; raises why it does not."""

    def watch(self) -> float:
        """Called between waits while the program runs; in how many seconds at most to call it again."""
        return float("inf")

    def flush(self) -> None:
        """While the program runs: what was recorded until now lies in its files when this returns, if it can."""

    def pause(self) -> None:
        """As `flush`; and what happens from now on need not be recorded, until `resume`."""
        self.flush()

    def resume(self) -> None:
        """Record again."""

    def under_way(self) -> ToolResult:
        """What `result` will say, as far as it is known by then."""
        return ToolResult({})

    def ended(self) -> None:
        """The program has ended, its recorders not yet."""

    def left_out(self) -> None:
        """It can't go on: no process of it is left."""
        if self.recorder is not None:
            self.recorder.send(signal.SIGKILL)
            self.recorder.wait()

    def result(self) -> ToolResult:
        """After its recorder has ended: leave what it recorded in the capture, and say how it went."""
        return ToolResult({})


class Launcher(Tool, ABC):
    """A tool that starts the program itself: the first of a collector that `launches`."""

    @abstractmethod
    def launch(self, signals: HeldSignals) -> Program:
        """Start the program, which then waits behind its gate."""


class Waiter(ABC):
    """Whoever waits for the processes of a recording."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        self.interruptions = 0
        """How often the user asked for an end."""
        self.interrupted_by = int(signal.SIGINT)
        """By which signal first."""

    @property
    def recorders(self) -> list[Recorder]:
        """The processes that the tools have started so far."""
        return [tool.recorder for tool in self.tools if tool.recorder is not None]

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Wait for something to happen, for `timeout_s` seconds at most, and note which recorder has ended."""

    def wait_ready(self, timeout_s: float) -> None:
        """The same while a recorder begins: KeyboardInterrupt when the user gives up."""
        self.wait(timeout_s)
        if self.interruptions:
            raise KeyboardInterrupt(self.interrupted_by)


@dataclass(frozen=True)
class Collector:
    """What a module has to do with recordings."""

    join: Callable[[Setup], Sequence[Tool]]
    """Its tools for one recording, not yet at work; none where it does not take part."""
    check: Callable[[RecordRequest], object] = lambda _: None
    """Raises ToolMissing, CollectError or UsageError when a request cannot be recorded here; writes nothing."""
    samples: bool = False
    """It samples the program's stacks on CLOCK_MONOTONIC; of those, one at a time."""
    inside: bool = False
    """It samples inside the program: with Python's functions and lines, and without functions of the kernel."""
    launches: bool = False
    """It starts the program itself, and so cannot record one that runs already; of those, one at a time."""
    traces_cuda: bool = False
    """It records CUDA calls and NVTX ranges; nothing else needs to."""
    forks: bool = False
    """It records by a process of its own."""
    lost: str = "The recording is not complete"
    """What to say where it cannot take part."""
    leaves: tuple[str, ...] = ()
    """Patterns of the files that hold what it recorded: a capture with none of them is not kept after an error."""
