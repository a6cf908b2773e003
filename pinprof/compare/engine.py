"""Two sides in, one `Difference` out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from pinprof.compare.headline import clock_row, headline, tracing_note, trust
from pinprof.compare.lines import Place, moves
from pinprof.compare.opportunities import opportunity_changes
from pinprof.compare.results import FAMILIES, FAMILY_WORDS, ComparedStacks, Difference
from pinprof.compare.rows import rows_of
from pinprof.compare.runs import ComparedRun
from pinprof.compare.sides import refuse_incomparable, side_of
from pinprof.compare.stacks import compared_stacks
from pinprof.compare.surroundings import coverage, differing, slower
from pinprof.compare.units import chosen

NO_TIME = "A sample of {events} has no known time or count, so weights are compared as recorded."


def compare(
    before: Sequence[ComparedRun],
    after: Sequence[ComparedRun],
    names: tuple[str, str],
    per: str | None = None,
    *,
    any_program: bool = False,
    exact_names: bool = False,
) -> Difference:
    """What differs between the runs of two sides, called by `names`; `per` asks for a unit of work.

    With `exact_names` stacks are matched by the functions' own names instead of their keys.

    CaptureError, UsageError where they cannot be compared.
    """
    refuse_incomparable(before, after, any_program=any_program)
    key, unit = chosen([run.work for run in before], [run.work for run in after], per)
    units = [run.work[key] for run in before], [run.work[key] for run in after]
    moved = moves(_lines(before), _lines(after))
    rows = rows_of(before, after, units, unit.name, moved)
    clock = clock_row(rows, unit)
    opportunities = opportunity_changes(before, after, moved)
    sides = side_of(names[0], before, units[0]), side_of(names[1], after, units[1])
    stacks, unpaired = _stacks(before, after, units, exact_names)
    counted = sorted({one.event for one in stacks if one.unit == "samples"})
    notes = (
        tracing_note(before, after, clock),
        NO_TIME.format(events=", ".join(counted)) if counted else "",
        f"Only one side has events of: {', '.join(unpaired)}." if unpaired else "",
        _not_measured(before, after),
        _one_after_the_other(before, after),
    )
    return Difference(
        before=sides[0],
        after=sides[1],
        headline=headline(clock, rows, opportunities, unit),
        surroundings=(
            *differing([run.around for run in before], [run.around for run in after]),
            *coverage([run.named for run in before], [run.named for run in after]),
            *slower([run.rates for run in before], [run.rates for run in after]),
        ),
        work=unit,
        tested=trust(*sides, rows, clock),
        rows=rows,
        opportunities=opportunities,
        stacks=stacks,
        notes=tuple(note for note in notes if note),
        incomplete=tuple(f"{PurePath(run.path).name}: {gap.text}" for run in (*before, *after) for gap in run.gaps),
    )


def _lines(runs: Sequence[ComparedRun]) -> dict[Place, float]:
    """The lines of a side with their time, the mean of the runs."""
    lines: dict[Place, float] = {}
    for run in runs:
        for figure in run.figures.values():
            if figure.line:
                lines[figure.line] = lines.get(figure.line, 0.0) + figure.amount / len(runs)
    return lines


def _stacks(
    before: Sequence[ComparedRun],
    after: Sequence[ComparedRun],
    units: tuple[Sequence[float], Sequence[float]],
    exact: bool,
) -> tuple[tuple[ComparedStacks, ...], list[str]]:
    """The stacks of every event that both sides have, and the names of others that sample something."""
    names = [dict.fromkeys(name for run in side for name in run.stacks) for side in (before, after)]
    units_of = {name: {run.stacks[name].unit for run in (*before, *after) if name in run.stacks} for name in names[0]}
    common = [name for name in names[0] if name in names[1] and len(units_of[name]) == 1]
    found = tuple(
        compared_stacks(
            name, [run.stacks.get(name) for run in before], [run.stacks.get(name) for run in after], units, exact
        )
        for name in common
    )
    alone = [name for name in {**names[0], **names[1]} if name not in common]
    return found, [name for name in alone if not any(_waits(run, name) for run in (*before, *after))]


def _waits(run: ComparedRun, name: str) -> bool:
    return name in run.stacks and run.stacks[name].waits


def _not_measured(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> str:
    """What only some of the recordings hold, so that it cannot be compared."""
    runs = (*before, *after)
    some = frozenset.union(*(run.measured for run in runs)) - frozenset.intersection(*(run.measured for run in runs))
    words = [FAMILY_WORDS[family] for family in FAMILIES if family in some]
    return f"Not every recording has {', '.join(words)}; these are not compared." if words else ""


def _one_after_the_other(before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> str:
    """A warning where all runs of one side were recorded before any of the other."""
    times = [[str(run.manifest.outcome.get("started_utc") or "") for run in side] for side in (before, after)]
    if min(len(before), len(after)) < 2 or not all(all(side) for side in times):
        return ""
    if max(times[0]) < min(times[1]) or max(times[1]) < min(times[0]):
        return (
            "One side was recorded after the other, so changes of the machine in between look like differences."
            " Alternate the recordings of the two sides."
        )
    return ""
