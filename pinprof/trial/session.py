"""A whole trial: check the program, record it, choose cures, warm each up, play rounds, and say what came out."""

from __future__ import annotations

import contextlib
import statistics as medians
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from pinprof.analyze import Run
from pinprof.base import files
from pinprof.base.errors import ToolMissing, TrialError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.redaction import redacted
from pinprof.base.units import format_share
from pinprof.machine.libraries import INSIDE
from pinprof.trial import environment, keeper, prediction, processes, recorded, rounds
from pinprof.trial.cures import CURES, TrialCure, answering
from pinprof.trial.measure import Measure
from pinprof.trial.output import Reference
from pinprof.trial.processes import EndedRun
from pinprof.trial.result import CureResult, Ratio, TrialResult, TrialSide, ranked
from pinprof.trial.rounds import AS_IS, Failed, Pairs

REPORT_VARIABLE = "PINPROF_TRY_REPORT"
"""Where the agent says what it did for a cure: `WORD NUMBER` lines."""

LIMIT_S = 600.0
"""A program that runs longer cannot be repeated often enough."""
_CURED_LIMIT = 5.0
"""With a cure a program may take this many times as long, and a little more."""
_CURED_MARGIN_S = 10.0
_LIBRARIES = {"torch": ("libtorch", "libc10"), "cuda": ("libcuda.so", "libcudart")}
"""What shows that a program uses what a cure needs."""

OUTPUT_DIFFERS = "The program's output differs."

Say = Callable[[str], None]


@dataclass(frozen=True)
class TrialRequest:
    """What to try, and how."""

    command: tuple[str, ...]
    cures: tuple[str, ...] = ()
    """Their ids; empty: those that answer opportunities of the recorded run."""
    measure: Measure = field(default_factory=lambda: Measure("wall"))
    time_s: float = 300.0
    error: float = 0.02
    same_output: bool = False
    alike_output: bool = False
    """Require the same output but for numbers that differ between two runs as is."""
    rows: Callable[[Run], Sequence[TrialCure]] | None = None
    """What makes the cures for the recorded run; None: they are those of the table."""
    record: bool = True
    """Record the program once first; without, nothing is predicted, and the cures must be named."""
    seed: int = 1
    limit_s: float = LIMIT_S
    least_rounds: int = rounds.LEAST_ROUNDS


@dataclass(frozen=True)
class _Run:
    """What one run told."""

    value: float
    peak_bytes: int


@dataclass
class _Candidate:
    """A cure on its way through the trial."""

    cure: TrialCure
    changed: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    """Why it is left out or failed."""
    failed: bool = False
    predicted: Ratio | None = None
    titles: tuple[str, ...] = ()


def unknown(ids: Sequence[str]) -> None:
    """UsageError for a cure that does not exist."""
    import difflib

    for one in ids:
        if one not in CURES:
            near = difflib.get_close_matches(one, CURES, 1)
            remedy = f"Did you mean {near[0]}?" if near else "`pinprof try --list` names all."
            raise UsageError(f"There is no cure {one!r}.", remedy, "cure")


def trial(
    request: TrialRequest, given: Mapping[str, str], say: Say, clock: Callable[[], float] = time.monotonic
) -> TrialResult:
    """Try a program's cures; `given` is its environment as is, `say` gets what is going on.

    TrialError where the program cannot be repeated or tells no number; UsageError for cures that do not exist.
    """
    unknown(request.cures)
    if not request.record and not request.cures:
        raise UsageError("Without a recorded run, pinprof can't choose cures.", "Name cures with --cure.", "cure")
    with files.temporary_folder() as folder, keeper.kept(folder):
        return _Trial(request, given, folder, say, clock).result()


class _Trial:
    def __init__(
        self, request: TrialRequest, given: Mapping[str, str], folder: Path, say: Say, clock: Callable[[], float]
    ) -> None:
        self._request, self._given, self._folder, self._say, self._clock = request, given, folder, say, clock
        self._began = clock()
        self._until = self._began + request.time_s
        self._runs = 0
        self._reference: Reference | None = None
        self._commands: dict[str, tuple[str, ...]] = {}
        self._peaks: dict[str, list[int]] = {}
        self._analysis: Run | None = None
        self._recorded_run: EndedRun | None = None
        self._notes: list[str] = []

    def result(self) -> TrialResult:
        """Go through the whole trial."""
        check = self._check()
        candidates = self._candidates()
        as_is = check.wall_ns / 1e9
        self._leave_out_what_takes_too_long(candidates, as_is)
        self._warm_up(candidates, as_is)
        ready = {one.cure.id: one for one in candidates if not one.problem}
        played = self._play(ready, as_is)
        self._note_what_was_not_reached(played, len(ready))
        for name, reason in played.failed.items():
            ready[name].problem, ready[name].failed = reason, True
        for one in candidates:
            self._predict(one)
        base = self._side(AS_IS, played.as_is)
        return TrialResult(
            command=redacted(self._request.command),
            measure=self._request.measure.text,
            unit=self._request.measure.unit,
            as_is=base,
            rounds=len(played.as_is),
            runs=self._runs,
            duration_s=self._clock() - self._began,
            wanted_error=self._request.error,
            seed=self._request.seed,
            cures=ranked([self._found(one, played, base, len(ready)) for one in candidates]),
            notes=tuple(self._notes),
            interrupted=played.interrupted,
        )

    def _note_what_was_not_reached(self, played: rounds.Rounds, comparisons: int) -> None:
        """Say where the intervals are wider than was asked for, and why."""
        ratios = [pairs.ratio(comparisons) for name, pairs in played.pairs.items() if name not in played.failed]
        widest = max((ratio.error for ratio in ratios if ratio), default=0.0)
        if played.interrupted:
            self._notes.append("The trial was interrupted. The result covers the rounds up to then.")
        elif widest > self._request.error:
            asked, known = (format_share(value, 1) for value in (self._request.error, widest))
            self._notes.append(
                f"The time was up before the error of every ratio reached {asked}; the largest is {known}."
            )

    def _check(self) -> EndedRun:
        """The program as it is, once, or twice where its output counts; TrialError where it cannot be repeated."""
        self._say("Running the program as it is")
        ended = processes.run(self._request.command, self._given, self._folder, self._request.limit_s, watch_input=True)
        self._runs += 1
        if ended.timed_out:
            raise _not_repeatable(
                f"The program runs longer than {self._request.limit_s:g} s", "Try a shorter run of it."
            )
        if ended.read_input:
            raise _not_repeatable("The program reads its standard input", "Give it a file: < FILE, or < /dev/null.")
        if ended.status:
            raise _not_repeatable(f"As it is, the program {ended.ending}", "Try a program that ends with status 0.")
        measure = self._request.measure
        if not measure.recorded and measure.of_run(ended) is None:
            raise _nothing(measure)
        if self._request.same_output or self._request.alike_output:
            self._reference = Reference(measure.masked(ended.output), alike=self._request.alike_output)
            self._run(AS_IS, {}, self._request.limit_s, recorded_run=False)
            self._reference.fixed = True
        return ended

    def _candidates(self) -> list[_Candidate]:
        """What is to be tried, most promising first: as asked for, else what the recorded run speaks for."""
        if self._request.record:
            self._record(needed=not self._request.cures or self._request.measure.recorded)
        rows: Sequence[TrialCure] = [CURES[name] for name in dict.fromkeys(self._request.cures)]
        if not rows:
            assert self._analysis is not None
            rows = self._request.rows(self._analysis) if self._request.rows else self._selected()
        candidates = [_Candidate(row) for row in rows]
        self._commands = {row.id: row.command for row in rows if row.command}
        for one in candidates:
            answered = prediction.answered(prediction.candidates(self._analysis), one.cure)
            one.titles = tuple(answer.title for answer in answered)
            self._prepare(one)
        return candidates

    def _record(self, *, needed: bool) -> None:
        """Record the program once, for its opportunities; without a recording nothing is predicted."""
        self._say("Recording the program")
        found = recorded.record(
            self._request.command, self._given, {}, self._folder, self._request.limit_s, calibrate=True
        )
        self._runs += 1
        if found.capture is None:
            self._notes.append(f"The program could not be recorded, so nothing is predicted: {found.problem}")
            if needed:
                raise TrialError(
                    f"The program could not be recorded: {found.problem}",
                    "Name what to try with --cure.",
                    "not-recorded",
                )
            return
        if self._request.measure.recorded and self._request.measure.of_recording(found.capture) is None:
            raise _nothing(self._request.measure)
        self._say("Finding what to change")
        self._analysis, self._recorded_run = recorded.explained(found), found.ended

    def _selected(self) -> Sequence[TrialCure]:
        """The rows that answer an opportunity, and that the program can use."""
        assert self._analysis is not None
        found = self._analysis.opportunities.found if self._analysis.opportunities else ()
        capture = self._analysis.capture
        rows = [
            row
            for row in answering(frozenset(one.cure.id for one in prediction.candidates(self._analysis)))
            if not row.needs or recorded.uses(capture, _LIBRARIES[row.needs])
        ]
        carries = [sum(one.saving.likely_ns for one in found if one.cure.id in row.predicted_by) for row in rows]
        return [row for _, row in sorted(zip(carries, rows, strict=True), key=lambda pair: -pair[0])]

    def _prepare(self, one: _Candidate) -> None:
        """Find out what a cure changes, and whether it can be added to what the user has set."""
        try:
            library = INSIDE.find() if one.cure.by_agent else None
        except ToolMissing as error:
            one.problem = error.problem
            return
        changed = environment.added(self._given, one.cure.settings, library)
        if isinstance(changed, str):
            one.problem = changed
        else:
            one.changed = changed

    def _leave_out_what_takes_too_long(self, candidates: Sequence[_Candidate], run_s: float) -> None:
        """Leave out the last cures until a few rounds fit into the time; the first stays."""
        left = [one for one in candidates if not one.problem]
        runs = (self._until - self._clock()) / max(run_s, 1e-3)
        room = max(int((runs - rounds.FEWEST_ROUNDS) / (rounds.FEWEST_ROUNDS + 1)), 1)
        for one in left[room:]:
            one.problem = "There was no time for it: give more with --time, or name fewer with --cure."

    def _warm_up(self, candidates: Sequence[_Candidate], as_is_s: float) -> None:
        """Run each cure once, uncounted: it must act, and the program must do its work."""
        for one in candidates:
            if one.problem:
                continue
            self._say(f"Warming up: {one.cure.title}")
            report = self._folder / "report"
            report.unlink(missing_ok=True)
            try:
                self._run(one.cure.id, one.changed, self._cured_limit(as_is_s))
            except Failed as error:
                one.problem, one.failed = str(error), True
                continue
            if one.cure.by_agent:
                said = _said(report)
                one.problem = _idle(said)
                if "harm" in said:
                    one.problem, one.failed = "A forked child reads the memory of its parent.", True

    def _cured_limit(self, as_is_s: float) -> float:
        return min(self._request.limit_s, as_is_s * _CURED_LIMIT + _CURED_MARGIN_S)

    def _play(self, ready: Mapping[str, _Candidate], as_is_s: float) -> rounds.Rounds:
        self._peaks.clear()
        measured: dict[str, int] = {}

        def run(name: str) -> float:
            number = measured[name] = measured.get(name, 0) + 1
            self._say(f"Round {number}: {ready[name].cure.title if name else 'as it is'}")
            limit_s = self._cured_limit(as_is_s) if name else self._request.limit_s
            found = self._run(name, ready[name].changed if name else {}, limit_s)
            self._peaks.setdefault(name, []).append(found.peak_bytes)
            return found.value

        wanted = rounds.Wanted(self._request.error, self._until, self._request.seed, self._request.least_rounds)
        if not ready:
            return rounds.Rounds(as_is=[run(AS_IS)])
        return rounds.play(list(ready), run, wanted, self._clock, as_is_s)

    def _run(self, name: str, changed: Mapping[str, str], limit_s: float, *, recorded_run: bool | None = None) -> _Run:
        """Run the program once and take the number; Failed where it tells none, TrialError of the program as it is.

        `recorded_run`: whether to record it; None: as the measure needs it.
        """
        measure, command = self._request.measure, self._commands.get(name, self._request.command)
        if changed and REPORT_VARIABLE not in changed:
            changed = {**changed, REPORT_VARIABLE: str(self._folder / "report")}
        self._runs += 1
        with self._blamed(name):
            if measure.recorded if recorded_run is None else recorded_run:
                found = recorded.record(command, self._given, changed, self._folder, limit_s)
                ended = found.ended
                self._check_ending(ended)
                value = measure.of_recording(found.capture) if found.capture is not None else None
            else:
                ended = processes.run(command, {**self._given, **changed}, self._folder, limit_s)
                self._check_ending(ended)
                value = measure.of_run(ended) if not measure.recorded else float(ended.wall_ns)
            if self._reference is not None and not self._reference.holds(measure.masked(ended.output)):
                raise Failed(OUTPUT_DIFFERS)
            if value is None:
                raise Failed(measure.missing)
        return _Run(value, ended.peak_bytes)

    @contextlib.contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        """A failure of the program as it is ends the trial; with a cure it is the cure's result."""
        try:
            yield
        except Failed as error:
            if name != AS_IS:
                raise
            raise TrialError(
                f"The program's output differs from run to run: {error}",
                "Leave out --same-output, or try a run that repeats.",
                "not-repeatable",
            ) from error

    @staticmethod
    def _check_ending(ended: EndedRun) -> None:
        if ended.timed_out or ended.status:
            raise Failed(f"The program {ended.ending}.")

    def _predict(self, one: _Candidate) -> None:
        measure, run = self._request.measure, self._recorded_run
        if self._analysis is None or run is None:
            return
        value = measure.of_recording(self._analysis.capture) if measure.recorded else measure.of_run(run)
        one.predicted = prediction.predicted(self._analysis, one.cure, measure, value or 0.0, run.wall_ns)

    def _side(self, name: str, values: Sequence[float]) -> TrialSide:
        peaks = self._peaks.get(name) or [0]
        return TrialSide(medians.median(values), min(values), max(values), int(medians.median(peaks)), tuple(values))

    def _found(self, one: _Candidate, played: rounds.Rounds, base: TrialSide, comparisons: int) -> CureResult:
        pairs = played.pairs.get(one.cure.id, Pairs())
        ratio = pairs.ratio(comparisons) if not one.problem else None
        side = self._side(one.cure.id, pairs.cured) if pairs.cured and not one.problem else None
        state = "failed" if one.failed else "left-out" if one.problem else "measured" if ratio else "too-few"
        return CureResult(
            id=one.cure.id,
            title=one.cure.title,
            changes=one.cure.changes,
            settings=(*(setting.text for setting in one.cure.settings), *([INSIDE.title] if one.cure.by_agent else [])),
            state=state,  # type: ignore[arg-type]  # one of its literals
            problem=one.problem,
            rounds=len(pairs.cured),
            side=side,
            ratio=ratio,
            significant=ratio is not None and not ratio.low <= 1 <= ratio.high,
            predicted_ratio=one.predicted,
            opportunities=one.titles,
            memory_bytes=side.peak_bytes - base.peak_bytes if side else None,
            costs=one.cure.costs,
            permanent=one.cure.permanent,
            source=one.cure.source,
        )


def _said(report: Path) -> set[str]:
    """What the agent said that it did, in words."""
    try:
        return {line.partition(" ")[0] for line in report.read_text("utf-8", "replace").splitlines()}
    except OSError:
        return set()


def _idle(said: set[str]) -> str:
    """Why a cure by the agent did nothing; empty where it did something."""
    if not said:
        return (
            "No process of the program loads the agent: it is linked statically, belongs to another user, "
            "or is only a shell."
        )
    return "" if "acts" in said else "The program makes none of the calls that this cure replaces."


def _not_repeatable(problem: str, remedy: str) -> TrialError:
    return TrialError(f"{problem}, so it cannot be repeated.", remedy, "not-repeatable")


def _nothing(measure: Measure) -> TrialError:
    return TrialError(measure.missing, "Measure something else with --measure.", "measure")
