"""What a check keeps of one run: the amount that each budget is about, and what tells whether runs can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from pinprof.analyze.run import Run
from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.budgets import Budget
from pinprof.check.measures import MEASURES
from pinprof.check.view import Amount, RunView, Unassessable
from pinprof.compare.runs import identity_of
from pinprof.compare.surroundings import surroundings_of
from pinprof.streams.store import PARTIAL

Taken = Amount | Unassessable


@dataclass(frozen=True)
class TakenRun:
    """One recording, as far as budgets need it: small, so that many can be kept."""

    path: str
    amounts: Mapping[Budget, Taken]
    """What it shows of each budget, or why it does not tell."""
    identity: str
    """The same for two copies of one recording."""
    command: tuple[str, ...]
    started_utc: str
    """Empty where the recording does not say."""
    exit_status: int
    around: Mapping[str, str]
    """What → how it is around the program."""
    gaps: tuple[str, ...] = ()
    """What of the run is missing, one sentence each."""

    def named(self, path: str) -> TakenRun:
        """The same under another name."""
        return replace(self, path=path)


def take(analysis: Run, budgets: Sequence[Budget]) -> TakenRun:
    """One analysed recording, measured by every budget."""
    capture = analysis.capture
    outcome, view = capture.manifest.outcome, RunView(analysis)
    status = outcome.get("exit_status")
    whole = _unfinished(analysis)
    return TakenRun(
        path=capture.path,
        amounts={budget: whole or _amount(view, budget) for budget in budgets},
        identity=identity_of(capture),
        command=tuple(capture.manifest.command),
        started_utc=str(outcome.get("started_utc") or ""),
        exit_status=status if isinstance(status, int) else 0,
        around=surroundings_of(analysis),
        gaps=tuple(gap.text for gap in analysis.gaps),
    )


def _amount(view: RunView, budget: Budget) -> Taken:
    try:
        return MEASURES[budget.measure](view, budget)
    except Unassessable as error:
        return error


def _unfinished(analysis: Run) -> Unassessable | None:
    """Why a recording is no whole run; None where it is one."""
    if damage := next((gap.text for gap in analysis.gaps if gap.damaged), ""):
        return Unassessable(damage, "Copy the recording again, or record again.")
    state = analysis.capture.manifest.outcome.get("state")
    if state in (None, "complete") and not PurePath(analysis.capture.path).name.endswith(PARTIAL):
        return None
    how = "failed" if state == "failed" else "was interrupted"
    return Unassessable(
        f"The recording {how}, so it does not cover a whole run.", "Record again, and let the program finish."
    )
