"""The answer in words: who holds the others up, at which line, what that costs."""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.analyze.attribution.categories import in_words
from pinprof.analyze.evidence import worth_telling
from pinprof.base.units import format_counted, format_ns, format_share
from pinprof.ranks.results import Excess, Hold, JobOpportunity, Start, Verdict
from pinprof.ranks.why import RUNNABLE

_MOSTLY = 0.5


def headline(
    verdict: Verdict,
    holds: Sequence[Hold],
    crowded: Sequence[Hold],
    start: Start | None,
    opportunities: Sequence[JobOpportunity],
    uneven_ns: int,
    work_ns: int,
    ranks: int,
    met: int,
) -> str:
    """The answer; its first sentence names rank, line and cost."""
    share = f"{format_ns(uneven_ns)} of {format_ns(work_ns)} ({format_share(uneven_ns, work_ns)})"
    parts = []
    if verdict == "held":
        parts = [_held(hold, work_ns, ranks, further=bool(number)) for number, hold in enumerate(holds)]
        parts += [_cure(hold, work_ns) for hold in holds[:1] if hold.cure]
        parts += map(_crowded, crowded)
    elif crowded:
        parts = ["No rank does more than the others.", *map(_crowded, crowded), "Give each rank its own CPUs."]
    elif verdict == "turns":
        parts = [
            f"No single rank delays the others. Different ranks come last, which costs the job {share} of its work."
        ]
    elif verdict == "even":
        at = format_counted(met, "meeting", "meetings")
        parts = [f"No rank delays the others. At {at}, they wait for each other for {share} of the work."]
    else:
        parts = [
            "The recordings do not show where the ranks meet, so it is unknown whether one of them delays the others."
        ]
    best = next(iter(opportunities), None)
    if best is not None and worth_telling(best.saves_ns, work_ns) and not any(hold.saves_ns for hold in holds):
        what = best.title.removesuffix(".")
        parts.append(f"The job gains most by a change of {rank_names(best.ranks)}, {format_ns(best.saves_ns)}: {what}.")
    if start is not None:
        late = f", which starts to work {format_ns(start.late_ns)} after them" if start.late_ns > 0 else ""
        parts.append(f"At the start, the others wait {format_ns(start.waited_ns)} for rank {start.rank}{late}.")
    return " ".join(parts)


def rank_names(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1 and 2`, `ranks 0–6`, `ranks 0–2, 5 and 7`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = []
    for run in runs:
        parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"


def when(hold: Hold) -> str:
    """`at 40 of 40 steps`, `once every 10 meetings (4 of 40)`, `once, at meeting 21 of 40`."""
    plain = hold.unit in ("meeting", "step")
    one, many = (hold.unit, f"{hold.unit}s") if plain else (f"range {hold.unit}",) * 2
    at = "at" if plain else "in"
    if hold.how == "once" and hold.first:
        return f"once, {at} {one} {hold.first[0] + 1} of {hold.meetings}"
    if hold.how == "every":
        return f"once every {hold.every} {many} ({hold.held} of {hold.meetings})"
    return f"{at} {hold.held} of {hold.meetings} {many}"


def _crowded(hold: Hold) -> str:
    """What is said of ranks that come late for want of a processor alone."""
    late = sum(one.ns - one.others_ns for one in hold.causes if one.cause == RUNNABLE)
    comes, gets = ("comes", "it gets") if len(hold.ranks) == 1 else ("come", "they get")
    return (
        f"{rank_names(hold.ranks).capitalize()} {comes} last {when(hold)}, for {format_ns(hold.cost_ns)}, because"
        f" {gets} a CPU {_time(hold, late)} later than the others."
    )


def why(hold: Hold) -> str:
    """Why they come late, as a clause; empty where nothing tells."""
    more = {one.cause: one.ns - one.others_ns for one in hold.causes if one.ns > one.others_ns}
    more.pop(RUNNABLE, 0)
    if hold.gpu_more_ns > max(_MOSTLY * hold.cost_ns, sum(more.values())):
        return f"its GPU computes {_time(hold, hold.gpu_more_ns)} longer"
    if hold.lines and hold.lines[0].place:
        return _line(hold, hold.lines[0])
    if more:
        cause = max(more, key=lambda cause: more[cause])
        return f"{in_words(cause)} takes {_time(hold, more[cause])} more"
    return ""


def main_cause(line: Excess) -> tuple[str, int, int]:
    """(cause, its time, all time of causes) of a line, but for waits for a processor, which any cause brings."""
    causes = {cause: ns for cause, ns in line.causes.items() if cause != RUNNABLE} or dict(line.causes)
    cause = max(causes, key=lambda cause: causes[cause], default="")
    return cause, causes.get(cause, 0), sum(causes.values())


def _held(hold: Hold, work_ns: int, ranks: int, *, further: bool) -> str:
    who = rank_names(hold.ranks)
    others = ranks - len(hold.ranks)
    whom = "the rest" if further else "the other rank" if others == 1 else f"the other {others} ranks"
    one = len(hold.ranks) == 1
    cost = f"{'another ' if further else ''}{format_ns(hold.cost_ns)} of {format_ns(work_ns)} of work"
    reason = why(hold)
    return (
        f"{'Also, ' + who if further else who.capitalize()} {'delays' if one else 'delay'} {whom} {when(hold)} and"
        f" {'costs' if one else 'cost'} the job {cost} ({format_share(hold.cost_ns, work_ns)})"
        f"{': ' + reason if reason else ''}."
    )


def _cure(hold: Hold, work_ns: int) -> str:
    """What to change, and what the job gains by it."""
    gain = f" That saves the job {format_ns(hold.saves_ns)}." if worth_telling(hold.saves_ns, work_ns) else ""
    return hold.cure + gain


def _line(hold: Hold, line: Excess) -> str:
    inside = f" in range {line.range}" if line.range else ""
    place = line.place.text if line.place else "an unknown line"
    others = f"{format_ns(_each(hold, line.others_ns))}" if line.others_ns else "nothing"
    cause, ns, whole = main_cause(line)
    reason = f"; {format_share(ns, whole)} of it is {in_words(cause)}" if cause else ""
    return f"{place}{inside} takes {_time(hold, line.ns)}, and {others} on the other ranks{reason}"


def _time(hold: Hold, ns: int) -> str:
    return f"{format_ns(_each(hold, ns))}{'' if hold.how == 'once' else ' each time'}"


def _each(hold: Hold, ns: int) -> float:
    return ns / max(hold.held, 1)
