"""Copies that a library makes in the host's memory, of data that it then copies to the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate, sampled, share_of_own_time
from pinprof.analyze.opportunities.knobs import Functions
from pinprof.analyze.opportunities.scene import Scene

_STAGES = Functions(r"cupy/_creation/from_data\.py", "array|asarray|asanyarray|ascontiguousarray")
"""CuPy copies what it gets to its own pinned memory, even from pinned memory."""


def restaged(scene: Scene) -> Iterator[Candidate]:
    """Time in which such functions copy on the host, by the line that calls them."""
    for group in scene.by_place(np.flatnonzero(scene.under(_STAGES) & scene.caused_by("copy.user") & scene.in_own())):
        site = scene.site_of(group)
        yield sampled(
            scene,
            group,
            site,
            f"{site.place} copies data to the library's pinned memory before it is copied to the GPU.",
            "pinned-buffer",
            (0.0, 0.0, 0.2),
            "Data that is written to pinned memory in the first place is not copied on the host.",
            share_of_own_time(scene, scene.ns(group)),
        )
