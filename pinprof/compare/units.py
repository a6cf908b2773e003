"""What a run's figures are divided by: iterations, steps, ranges, bytes copied, or the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinprof.analyze.activity.results import GIB
from pinprof.analyze.ranges.iterations import ITERATION, measured_iterations
from pinprof.analyze.run import Run
from pinprof.base.errors import UsageError
from pinprof.base.units import format_count
from pinprof.compare.frames import function_key
from pinprof.compare.results import WorkUnit

RUN = "run"
STEP = "step"
COPIED = "GiB copied"
_RANGE = "range:"
_GIVEN = {"run": RUN, "step": STEP, "iteration": ITERATION, "gib": COPIED}

_PLURAL = {ITERATION: "iterations", COPIED: "GiB copied"}
_ALIKE = 1.1
"""Runs whose numbers of steps differ by less did the same work: which step is the first is not always seen."""

Work = Mapping[str, float]


def work_of(analysis: Run) -> dict[str, float]:
    """Unit → how many of it one run did; those that it did none of are absent.

    `range:NAME` for ranges by their own names, whatever encloses them. A step's unit holds what its pattern is.
    """
    work: dict[str, float] = {RUN: 1.0}
    if count := measured_iterations(analysis.capture):
        work[ITERATION] = count
    for entry in analysis.ranges:
        work[_RANGE + entry.name] = work.get(_RANGE + entry.name, 0) + entry.count
    if analysis.course and (steps := analysis.course.steps):
        # Of a range all instances count, also those that reach beyond the work.
        work[f"{STEP} {function_key(steps.what)}"] = work.get(_RANGE + steps.what, steps.count)
    if analysis.activity is not None:
        copied = sum(
            copy.size_bytes.total for copy in analysis.activity.whole.copies if copy.direction in ("H2D", "D2H")
        )
        if copied:
            work[COPIED] = copied / GIB
    return work


def chosen(before: Sequence[Work], after: Sequence[Work], per: str | None) -> tuple[str, WorkUnit]:
    """The unit that every run has, and what is said of it; `per` as given on the command line, None to find one.

    UsageError where a run did none of a unit that was asked for.
    """
    runs = [*before, *after]
    if per is not None:
        key = _GIVEN.get(per.lower(), per)
        key = next((name for name in _in_all(runs) if name.startswith(f"{STEP} ")), key) if key == STEP else key
        if not all(key in work for work in runs):
            raise UsageError(
                f"--per {per}: not every recording has this unit.",
                f"Choose from: {', '.join(_choices(runs))}.",
                "per",
            )
        return key, WorkUnit(_name(key), _how(key, before, after))
    common = _in_all(runs)
    steps = next((name for name in common if name.startswith(f"{STEP} ")), "")
    if ITERATION in common:
        key = ITERATION
    elif steps and max(work[steps] for work in runs) > _ALIKE * min(work[steps] for work in runs):
        key = steps
    else:
        key = RUN
    return key, WorkUnit(_name(key), _how(key, before, after))


def _in_all(runs: Sequence[Work]) -> list[str]:
    return [name for name in runs[0] if all(name in work for work in runs)]


def _choices(runs: Sequence[Work]) -> list[str]:
    short = {unit: given for given, unit in _GIVEN.items()}
    return list(dict.fromkeys(short.get(name, STEP if name.startswith(f"{STEP} ") else name) for name in _in_all(runs)))


def _name(key: str) -> str:
    return STEP if key.startswith(f"{STEP} ") else key.removeprefix(_RANGE)


def _how(key: str, before: Sequence[Work], after: Sequence[Work]) -> str:
    if key == RUN:
        return "Times are those of whole runs."
    what = (
        f"steps ({key.removeprefix(f'{STEP} ')})"
        if key.startswith(f"{STEP} ")
        else _PLURAL.get(key, f"{_name(key)} ranges")
    )
    counts = f"{_counts(key, before)} before, {_counts(key, after)} after"
    return f"Times of the work are divided by the number of {what} in each run: {counts}."


def _counts(key: str, runs: Sequence[Work]) -> str:
    least, most = min(work[key] for work in runs), max(work[key] for work in runs)
    if key == COPIED:
        return f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    return format_count(least) if least == most else f"{format_count(least)} to {format_count(most)}"
