"""One run under all tools that take part in it: they join, attach to the program that waits, and finish after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from pinprof.collect import BESIDE, chosen, counters, kallsyms, leaves, load
from pinprof.collect.attach import RunningProgram
from pinprof.collect.collector import Launcher, Setup, Tool, Waiter
from pinprof.collect.program import HeldSignals, Program, ending_note, exit_status
from pinprof.collect.request import Outcome, RecordRequest
from pinprof.collect.session import Session, signals_held
from pinprof.scenario import CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.store import LOG

_OURS = (CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE)
"""Variables that another pinprof may have set, for itself."""


class Run:
    """The tools of one recording, and what is noted around it."""

    def __init__(
        self, request: RecordRequest, directory: Path, places: ExitStack, beside: Sequence[str] = BESIDE
    ) -> None:
        """`beside`: the parts that join the request's collectors."""
        self._request, self._directory = request, directory
        kept = {name: value for name, value in os.environ.items() if name not in _OURS}
        self._setup = Setup(request, directory, places, kept | dict(request.environment))
        self._modules = kallsyms.modules()
        self._kernel = kallsyms.Copying(directory, directory / LOG, fork=not request.own_process)
        places.callback(self._kernel.end)
        self.tools: list[Tool] = []
        for part in (*chosen(request), *map(load, beside)):
            self.tools += part.join(self._setup)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the manifest, before the run."""
        return tuple(note for note in self._setup.notes if note)

    def program(self, signals: HeldSignals) -> Program:
        """The program, waiting behind its gate, or the one that runs already."""
        if launcher := next((tool for tool in self.tools if isinstance(tool, Launcher)), None):
            return launcher.launch(signals)
        if self._request.pid:
            return RunningProgram(self._request.pid, self._request.duration_s)
        return Program(self._request.command, self._setup.environment, signals)

    def begin(self, program: Program, waiter: Waiter, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Attach all tools, and start the program when they are ready; `meanwhile` is called in between."""
        for tool in self.tools:
            tool.attach(program)
        meanwhile()
        for tool in self.tools:
            tool.await_ready(waiter)
        self._setup.notes.append(self._kernel.note())
        self._before = counters.read()
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        program.start()

    def program_ended(self) -> None:
        """Note what counts up to here; the recorders still write."""
        for tool in self.tools:
            tool.ended()
        self._counters = counters.growth(self._before, counters.read())

    def discard(self) -> None:
        """Remove what was recorded of no program: it would be in the way of the next recording."""
        for name in leaves(self._request):
            (self._directory / name).unlink(missing_ok=True)

    def outcome(self, program: Program, *, interrupted: bool) -> Outcome:
        """How it went, once everything has ended; exporting may take long here, and may be broken off."""
        assert program.wait_status is not None
        results = [tool.result() for tool in self.tools]
        if kallsyms.modules() != self._modules:
            self._setup.notes.append(kallsyms.save(self._directory))
        notes = [*self._setup.notes, *(note for result in results for note in result.notes)]
        notes.append(ending_note(program.wait_status))
        failure = next((result.failure for result in results if result.failure), None)
        return Outcome(
            state="failed" if failure else "interrupted" if interrupted else "complete",
            exit_status=exit_status(program.wait_status),
            started_utc=self._started_utc,
            duration_ns=program.ended_ns - program.started_ns,
            resources=program.resources(),
            counters=self._counters,
            collectors=tuple(result.facts for result in results if result.facts),
            notes=tuple(dict.fromkeys(note for note in notes if note)),
            failure=failure,
        )


def record(request: RecordRequest, directory: Path, meanwhile: Callable[[], object] = lambda: None) -> Outcome:
    """Run the program to its end; what the tools saw, kallsyms.gz and the log lie in the capture's directory then.

    `meanwhile` is called while the recorders begin and the program waits.
    """
    with ExitStack() as places:
        run = Run(request, directory, places)
        with signals_held() as signals:
            program = run.program(signals)
            session = Session(program, run.tools, signals)
            try:
                run.begin(program, session, meanwhile)
                session.until_program_ends()
                run.program_ended()
            finally:
                if program.wait_status is None:
                    program.abandon()
                session.finish_recorders()
                if not program.begun:
                    run.discard()
        # Signals are free again. To end the recording of a running program is what a signal is for.
        return run.outcome(program, interrupted=session.interruptions > 0 and not request.pid)
