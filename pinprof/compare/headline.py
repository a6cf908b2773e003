"""The answer in one sentence, and how far it can be trusted in another."""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.analyze.course.wall import RUNNABLE
from pinprof.analyze.ranges.iterations import ITERATION
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted, format_ns, format_share, format_weight
from pinprof.compare.results import OpportunityChange, Row, Side, WorkUnit
from pinprof.compare.runs import UNDISTURBED, ComparedRun

_TRACED = 0.03
"""The part of a difference from which on what the recording itself took is named."""
_MUCH = 0.5
_BUSY = 0.2
"""The part of a difference from which on the time that other programs took is named."""


def clock_row(rows: Sequence[Row], unit: WorkUnit) -> Row | None:
    """The row that tells how long the whole takes: the iterations' own clock, the work, the run, or the largest sum."""
    if unit.name == ITERATION:
        for row in rows:
            if row.family == "range" and row.name == ITERATION:
                return row
    for name in ("work", "whole run"):
        for row in rows:
            if row.family == "phase" and row.name == name:
                return row
    outer = [row for row in rows if row.family == "range" and " > " not in row.name]
    others = [row for row in rows if row.family in ("call", "event")]
    return max(outer or others, key=lambda row: max(row.mean_before, row.mean_after), default=None)


def headline(clock: Row | None, rows: Sequence[Row], opportunities: Sequence[OpportunityChange], unit: WorkUnit) -> str:
    """What went away or came, with the time that the clocks say it saved or cost."""
    if clock is None:
        return "The two sides have no times to compare."
    if clock.chance is not None and not clock.significant:
        calm = undisturbed(rows)
        if calm is not None and calm.significant:
            part = f"{UNDISTURBED} takes {_amount(calm, unit)} {'less' if calm.change < 0 else 'more'}{_share(calm)}"
        else:
            part = _largest(rows, clock, significant=True)
        return f"There is no significant difference: {_versus(clock, unit)}{f'; but {part}' if part else ''}."
    if not clock.change:
        return f"There is no difference: {_versus(clock, unit)}."
    less = clock.change < 0
    more = f"{_amount(clock, unit)} {'less' if less else 'more'}{_share(clock)}"
    if named := _named(opportunities, less=less):
        busy = _busy(clock, rows)
        comparable = clock.unit == "ns" and clock.per == "run"
        if not busy and (not comparable or named.cost_ns >= _MUCH * abs(clock.change)):
            return f"{named.what}{named.others}. {_saves(clock, unit) if less else _costs(clock, unit)}."
        # A cure is credited with its own cost alone.
        return f"{named.what}{named.costs}{named.others}. {_subject(clock)} takes {more}: {_instead(clock)}{busy}."
    part = _largest(rows, clock, significant=clock.chance is not None)
    untested = "Untested: " if clock.chance is None else ""
    sentence = f"{_subject(clock)} takes {more}: {_instead(clock)}{f'; most of it is {part}' if part else ''}."
    return f"{untested}{sentence[:1].lower() if untested else sentence[:1]}{sentence[1:]}"


def _busy(clock: Row, rows: Sequence[Row]) -> str:
    """How much of the work's change other programs on the processors made, as a clause; empty where it is little."""
    calm = undisturbed(rows)
    if calm is None or (clock.family, clock.name) != ("phase", "work"):
        return ""
    part = clock.change - calm.change
    if part * clock.change <= 0 or abs(part) < _BUSY * abs(clock.change):
        return ""
    return f"; {format_weight(abs(part), clock.unit)} of that is time in which other programs used the CPUs"


@dataclass(frozen=True)
class _Named:
    """What changed, as the beginning of a sentence."""

    what: str
    costs: str
    """What it cost, as a clause; empty where the beginning says it."""
    others: str
    """What moved the other way meanwhile, as a clause."""
    cost_ns: float
    """How much less or more it costs."""


def _named(opportunities: Sequence[OpportunityChange], *, less: bool) -> _Named | None:
    """What went away or became cheaper where time was saved, what came or became more expensive where it was lost; None
    where nothing did.
    """
    gone = [one for one in opportunities if one.fate == "gone"]
    new = [one for one in opportunities if one.fate == "new"]
    changed = sorted(
        (one for one in opportunities if one.fate == "stayed" and _much(one) and (_growth(one) < 0) is less),
        key=lambda one: -abs(_growth(one)),
    )
    first, second = (gone, new) if less else (new, gone)
    if changed and (not first or abs(_growth(changed[0])) > abs(_growth(first[0]))):
        one = changed[0]
        costs = f"costs {format_ns(one.after_cost_ns)} instead of {format_ns(one.before_cost_ns)}"
        said = f"{'Cheaper' if less else 'More expensive'}: {one.title.removesuffix('.')}, {costs}"
        return _Named(said, "", "", abs(_growth(one)))
    if not first:
        return None
    words = ("Gone", "new") if less else ("New", "gone")
    other = f"; {words[1]}: {_list(second)}" if second else ""
    cost = sum(abs(_growth(one)) for one in first)
    return _Named(f"{words[0]}: {_list(first)}", f", at a cost of {format_ns(cost)}", other, cost)


def _growth(one: OpportunityChange) -> float:
    return one.after_cost_ns - one.before_cost_ns


def _much(one: OpportunityChange) -> bool:
    """Whether its cost changed by more than half."""
    return abs(_growth(one)) > _MUCH * max(one.before_cost_ns, one.after_cost_ns)


def _list(changes: Sequence[OpportunityChange]) -> str:
    title = changes[0].title.removesuffix(".")
    more = len(changes) - 1
    return title + (f", and {format_counted(more, 'other', 'others')}" if more else "")


def _subject(row: Row) -> str:
    if row.family == "phase":
        return f"The {row.name}"
    if row.family == "range":
        return f"Range {row.name}"
    return row.name


def _amount(row: Row, unit: WorkUnit) -> str:
    per = "" if row.per == "run" or unit.name == "run" else f" per {unit.name}"
    return format_weight(abs(row.change), row.unit) + per


def _share(row: Row) -> str:
    return f" ({format_share(abs(row.change), row.mean_before)})" if row.mean_before else ""


def _of(row: Row) -> str:
    return f"range {row.name}" if row.family == "range" else row.name


def _saves(row: Row, unit: WorkUnit) -> str:
    """`That saves 1.36 s of 1.76 s of work (77 %): 399 ms now`."""
    whole, now = format_weight(row.mean_before, row.unit), format_weight(row.mean_after, row.unit)
    return f"That saves {_amount(row, unit)} of {whole} of {_of(row)}{_share(row)}: {now} now"


def _costs(row: Row, unit: WorkUnit) -> str:
    """`That costs 1.36 s (341 %): 1.76 s of work instead of 399 ms`."""
    whole, now = format_weight(row.mean_before, row.unit), format_weight(row.mean_after, row.unit)
    return f"That costs {_amount(row, unit)}{_share(row)}: {now} of {_of(row)} instead of {whole}"


def _instead(row: Row) -> str:
    return f"{format_weight(row.mean_after, row.unit)} instead of {format_weight(row.mean_before, row.unit)}"


def _versus(row: Row, unit: WorkUnit) -> str:
    before, after = (format_weight(value, row.unit) for value in (row.mean_before, row.mean_after))
    per = "" if row.per == "run" or unit.name == "run" else f" per {unit.name}"
    subject = _subject(row)
    return f"{subject[:1].lower()}{subject[1:]} takes {before} before and {after} after{per}"


def _largest(rows: Sequence[Row], clock: Row, *, significant: bool) -> str:
    """The cause, call, range or line that changed most in the same direction."""
    same = [
        row for row in rows
        if row is not clock and row.family in ("range", "call", "cause", "line") and row.unit == clock.unit
        and row.name != ITERATION and (row.significant or not significant)
        and (row.change * clock.change > 0 or (clock.chance is not None and not clock.significant))
    ]  # fmt: skip
    row = max(same, key=lambda row: abs(row.change), default=None)
    others = next((one for one in same if one.name == RUNNABLE), None)
    if others and abs(others.change) > _MUCH * abs(clock.change):
        return f"waiting for a CPU that other programs used ({_signed(others)})"
    if row is None or not row.change:
        return ""
    return f"{row.family} {row.name} ({_signed(row)})"


def _signed(row: Row) -> str:
    return f"{'+' if row.change > 0 else '−'}{format_weight(abs(row.change), row.unit)}"


def undisturbed(rows: Sequence[Row]) -> Row | None:
    """The work without what other programs took of it."""
    return next((row for row in rows if row.family == "phase" and row.name == UNDISTURBED), None)


def trust(before: Side, after: Side, rows: Sequence[Row], clock: Row | None) -> str:
    """How many runs were compared, and how small a change of the whole could have been found."""
    if min(before.runs, after.runs) < 2:
        which = "One run of each side" if before.runs == after.runs == 1 else "One run of one side"
        least = ""
        if clock and clock.detectable:
            least = f" From what is known, changes below {format_share(clock.detectable, 1)} can't be detected."
            least += _more_runs(clock)
        return (
            f"{which}: the variation between runs is unknown, so there is no test. Record each side at least "
            f"twice.{least}"
        )
    runs = f"{before.runs} runs before and {after.runs} after, tested against the variation between runs"
    if clock is None or not clock.detectable:
        return f"{runs}."
    least = f"{format_share(clock.detectable, 1)} of {_subject(clock).lower()}"
    calm, shown = undisturbed(rows), clock
    if calm is not None and calm is not clock and calm.detectable and calm.detectable < _MUCH * clock.detectable:
        least += f", or of {format_share(calm.detectable, 1)} of it without preemption,"
        shown = calm
    return f"{runs}: a change of {least} is detected with 90 % probability.{_more_runs(shown)}"


def _more_runs(row: Row) -> str:
    """A sentence on how many runs detect less; empty where these are enough, or no reasonable number is."""
    if row.more_runs is None:
        return ""
    runs = format_counted(row.more_runs.runs, "run", "runs")
    return f" About {runs} of each side detect a change of {100 * row.more_runs.change:.0f} % of {_of(row)}."


def tracing_note(before: Sequence[ComparedRun], after: Sequence[ComparedRun], clock: Row | None) -> str:
    """What tracing took of the difference, where it was recorded; empty where that is little."""
    if clock is None or clock.unit != "ns":
        return ""
    took = [sum(run.tracing_ns for run in side) / len(side) for side in (before, after)]
    units = [clock.mean_before * len(before), clock.mean_after * len(after)]
    if not all(units) or clock.name != "work" or clock.per != "run":
        return ""
    part = took[1] - took[0]
    if abs(part) <= _TRACED * abs(clock.change) or part * clock.change <= 0:
        return ""
    return (
        f"About {format_ns(abs(part))} of the difference is overhead of the recording, which traced CUDA calls for"
        f" {format_ns(took[0])} before and {format_ns(took[1])} after."
    )
