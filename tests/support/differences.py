"""A difference of two sides, written by hand: four runs each of a program that fills memory, and no longer does."""

from __future__ import annotations

from pinprof.analyze.attribution.attribute import attribute
from pinprof.base.statistics import MeanDifference
from pinprof.compare.results import Difference, OpportunityChange, Row, Side, Surrounding, WorkUnit
from pinprof.compare.stacks import compared_stacks, event_stacks
from pinprof.data.model import KERNEL, NO_NODE, USER, Capture
from tests.support.small_capture import small_capture

MS = 1_000_000
SPREAD = (0, 1, -1, 2)
"""By how many samples runs differ."""


def run(fill: int, compute: int, report: int, name: str) -> Capture:
    """One run, by its samples of 1 ms: filling and computing before and after, and what only one side does."""
    symbols = [("main", USER), ("fill.isra.0", USER), ("clear_page", KERNEL), ("compute", USER), (name, USER)]
    tree = [(NO_NODE, 0), (0, 1), (1, 2), (0, 3), (0, 4)]
    samples = [(0, MS, node) for node, count in ((2, fill), (3, compute), (4, report)) for _ in range(count)]
    return small_capture([*samples, *[(1, 1, 2)] * (fill // 2)], symbols, tree)


def difference(name: str = "log", runs: int = 4) -> Difference:
    """400 ms of filling become 100 ms, 200 ms of computing stay, 50 ms of `name` go; each of two iterations a half."""
    sides = (
        [run(400 + step, 200 + step, 50, name) for step in SPREAD[:runs]],
        [run(100 + step, 200 - step, 60, "publish") for step in SPREAD[:runs]],
    )
    stacks = [[event_stacks(one, attribute(one), str) for one in side] for side in sides]
    units = ([2.0] * runs, [2.0] * runs)
    events = tuple(
        compared_stacks(event, [one.get(event) for one in stacks[0]], [one.get(event) for one in stacks[1]], units)
        for event in stacks[0][0]
    )
    tested = runs > 1
    return Difference(
        before=side(f"{name}-before", runs),
        after=side(f"{name}-after", runs),
        headline=f"Gone: {name} fills memory. That saves 145 ms of 325 ms of work (45 %): 180 ms now.",
        surroundings=(Surrounding("kernel", name, "6.18", "Another kernel takes other time."),),
        work=WorkUnit("iteration", "Times of the work are divided by each run's number of iterations."),
        tested="4 runs before and 4 after." if tested else "One run of each side: nothing is tested.",
        rows=(
            row("phase", "work", 325, 180, tested),
            row("cause", "fault.anon", 200, 50, tested),
            row("cause", "user.app", 125, 130, None),
            row("line", f"{name}.py:7", 200, 50, tested),
            *(row("call", f"call {number}", 20, 20 - number, None) for number in range(12)),
        ),
        opportunities=(
            OpportunityChange("gone", f"{name} fills memory.", name, "pool", "work", 4e8, 0, 3e8, 0, runs, 0),
            OpportunityChange("stayed", "It copies.", "b.py:2", "pin", "work", 1e7, 1e7, 1e6, 1e6, runs, runs),
        ),
        stacks=events,
        notes=(f"A note about {name}.",),
    )


def side(name: str, runs: int) -> Side:
    """Runs of two iterations."""
    return Side(name, tuple(f"/home/someone/{name}/{run}.pinprof" for run in range(runs)), ("app",), (2.0,) * runs,
                (650 * MS,) * runs)  # fmt: skip


def row(family: str, name: str, before: float, after: float, significant: bool | None) -> Row:
    """Milliseconds of an iteration; None for what has too few samples."""
    return Row(
        family=family, name=name, unit="ns", before=(before * MS,), after=(after * MS,), exact=False, per="iteration",  # type: ignore[arg-type]
        samples=(500, 500), estimate=MeanDifference(-0.5, 0.02, 6) if significant else None,
        chance=0.001 if significant else None, significant=bool(significant), detectable=0.05,
        untested="" if significant else "too few samples",
    )  # fmt: skip
