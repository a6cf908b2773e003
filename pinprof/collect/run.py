"""One run under all tools that take part in it: they join, attach to the program that waits, and finish after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pinprof.base.errors import CollectError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect import BESIDE, chosen, counters, kallsyms, load
from pinprof.collect.attach import RunningProgram
from pinprof.collect.collector import Collector, Launcher, Setup, Tool, Waiter
from pinprof.collect.idle import Preparation, Step
from pinprof.collect.limits import at_the_kernels_rate, few_processes
from pinprof.collect.program import HeldSignals, Program, ending_note, exit_status
from pinprof.collect.request import RING_VARIABLE, Outcome, RecordRequest
from pinprof.collect.session import Session, signals_held
from pinprof.collect.timed import TimedProgram
from pinprof.collect.trouble import Trouble
from pinprof.scenario import CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.streams.store import LOG

_OURS = (CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE, RING_VARIABLE)
"""Variables that another pinprof may have set, for itself."""


class CollectorRun:
    """The tools of one recording, and what is noted around it; one that fails is left out, and the others go on."""

    def __init__(self, request: RecordRequest, directory: Path | None, places: ExitStack, trouble: Trouble) -> None:
        """Without a directory no tool takes part."""
        self._trouble, self._directory = trouble, directory
        request, slower = at_the_kernels_rate(request)
        self._setup = Setup(request, directory or Path(), places, environment_of(request), [slower])
        self.tools: list[Tool] = []
        self._part_of: dict[Tool, Collector] = {}
        self._modules, self._kernel = kallsyms.modules(), None
        self._before, self._counters = counters.read(), dict[str, int]()
        self._started_utc = _now()
        if directory is None:
            return
        beside = (load(name) for name in BESIDE if name not in request.left_out)
        parts = [*chosen(request), *beside]
        few = None if trouble.raises else few_processes()
        if few:
            trouble.met(few, "Samples and Python lines are not recorded")
            parts = [part for part in parts if not part.forks]
        elif not all(part.inside for part in chosen(request)):
            with trouble.kept(kallsyms.LOST):
                self._kernel = kallsyms.Copying(directory, directory / LOG, fork=not request.own_process)
                places.callback(self._kernel.end)
        for part in parts:
            with trouble.kept(part.lost):
                joined = part.join(self._setup)
                self._part_of |= dict.fromkeys(joined, part)
                self.tools += joined

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the manifest, before the run."""
        return tuple(note for note in self._setup.notes if note)

    def program(self, signals: HeldSignals) -> Program:
        """The program, waiting behind its gate, or the one that runs already."""
        for launcher in [tool for tool in self.tools if isinstance(tool, Launcher)]:
            with self._needed(launcher):
                return launcher.launch(signals)
        request, environment = self._setup.request, self._setup.environment
        if request.pid:
            return RunningProgram(request.pid, request.duration_s)
        if request.duration_s:
            return TimedProgram(request.command, environment, signals, request.duration_s)
        return Program(request.command, environment, signals)

    def begin(self, program: Program, waiter: Waiter, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Attach all tools to a program that waits, until they are ready; `meanwhile` is called in between."""
        for tool in self.tools.copy():
            with self._needed(tool):
                tool.attach(program)
        with self._trouble.kept():
            meanwhile()
        for tool in self.tools.copy():
            with self._needed(tool):
                tool.await_ready(waiter)
        if self._kernel:
            with self._trouble.kept(kallsyms.LOST):
                self._setup.notes.append(self._kernel.note())
        self._before, self._started_utc = counters.read(), _now()

    def flush(self) -> None:
        """What was recorded until now lies in the capture's files when this returns, as far as recorders answer."""
        for tool in self.tools:
            tool.flush()

    @property
    def recording(self) -> bool:
        """Whether the samples' recorder still runs."""
        first = next((tool.recorder for tool in self.tools if tool.recorder is not None), None)
        return first is not None and not first.reap()

    def under_way(self) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
        """The collectors' facts and notes before the end, as a manifest has them."""
        known = [tool.under_way() for tool in self.tools]
        notes = dict.fromkeys(note for result in known for note in result.notes)
        return tuple(result.facts for result in known if result.facts), (*self.notes, *notes)

    def program_ended(self) -> None:
        """Note what counts up to here; the recorders still write."""
        for tool in self.tools:
            with self._trouble.kept(self._part_of[tool].lost):
                tool.ended()
        self._counters = counters.growth(self._before, counters.read())

    def discard(self) -> None:
        """Remove what was recorded of no program: it would be in the way of the next recording."""
        for part in dict.fromkeys(self._part_of.values()):
            self._remove(part)

    def outcome(self, program: Program, *, interrupted: bool) -> Outcome:
        """How it went, once everything has ended; exporting may take long here, and may be broken off."""
        assert program.wait_status is not None
        results = []
        for tool in self.tools:
            with self._trouble.kept(self._part_of[tool].lost):
                results.append(tool.result())
        if self._kernel and self._directory and kallsyms.modules() != self._modules:
            with self._trouble.kept(kallsyms.LOST):
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

    @contextmanager
    def _needed(self, tool: Tool) -> Iterator[None]:
        """A step without which a tool can't go on: where it fails, the tool is left out and leaves nothing behind."""
        part, done = self._part_of[tool], False
        with self._trouble.kept(part.lost):
            try:
                yield
                done = True
            finally:
                if not done and not self._trouble.raises:
                    self.tools.remove(tool)
                    tool.left_out()
                    self._remove(part)

    def _remove(self, part: Collector) -> None:
        for name in part.leaves if self._directory else ():
            for path in list(self._setup.directory.glob(name)):
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class RecordingHooks:
    """What is called on the way of a recording."""

    meanwhile: Callable[[], object] = lambda: None
    """While the recorders begin, and a program that pinprof starts waits."""
    needed: Sequence[Step] = ()
    """What is prepared while the program runs; what is left of it, while the recorders end."""
    wanted: Sequence[Step] = ()
    """The same of what can wait, for as long as either takes."""
    watch: Callable[[CollectorRun], float] = lambda _: float("inf")
    """Called before the program begins and between waits while it runs, as `Tool.watch`: in how many seconds at most to
    call it again."""
    program_goes_on: Callable[[], object] = lambda: None
    """When the recording has ended and the program that pinprof started has not."""


def record(
    request: RecordRequest, directory: Path | None, trouble: Trouble, hooks: RecordingHooks = RecordingHooks()
) -> Outcome:
    """Run the program and record it; what the tools saw, kallsyms.zst and the log lie in the capture's directory then.

    Without a directory the program runs by itself. OSError where not even that can be started.
    """
    with ExitStack() as places:
        if not request.delay_s or directory is None:
            run = CollectorRun(request, directory, places, trouble)
            with signals_held() as signals:
                session = _recorded(run, run.program(signals), signals, trouble, hooks)
        else:
            with signals_held() as signals:
                program = _after_delay(request, signals)
                if program.wait_status is not None and not request.pid:
                    late = CollectError(
                        "The program ended before its recording began.", "Give a shorter --delay.", "delay"
                    )
                    trouble.met(late)
                    directory = None
                try:
                    run = CollectorRun(replace(request, pid=program.pid), directory, places, trouble)
                except BaseException:
                    program.abandon()
                    Session(program, [], signals).until_gone()
                    raise
                session = _recorded(run, program, signals, trouble, hooks)
        # Signals are free again. To end the recording of a running program is what a signal is for.
        return run.outcome(session.program, interrupted=session.interruptions > 0 and not request.pid)


def _recorded(
    run: CollectorRun, program: Program, signals: HeldSignals, trouble: Trouble, hooks: RecordingHooks
) -> Session:
    """A program and its tools, from their start to their end."""
    session, preparation = Session(program, run.tools, signals), Preparation(hooks.needed, hooks.wanted)
    try:
        if not program.over:
            with trouble.kept():
                run.begin(program, session, hooks.meanwhile)
                hooks.watch(run)
            program.start()
        with trouble.kept():
            session.until_program_ends(preparation, lambda: hooks.watch(run))
        # As well where looking after the tools has failed.
        session.until_over()
        with trouble.kept():
            run.program_ended()
    finally:
        if not program.over:
            program.abandon()
        with trouble.kept():
            session.finish_recorders(preparation.finish if program.wait_status is not None else lambda _: None)
        if not program.begun:
            run.discard()
        if program.wait_status is None:
            hooks.program_goes_on()
            session.until_gone()
    return session


def _after_delay(request: RecordRequest, signals: HeldSignals) -> Program:
    """The program, which has run for the delay, or has ended by then."""
    if request.pid:
        program: Program = RunningProgram(request.pid, request.duration_s)
    else:
        timed = TimedProgram(request.command, environment_of(request), signals, request.duration_s)
        timed.start_unrecorded()
        program = timed
    Session(program, [], signals).until_gone(request.delay_s)
    if program.wait_status is not None and request.pid:
        raise CollectError("The program ended before its recording began.", "Give a shorter --delay.", "delay")
    return program


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def environment_of(request: RecordRequest) -> dict[str, str]:
    """The program's, without what another pinprof has set for itself."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    return kept | dict(request.environment)
