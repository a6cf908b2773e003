"""Runs and budgets in, one verdict each out.

What is counted is judged run by run: every run must keep the budget, and what a run does not tell is never passed.
Times vary by chance: a budget is broken where the mean is above its limit by more than the smallest excess that
matters, and by more than chance; it holds where there is no such excess, and runs that vary so would have shown one
twice as large; otherwise they are too few, or vary too much, and the verdict says how many would tell. Baselines are
judged likewise, as ratios (`pinprof.base.statistics`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.base.errors import CaptureError
from pinprof.base.units import format_counted
from pinprof.check.budgets import Budget, format_amount, refuse_alike
from pinprof.check.chance import Test, decide, share_test, time_test
from pinprof.check.counts import count_verdict
from pinprof.check.taken import Taken, TakenRun
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.check.view import Amount, Unassessable
from pinprof.compare.sides import refuse_copies
from pinprof.compare.surroundings import differing

_MACHINE = ("processor", "GPU")
"""Surroundings that decide how long the same work takes: times are not compared where they differ."""
_GIVE_BASELINE = "Give its recordings with --against."


def judge(
    runs: Sequence[TakenRun],
    budgets: Sequence[Budget],
    against: Sequence[TakenRun] = (),
    *,
    paired: bool = False,
    allowed: bool = False,
    notes: Sequence[str] = (),
) -> Checked:
    """Judge runs, as `taken.take` measured them by these budgets, and against the baseline's.

    `paired`: number k of the runs was recorded beside number k of the baseline's. UsageError where budgets have the
    same name, or a recording is given twice; CaptureError without any run.
    """
    if not runs:
        raise CaptureError("There is no recording to judge.", "Give a capture, or a program after `--`.", "check-runs")
    refuse_alike(budgets)
    refuse_copies((run.path, run.identity) for run in (*runs, *against))
    apart = {one.what: one for one in differing([run.around for run in against], [run.around for run in runs])}
    machine = next((apart[what].what for what in _MACHINE if what in apart), "") if against else ""
    verdicts: list[BudgetVerdict | Test] = [_judged(budget, runs, against, paired, machine) for budget in budgets]
    tests = [one for one in verdicts if isinstance(one, Test)]
    decided = dict(zip([test.budget for test in tests], decide(tests), strict=True))
    return Checked(
        verdicts=tuple(decided[one.budget] if isinstance(one, Test) else one for one in verdicts),
        captures=tuple(run.path for run in runs),
        notes=(*notes, *_notes(runs, against)),
        against=tuple(run.path for run in against),
        allowed=allowed,
    )


def judgeable(
    budgets: Sequence[Budget], runs: Sequence[TakenRun], against: Sequence[TakenRun]
) -> tuple[tuple[Budget, ...], str]:
    """Those of budgets that nobody wrote which runs can tell, and a note on the others; empty without any."""
    both, fewest = (*runs, *against), min(len(runs), len(against))
    kept, reasons = [], []
    for one in budgets:
        reason = next((str(taken) for run in both if isinstance(taken := run.amounts[one], Unassessable)), "")
        if reason and not any(isinstance(run.amounts[one], Amount) for run in both):
            reasons.append(reason)
        elif one.limited.how == "time" and fewest < one.runs:
            reasons.append(f"Times need {one.runs} runs of each side.")
        else:
            kept.append(one)
    names = ", ".join(one.measure for one in budgets if one not in kept)
    return tuple(kept), f"Not compared: {names}. {' '.join(dict.fromkeys(reasons))}" if reasons else ""


def in_turns(runs: Sequence[TakenRun], against: Sequence[TakenRun]) -> tuple[list[TakenRun], list[TakenRun], bool]:
    """Both sides in the order of time, and whether their recordings alternate: each run next to one of the baseline."""
    sides = [sorted(side, key=lambda run: run.started_utc) for side in (runs, against)]
    both = sorted([(run.started_utc, number) for number, side in enumerate(sides) for run in side])
    pairs = [{both[at][1], both[at + 1][1]} for at in range(0, len(both) - 1, 2)]
    known = all(run.started_utc for side in sides for run in side)
    return sides[0], sides[1], known and len(runs) == len(against) and all(len(pair) == 2 for pair in pairs)


def precise(
    runs: Sequence[TakenRun], budgets: Sequence[Budget], against: Sequence[TakenRun] = (), *, paired: bool = False
) -> bool:
    """Whether further runs would tell no time better than its budget needs; whether it is kept plays no part."""
    judged = [_judged(budget, runs, against, paired, "") for budget in budgets if budget.limited.how != "count"]
    tests = [one for one in judged if isinstance(one, Test)]
    return all(one.capable(len(tests)) for one in tests if one.budget.limited.how == "time")


def _judged(
    budget: Budget, runs: Sequence[TakenRun], against: Sequence[TakenRun], paired: bool, machine: str
) -> BudgetVerdict | Test:
    """A verdict, or a test whose chance counts together with those of other budgets."""
    found = [run.amounts[budget] for run in runs]
    base = [run.amounts[budget] for run in against] if budget.relative else []
    if budget.relative and not against:
        return unassessable(budget, found, "Its limit is relative to a baseline, but there is none.", _GIVE_BASELINE)
    untold = _untold(base)
    if untold is not None:
        return unassessable(budget, found, f"Baseline: {untold.why}", untold.remedy)
    how = budget.limited.how
    if how == "count":
        return count_verdict(budget, found, [one for one in base if isinstance(one, Amount)])
    untold = _untold(found)
    if untold is not None:
        return unassessable(budget, found, untold.why, untold.remedy)
    amounts = [one for one in found if isinstance(one, Amount)]
    known = [one for one in base if isinstance(one, Amount)]
    missing = next((one.missing for one in (*amounts, *known) if one.missing), "")
    if missing and how == "time":
        return unassessable(budget, found, missing)
    if how == "share":
        drawn = [sum(one.samples for one in side) for side in (amounts, known) if side]
        if min(drawn) < MIN_SAMPLES:
            why = f"Its {format_counted(min(drawn), 'sample is', 'samples are')} too few: a share needs {MIN_SAMPLES}."
            return unassessable(budget, found, why, "Record for longer, or with a higher --frequency.")
        return share_test(budget, amounts, known)
    if machine and budget.relative:
        why = f"The baseline was recorded on another machine: its {machine} differs."
        return unassessable(budget, found, why, "Record the baseline where the check runs.")
    few = min(len(amounts), len(known) if budget.relative else budget.runs)
    if few < budget.runs:
        side = "the baseline has" if len(known) == few and budget.relative else "there"
        verb = "" if side == "the baseline has" else (" is" if few == 1 else " are")
        why = f"Judging this time needs {budget.runs} runs, but {side}{verb} {few}."
        return unassessable(budget, found, why, "Record the program more often, or use `pinprof check -- CMD`.")
    return time_test(budget, amounts, known, paired=paired)


def unassessable(budget: Budget, found: Sequence[Taken], why: str, remedy: str = "") -> BudgetVerdict:
    """A verdict on what cannot be judged, with what the runs show of it all the same."""
    values = tuple(one.value for one in found if isinstance(one, Amount))
    return BudgetVerdict(
        budget=budget,
        outcome=BudgetOutcome.UNASSESSABLE,
        found=max(values, default=None),
        per_run=values,
        limit=None if budget.relative else budget.limit,
        unit=budget.unit,
        why=why,
        remedy=remedy,
        sites=next((one.sites for one in found if isinstance(one, Amount) and one.sites), ()),
    )


def _untold(found: Sequence[Taken]) -> Unassessable | None:
    return next((one for one in found if isinstance(one, Unassessable)), None)


def _notes(runs: Sequence[TakenRun], against: Sequence[TakenRun]) -> tuple[str, ...]:
    """What a reader must know of the captures before believing any verdict."""
    notes = list(dict.fromkeys(text for run in (*runs, *against) for text in run.gaps))
    failed = sorted({run.exit_status for run in (*runs, *against) if run.exit_status})
    if failed:
        count = sum(bool(run.exit_status) for run in (*runs, *against))
        statuses = ", ".join(map(str, failed))
        notes.append(f"The program failed in {format_counted(count, 'run', 'runs')}: exit status {statuses}.")
    if len({run.command for run in runs}) > 1:
        notes.append("The captures have different commands.")
    apart = differing([run.around for run in against], [run.around for run in runs]) if against else ()
    notes += [
        f"The baseline differs in {one.what}: {one.before}, now {one.after}. {one.effect}"
        for one in apart
        if one.effect and one.what != "exit status"
    ]
    return tuple(notes)


def shown_limit(verdict: BudgetVerdict) -> str:
    """A verdict's limit as people read it: with a baseline what it comes to."""
    if verdict.limit is None:
        return verdict.budget.limit_words
    shown = format_amount(verdict.limit, verdict.unit)
    return f"{shown} ({verdict.budget.limit_words})" if verdict.budget.relative else shown
