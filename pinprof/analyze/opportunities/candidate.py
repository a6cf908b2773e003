"""What a detector finds: something to change, before candidates are weighed against each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.course.results import PhaseName
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Cure, Evidence, Saving
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.sites import Site
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_share
from pinprof.data.model import Int64
from pinprof.data.rate_book import RUN, Estimate


@dataclass(frozen=True)
class Candidate:
    """A cost of the critical thread, and what remains of it with the cure."""

    title: str
    """Without the saving."""
    site: Site
    phase: PhaseName
    rows: Int64
    """The wall rows that the cost was sampled in."""
    cost_ns: int
    remains: Estimate
    """What it costs with the cure."""
    cure: Cure
    once: Estimate | None = None
    """What of that is spent once, by the first that needs it."""
    count: int = 0
    bytes: int = 0
    basis: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    causes: Mapping[str, int] | None = None
    unknown: str = ""
    """Why nobody knows the saving without a measurement, in a sentence; empty where it can be predicted."""

    @property
    def saving(self) -> Saving:
        """The cost less what remains; never negative, and never more than the cost."""
        likely, low, high = (
            int(np.clip(self.cost_ns - ns, 0, self.cost_ns))
            for ns in (self.remains.ns, self.remains.high_ns, self.remains.low_ns)
        )
        return Saving(min(low, likely), likely, max(high, likely))


def sampled(
    scene: Scene,
    rows: Int64,
    site: Site,
    title: str,
    cure_id: str,
    shares: tuple[float, float, float],
    basis: str,
    *evidence: Evidence,
    count: int = 0,
    size_bytes: int = 0,
) -> Candidate:
    """What these wall rows cost; `shares` are what remains of it with the cure: likely, least, most."""
    cost = scene.ns(rows)
    return Candidate(
        title=title,
        site=site,
        phase=scene.phase_of(rows),
        rows=rows,
        cost_ns=cost,
        remains=Estimate(*shares, RUN).times(cost),
        cure=cure(cure_id, scene.framework),
        count=count,
        bytes=size_bytes,
        basis=(basis,),
        evidence=evidence,
    )


def share_of_own_time(scene: Scene, cost_ns: int) -> Evidence:
    """How much of what the program itself does a cost is."""
    return Evidence(f"It costs {format_share(cost_ns, max(scene.own_ns, 1))} of the program's own time.")


def total(parts: list[Estimate | None]) -> Estimate | None:
    """The sum of estimates, with errors added up since they share their sources; None where one is missing."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    named = "; ".join(dict.fromkeys(part.source for part in known if part.source))
    return Estimate(
        sum(part.ns for part in known), sum(part.low_ns for part in known), sum(part.high_ns for part in known), named
    )
