"""Copies that a library makes in the host's memory, of data that it then copies to the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.knobs import Functions
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.units import format_share
from pinprof.data.rate_book import RUN, Estimate

_STAGES = Functions(r"cupy/_creation/from_data\.py", "array|asarray|asanyarray|ascontiguousarray")
"""CuPy copies what it gets to its own pinned memory, even from pinned memory."""


def restaged(scene: Scene) -> Iterator[Candidate]:
    """Time in which such functions copy on the host, by the line that calls them."""
    stacks = scene.capture.stacks
    stages = stacks.under(_STAGES.among(stacks.frames))[scene.node]
    for group in scene.by_place(np.flatnonzero(stages & scene.caused_by("copy.user") & scene.in_own())):
        site, cost = scene.site_of(group), scene.ns(group)
        yield Candidate(
            title=f"{site.place} copies data to the library's pinned memory before it is copied to the GPU.",
            site=site,
            phase=scene.phase_of(group),
            rows=group,
            cost_ns=cost,
            remains=Estimate(0.0, 0.0, 0.2 * cost, RUN),
            cure=cure("pinned-buffer", scene.framework),
            basis=("Data that is written to pinned memory in the first place is not copied on the host.",),
            evidence=(Evidence(f"This is {format_share(cost, max(scene.own_ns, 1))} of the program's own time."),),
        )
