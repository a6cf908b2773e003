"""Recording a program as often as its budgets need, alternating with a baseline command if there is one.

Counts take the runs that budgets name. Times take more where these vary: rounds go on until they would show every
excess that is worth noticing, or no further round fits into the time. Whether a limit is kept plays no part in that, so
stopping favours no verdict. The order within a round is chance's, by the seed.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from pinprof.analyze import analyze
from pinprof.base import files
from pinprof.base.errors import CollectError, TrialError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.budgets import Budget
from pinprof.check.judge import precise
from pinprof.check.taken import TakenRun, take
from pinprof.collect.program import find_program
from pinprof.trial import recorded

MOST_ROUNDS = 200
_HOUR_S = 3600.0


@dataclass(frozen=True)
class CheckRequest:
    """What to record."""

    command: tuple[str, ...]
    baseline: tuple[str, ...]
    """Empty without one."""
    budgets: tuple[Budget, ...]
    time_s: float
    """No round begins that would end later, but those that budgets name are played all the same."""
    seed: int = 1
    keep: Path | None = None
    """A folder for the captures; None where they go once they are read."""


@dataclass
class RecordedSides:
    """The runs of both sides, number k of each beside the other."""

    runs: list[TakenRun] = field(default_factory=list)
    against: list[TakenRun] = field(default_factory=list)


def record(request: CheckRequest, environment: Mapping[str, str], tell: Callable[[str], None]) -> RecordedSides:
    """Play all rounds; `tell` gets what runs. ProgramNotFound, CollectError, TrialError where a run fails."""
    sides = [request.command, *([request.baseline] if request.baseline else [])]
    for command in sides:
        find_program(command[0])
    order, result = random.Random(request.seed), RecordedSides()
    needed = max(budget.runs for budget in request.budgets)
    began = time.monotonic()
    with files.temporary_folder() as folder:
        for number in range(1, MOST_ROUNDS + 1):
            turns = list(range(len(sides)))
            order.shuffle(turns)
            for side in turns:
                tell(f"Run {number} of {needed if number <= needed else 'more'}{' of the baseline' if side else ''}")
                found = _run(request, sides[side], f"{'baseline' if side else 'run'}-{number}", folder, environment)
                (result.against if side else result.runs).append(found)
            spent = time.monotonic() - began
            if number < needed:
                continue
            late = spent * (number + 1) / number > request.time_s
            if late or precise(result.runs, request.budgets, result.against, paired=bool(request.baseline)):
                break
    return result


def _run(
    request: CheckRequest, command: Sequence[str], name: str, folder: Path, environment: Mapping[str, str]
) -> TakenRun:
    limit_s = max(request.time_s, _HOUR_S)
    found = recorded.record(command, environment, {}, folder, limit_s)
    if found.capture is None:
        raise CollectError(
            f"{name} cannot be recorded: {found.problem}", "Run `pinprof doctor` for the fix.", "check-run"
        )
    if found.ended.status:
        ending = "did not end in time" if found.ended.timed_out else f"exits with {found.ended.status}"
        raise TrialError(
            f"The program {ending} in {name}, and a failed run can't be judged.",
            "Fix the program, or judge captures of it: pinprof check CAPTURE…",
            "check-run",
        )
    analysis = recorded.explained(found) or analyze(found.capture)
    run = take(analysis, request.budgets)
    path = Path(run.path)
    if request.keep is not None and path.exists():
        request.keep.mkdir(parents=True, exist_ok=True)
        target = request.keep / f"{name}.pinprof"
        shutil.move(path, target)
        return run.named(str(target))
    return run.named(f"{name} of {command[0]}")
