"""Meetings of ranks as one table, whoever knows of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.base.columns import Bool, Float64, Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.ranks.spent import NO_PLACE, ProgramPlace


@dataclass(frozen=True)
class Meetings(Table):
    """Meetings in order of time, on the common clock; where it says so, columns are [meeting, rank]."""

    release_ns: Int64
    """When the last had come."""
    wait_ns: Float64
    """[meeting, rank]: how long each waited for the last; 0 of that one, NaN of a rank that takes no part."""
    lost_ns: Float64
    """[meeting, rank]: the same less what its GPU computed meanwhile, which is time that is lost."""
    resume_ns: Int64
    """[meeting, rank]: when each went on."""
    shown: Bool
    """[meeting, rank]: whether the rank's own recording shows that it takes part."""
    place: Int32
    """Where ranks wait: index into `places`, NO_PLACE where that is not known."""
    gpu: Bool
    """Whether GPUs meet."""
    places: tuple[ProgramPlace, ...]

    @property
    def present(self) -> Bool:
        """[meeting, rank]: who takes part."""
        return np.asarray(~np.isnan(self.wait_ns))

    @property
    def arrival_ns(self) -> Float64:
        """[meeting, rank]: when each came; NaN of a rank that takes no part."""
        return self.release_ns[:, None] - self.wait_ns


def numbered(places: Sequence[ProgramPlace | None], numbers: dict[ProgramPlace, int]) -> Int32:
    """Per place its number, new ones added."""
    found = [NO_PLACE if place is None else numbers.setdefault(place, len(numbers)) for place in places]
    return np.array(found, np.int32)
