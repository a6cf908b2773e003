"""What an opportunity saves in a step of the work, and in how many steps it was seen."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.opportunities.results import PerStep
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import Int64, ascending

MOSTLY = 0.5
"""The least part of a cost that lies in steps: else it is none of theirs."""
TELLING = 5
"""Samples in a step, on average, from which on a step without any does without the cost: of 150 steps that have it,
chance leaves one without.
"""


def per_step(scene: Scene, rows: Int64, saving_ns: int) -> PerStep | None:
    """The saving of these wall rows by step; None where no steps are seen, or most of the cost lies in none."""
    steps = scene.course.steps
    if steps is None:
        return None
    starts, ends = np.array(steps.starts_ns, np.int64), np.array(steps.ends_ns, np.int64)
    wall = scene.course.wall.take(rows)
    # A sample on a processor stands for the time before it.
    time, ns = wall.time_ns - np.where(wall.waiting < 0, wall.ns // 2, 0), wall.ns
    step = np.searchsorted(starts, time, "right") - 1
    inside = (step >= 0) & (time < ends[step])
    if ns[inside].sum() <= MOSTLY * ns.sum():
        return None
    seen = ascending(step[inside])
    told = len(seen) == steps.count or inside.sum() >= TELLING * len(seen)
    having = seen if told else np.arange(steps.count)
    length = ends - starts
    if len(having) > 1 and having[-1] == steps.count - 1 and length[-1] < steps.median_ns:
        # The work ends within it.
        having = having[:-1]
    share = ns[inside & np.isin(step, having)].sum() / ns.sum()
    return PerStep(
        saving_ns=round(share * saving_ns / len(having)),
        step_ns=round(length[having].mean()),
        seen=len(seen) if told else None,
        steps=steps.count,
    )
