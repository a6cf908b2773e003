"""Times and shares of one run: of the whole, a range, a phase, a cause, calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.analyze.results import RangeWall
from pinprof.analyze.rules.needs import SEES_KERNEL
from pinprof.analyze.rules.rule import unmet
from pinprof.base.columns import Bool, Int64
from pinprof.check.budgets import Budget
from pinprof.check.verdicts import JudgedSite
from pinprof.check.view import Amount, RunView, Unassessable, nearest
from pinprof.data.model import clock_event

_SEEN_WITHOUT_KERNEL = ("user", "wait")
"""Levels of the taxonomy that a recording of the program's own code alone still shows."""


def time(view: RunView, budget: Budget) -> Amount:
    """Wall time by clocks where there is one, of causes by samples."""
    if budget.call:
        return _of_calls(view, budget)
    if budget.cause:
        return _of_cause(view, budget)
    if budget.range:
        ranges = view.analysis.ranges
        return Amount(
            float(sum(ranges[number].wall_ns for number in view.outermost(budget))), sites=_busiest(view, budget)
        )
    if budget.phase:
        return Amount(float(view.phase(budget.phase).wall_ns), sites=_busiest(view, budget))
    course, noted = view.analysis.course, view.capture.manifest.outcome.get("duration_ns")
    if isinstance(noted, int) and noted:
        return Amount(float(noted), sites=_busiest(view, budget) if course else ())
    return Amount(float(view.course.end_ns - view.course.start_ns), sites=_busiest(view, budget))


def cpu_time(view: RunView, budget: Budget) -> Amount:
    """Time on processors of all threads: the kernel's clock of the run; of a part of it by samples."""
    capture, samples = view.capture, view.capture.samples
    clock = clock_event(capture.events)
    sites = _busiest(view, budget, leaves_of(budget.cause) if budget.cause else ())
    used = capture.manifest.outcome.get("resources")
    spent = [used.get(name) for name in ("user_ns", "system_ns")] if isinstance(used, Mapping) else []
    noted = [one for one in spent if isinstance(one, int)]
    if len(noted) == 2 and not (budget.range or budget.phase or budget.cause):
        return Amount(float(sum(noted)), sites=sites)
    if clock is None:
        raise Unassessable("The recording has no samples of CPU time.", "Record the program with pinprof.")
    mine = samples.event == clock
    mine &= view.inside(budget, samples.time_ns, samples.pid, view.analysis.members.samples.kernel_thread)
    row = np.flatnonzero(mine)
    weight = samples.weight[row]
    error = view.edge_error(budget, row, float(np.median(weight)) if len(row) else 0.0)
    missing = "Samples were lost, so there may have been more." if capture.losses.lost_samples else ""
    if not budget.cause:
        blind = "" if budget.relative else _blind(view, ("sys.entry",))
        return Amount(float(weight.sum()), error, sites, missing or blind, len(row))
    leaves = leaves_of(budget.cause)
    of_cause = np.isin(view.analysis.attribution.leaf[row], [LEAF[leaf] for leaf in leaves])
    # Which of the samples fall on the cause is chance's.
    part = float(of_cause.mean()) if len(row) else 0.0
    chance = math.sqrt(float((weight[of_cause].astype(np.float64) ** 2).sum()) * (1 - part))
    value = float(weight[of_cause].sum())
    return Amount(value, math.hypot(error, chance), sites, missing or _blind(view, leaves), int(of_cause.sum()))


def share(view: RunView, budget: Budget) -> Amount:
    """A cause's part of the time on processors, in a range, a phase, or the work; of waits the part of wall time.

    On a machine that does other work too, wall time holds the waits for a processor. Time on processors does not.
    """
    leaves = leaves_of(budget.cause)
    if any(leaf.startswith("wait.") for leaf in leaves):
        return _share_of_wall(view, budget, leaves)
    main, samples = view.analysis.main, view.capture.samples
    if main is None or main.event.spans:
        raise Unassessable("The recording has no samples of CPU time.", "Record the program with pinprof.")
    mine = samples.event == view.capture.events.index(main.event)
    scope = budget
    if not (budget.range or budget.phase) and view.analysis.course is not None and view.analysis.course.phase("work"):
        scope = replace(budget, phase="work")
    mine &= view.inside(scope, samples.time_ns, samples.pid, view.analysis.members.samples.kernel_thread)
    row = np.flatnonzero(mine)
    of_cause = row[np.isin(view.analysis.attribution.leaf[row], [LEAF[leaf] for leaf in leaves])]
    whole, weight = float(samples.weight[row].sum()), samples.weight[of_cause]
    value = float(weight.sum()) / whole if whole else 0.0
    drawn = main.drawn if len(row) == main.samples and main.drawn is not None else len(row)
    sites = _parts(view.sites_of_samples(of_cause, weight), whole)
    return Amount(value, _binomial(value, drawn), sites, _blind(view, leaves), drawn)


def _share_of_wall(view: RunView, budget: Budget, leaves: tuple[str, ...]) -> Amount:
    """Of waits: the part of the wall time, of the threads that opened a range, else of the one that decides."""
    if budget.range:
        walls = _walls(view, budget)
        whole = float(sum(wall.wall_ns for wall in walls))
        weight = float(sum(wall.off_cpu.get(leaf, 0) + wall.on_cpu.get(leaf, 0) for wall in walls for leaf in leaves))
        drawn = len(np.flatnonzero(view.capture.spans[view.capture.samples.event]))
        return Amount(weight / whole if whole else 0.0, 0.0, (), _blind(view, leaves), drawn)
    rows = _wall_rows(view, budget)
    mine, wall = rows[_caused(view, rows, leaves)], view.course.wall
    whole = float(wall.ns[rows].sum())
    value = float(wall.ns[mine].sum()) / whole if whole else 0.0
    sites = _parts(_sites_of_wall(view, mine), whole)
    return Amount(value, _binomial(value, len(rows)), sites, _blind(view, leaves), len(rows))


def leaves_of(cause: str) -> tuple[str, ...]:
    """The leaves of the taxonomy that a name stands for; Unassessable for none."""
    found = tuple(leaf for leaf in LEAF if leaf == cause or leaf.startswith(f"{cause}."))
    if not found:
        known = (*(level for level, _ in LEVELS), *LEAF)
        raise Unassessable(f"There is no cause {cause!r}.", nearest(cause, known, "causes"))
    return found


def _of_calls(view: RunView, budget: Budget) -> Amount:
    made, activity = view.calls, view.capture.activity
    assert activity is not None
    mine = view.calls_of(budget.call) & view.inside(budget, made.table.start_ns, made.table.pid)
    row = np.flatnonzero(mine)
    if not len(row):
        raise Unassessable(f"The run makes no call of {budget.call} there.", "Name a call that it makes.")
    inside = activity.call_overhead.inside_ns if activity.call_overhead else 0
    length = np.maximum(made.duration_ns[row] - inside, 0).astype(np.float64)
    return Amount(float(length.sum()), sites=view.sites_of_calls(row, length), missing=view.missing())


def _of_cause(view: RunView, budget: Budget) -> Amount:
    """Wall time of a cause: of the threads that opened a range, else of the thread that decides the run's length."""
    leaves = leaves_of(budget.cause)
    if budget.range:
        known = _walls(view, budget)
        parts: list[Mapping[str, int]] = [part for wall in known for part in (wall.on_cpu, wall.off_cpu)]
        value = float(sum(part.get(leaf, 0) for part in parts for leaf in leaves))
        error = math.sqrt(sum(wall.error_ns**2 for wall in known))
        return Amount(value, error, missing=_blind(view, leaves))
    rows = _wall_rows(view, budget)
    mine = rows[_caused(view, rows, leaves)]
    wall = view.course.wall
    sampled = mine[~view.capture.spans[view.capture.samples.event[wall.sample[mine]]]]
    error = float(np.sqrt((wall.ns[sampled].astype(np.float64) ** 2).sum()))
    return Amount(float(wall.ns[mine].sum()), error, _sites_of_wall(view, mine), _blind(view, leaves), len(mine))


def _walls(view: RunView, budget: Budget) -> list[RangeWall]:
    """Where the wall time of a budget's ranges went; Unassessable where that is not known."""
    walls = [view.analysis.ranges[number].wall for number in view.outermost(budget)]
    known = [wall for wall in walls if wall is not None]
    if len(known) < len(walls):
        why = f"The recording does not show where the time of {budget.range!r} went."
        raise Unassessable(why, "Record waits: leave out --no-off-cpu.")
    return known


def _parts(sites: tuple[JudgedSite, ...], whole: float) -> tuple[JudgedSite, ...]:
    """Sites with their part of the whole instead of a time."""
    return tuple(replace(site, amount=min(site.amount / whole, 1.0)) for site in sites) if whole else ()


def _binomial(value: float, drawn: int) -> float:
    return math.sqrt(value * (1 - value) / drawn) if drawn else 0.0


def _blind(view: RunView, leaves: tuple[str, ...]) -> str:
    """Why there may be more of a cause: the kernel's part was not seen."""
    capture = view.capture
    kernel = [leaf for leaf in leaves if leaf.partition(".")[0] not in _SEEN_WITHOUT_KERNEL]
    if kernel and unmet(SEES_KERNEL, view.analysis.view):
        return "The kernel was not sampled. Run `pinprof doctor` for the fix."
    waits = [leaf for leaf in leaves if leaf.startswith("wait.")]
    if waits and not any(event.spans for event in capture.events):
        return "Waits were not recorded. Record without --no-off-cpu."
    return ""


def _wall_rows(view: RunView, budget: Budget) -> Int64:
    """The wall rows of the phase that a budget names, else of the work."""
    phase = view.phase(budget.phase or "work")
    return np.flatnonzero(view.course.wall.phase == PHASE_NAMES.index(phase.name))


def _caused(view: RunView, rows: Int64, leaves: tuple[str, ...]) -> Bool:
    wanted = np.isin(np.arange(len(CATEGORIES)), [LEAF[leaf] for leaf in leaves])
    return np.asarray(wanted[view.doing.leaf[rows]])


def _sites_of_wall(view: RunView, rows: Int64) -> tuple[JudgedSite, ...]:
    """The lines that wall rows belong to, as opportunities name them."""
    return view.sites_of_frames(view.doing.place[rows], view.course.wall.ns[rows])


def _busiest(view: RunView, budget: Budget, leaves: tuple[str, ...] = ()) -> tuple[JudgedSite, ...]:
    """The lines in which a range, a phase or the run was sampled most; of these causes, if any are given."""
    capture, samples = view.capture, view.capture.samples
    clock = clock_event(capture.events)
    if clock is None:
        return ()
    mine = samples.event == clock
    mine &= view.inside(budget, samples.time_ns, samples.pid, view.analysis.members.samples.kernel_thread)
    if leaves:
        mine &= np.isin(view.analysis.attribution.leaf, [LEAF[leaf] for leaf in leaves])
    row = np.flatnonzero(mine)
    return view.sites_of_samples(row, samples.weight[row])
