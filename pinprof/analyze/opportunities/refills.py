"""What memory in huge pages saves that stays instead of being made each time, as this machine was measured to do it.

A kernel that zeroes a new huge page leaves it in the caches, from where the program's first writes profit. How much of
the zeroing is really saved depends on the caches and on how the memory is filled. Rates `refill.*` are of both.
"""

from __future__ import annotations

import re

import numpy as np

from pinprof.analyze.opportunities.making import PlaceBlocks
from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_share
from pinprof.data.model import Int64
from pinprof.data.rate_book import Estimate, RateBook

_COPIES = re.compile(r"(__)?mem(cpy|move)\w*(\.\w+)*")
_TYPICAL = 64 << 20
"""Bytes of one block where the recording does not tell."""
_ERROR = 0.2
"""By this share of itself, what is saved of the zeroing differs from program to program (docs/opportunities.md)."""


@dataclass(frozen=True)
class Renewal:
    """The shares of the time in faults of huge pages that memory which stays saves."""

    shares: tuple[float, float, float]
    """Low, likely, high."""
    basis: str


def renewal(scene: Scene, faults: Int64, blocks: PlaceBlocks | None) -> Renewal | None:
    """For these wall rows, which lie in faults of huge pages; None where this machine was not measured."""
    size = blocks.made_bytes // blocks.made if blocks and blocks.made else _TYPICAL
    zeroing = scene.rates.cost("touch.huge", size)
    if zeroing is None or not zeroing.ns:
        return None
    copied, added = (_share(scene.rates, how, size, zeroing) for how in ("copy", "add"))
    if copied is None or added is None:
        return None
    copies = scene.ns(faults[scene.has(_COPIES)[faults]]) / max(scene.ns(faults), 1)
    # Two arrays and the sum compete for the caches; nothing does less for memory that stays.
    if blocks and all(line.zeroed for line in blocks.lines):
        copied, added = (share * (1 - _clearing(scene.rates, size, zeroing)) for share in (copied, added))
    least = copies * copied + (1 - copies) * added
    likely = copies * copied + (1 - copies) * (copied + added) / 2
    low, likely, high = np.clip([(1 - _ERROR) * least, likely, (1 + _ERROR) * max(copied, likely)], 0, 1).tolist()
    of_copies, of_sums = (format_share(min(share, 1), 1) for share in (copied, added))
    text = (
        f"Keeping the memory saves {of_copies} of zeroing its pages where it is copied to, and {of_sums} where a sum of"
        f" two arrays is written to it ({format_bytes(size)}, {zeroing.source})."
    )
    return Renewal((low, likely, high), text)


def _clearing(rates: RateBook, size: int, zeroing: Estimate) -> float:
    """What clearing memory that stays takes, as a share of zeroing new pages: half a copy, which reads as well."""
    kept = rates.cost("refill.copy-kept", size)
    return min(kept.ns / 2 / zeroing.ns, 1) if kept else 0.0


def _share(rates: RateBook, how: str, size: int, zeroing: Estimate) -> float | None:
    """What filling memory that stays saves, as a share of zeroing it; None where this machine was not measured."""
    new, kept = (rates.cost(f"refill.{how}-{which}", size) for which in ("new", "kept"))
    return max(new.ns - kept.ns, 0) / zeroing.ns if new and kept else None
