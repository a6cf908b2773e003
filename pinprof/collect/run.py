"""One run under all tools that take part in it: they join, attach to the program that waits, and finish after it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pinprof.base.errors import CollectError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import BESIDE, chosen, counters, kallsyms, leaves, load
from pinprof.collect.attach import RunningProgram
from pinprof.collect.collector import Launcher, Setup, Tool, Waiter
from pinprof.collect.program import HeldSignals, Program, ending_note, exit_status
from pinprof.collect.request import Outcome, RecordRequest
from pinprof.collect.session import Session, signals_held
from pinprof.collect.timed import TimedProgram
from pinprof.scenario import CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.streams.store import LOG

_OURS = (CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE)
"""Variables that another pinprof may have set, for itself."""


class CollectorRun:
    """The tools of one recording, and what is noted around it."""

    def __init__(self, request: RecordRequest, directory: Path, places: ExitStack) -> None:
        self._request, self._directory = request, directory
        self._setup = Setup(request, directory, places, _environment(request))
        self._modules = kallsyms.modules()
        self._kernel = kallsyms.Copying(directory, directory / LOG, fork=not request.own_process)
        places.callback(self._kernel.end)
        self.tools: list[Tool] = []
        for part in (*chosen(request), *map(load, BESIDE)):
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
        command, environment = self._request.command, self._setup.environment
        if self._request.duration_s:
            return TimedProgram(command, environment, signals, self._request.duration_s)
        return Program(command, environment, signals)

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
            incomplete={kind: text for result in results for kind, text in result.incomplete.items()},
            recorded_ns=(program.started_ns, program.ended_ns) if isinstance(program, TimedProgram) else (),
        )


@dataclass(frozen=True)
class RecordingHooks:
    """What is called on the way of a recording."""

    meanwhile: Callable[[], object] = lambda: None
    """While the recorders begin, and a program that pinprof starts waits."""
    recorders_end: Callable[[], object] = lambda: None
    """While the recorders end, where the program has ended before them."""
    program_goes_on: Callable[[], object] = lambda: None
    """When the recording has ended and the program that pinprof started has not."""


def record(request: RecordRequest, directory: Path, hooks: RecordingHooks = RecordingHooks()) -> Outcome:
    """Record the program; what the tools saw, kallsyms.gz and the log lie in the capture's directory then."""
    with ExitStack() as places:
        if not request.delay_s:
            run = CollectorRun(request, directory, places)
            with signals_held() as signals:
                session = _recorded(run, run.program(signals), signals, hooks)
        else:
            with signals_held() as signals:
                program = _after_delay(request, signals)
                try:
                    run = CollectorRun(replace(request, pid=program.pid), directory, places)
                except BaseException:
                    program.abandon()
                    Session(program, [], signals).until_gone()
                    raise
                session = _recorded(run, program, signals, hooks)
        # Signals are free again. To end the recording of a running program is what a signal is for.
        return run.outcome(session.program, interrupted=session.interruptions > 0 and not request.pid)


def _recorded(run: CollectorRun, program: Program, signals: HeldSignals, hooks: RecordingHooks) -> Session:
    """A program and its tools, from their start to their end."""
    session = Session(program, run.tools, signals)
    try:
        run.begin(program, session, hooks.meanwhile)
        session.until_program_ends()
        run.program_ended()
    finally:
        if not program.over:
            program.abandon()
        session.finish_recorders(hooks.recorders_end if program.wait_status is not None else lambda: None)
        if not program.begun:
            run.discard()
        if program.wait_status is None:
            hooks.program_goes_on()
            session.until_gone()
    return session


def _after_delay(request: RecordRequest, signals: HeldSignals) -> Program:
    """The program, which has run for the delay; CollectError where it has ended by then."""
    if request.pid:
        program: Program = RunningProgram(request.pid, request.duration_s)
    else:
        timed = TimedProgram(request.command, _environment(request), signals, request.duration_s)
        timed.start_unrecorded()
        program = timed
    session = Session(program, [], signals)
    session.until_gone(request.delay_s)
    if program.wait_status is not None:
        raise CollectError("The program ended before its recording began.", "Give a shorter --delay.", "delay")
    return program


def _environment(request: RecordRequest) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    return kept | dict(request.environment)
