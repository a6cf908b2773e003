"""What the agent knows of the large memory that a place makes: whether it makes it again, exactly.

Where pages fault, memory is new. Whether the place makes it each time, or once and keeps it, depends on when it was
made and given back, which samples of faults can only suggest. Where large memory does not account for the faults, as
with many small blocks, nothing is said here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.analyze.allocations.blocks import LineBlocks
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.sites import Site
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted, format_ns
from pinprof.data.activity import Caller
from pinprof.data.model import Int64

AGAIN, ONCE = 0.5, 0.1
"""The shares of what is made that is made again: from the first on that is what happens, up to the second it is not."""
EXPLAINS = 0.5
"""The least share of the bytes that fault which large memory has to account for."""
_SAMPLE = 1 << 20
_BYTES_PER_NS = 4.0
"""How fast new pages are written to, where no rate is known."""


@dataclass(frozen=True)
class PlaceBlocks:
    """The large memory of one place, without what only grows."""

    lines: tuple[LineBlocks, ...]
    faulting_bytes: float
    """How much new memory costs what the place costs."""

    @property
    def made(self) -> int:
        """How many."""
        return sum(line.made for line in self.lines)

    @property
    def made_bytes(self) -> int:
        """All of them."""
        return sum(line.made_bytes for line in self.lines)

    @property
    def again(self) -> bool | None:
        """Whether the place makes its memory again each time, and its pages go back to the kernel meanwhile; None
        where that is not certain.
        """
        if self.made_bytes < EXPLAINS * self.faulting_bytes:
            return None
        share = sum(line.again_bytes for line in self.lines) / max(self.made_bytes, 1)
        if share <= ONCE:
            return False
        gone = sum(line.again_bytes for line in self.lines if line.returned)
        return True if share >= AGAIN and 2 * gone > share * self.made_bytes else None

    @property
    def text(self) -> str:
        """One sentence with figures."""
        given = sum(line.given for line in self.lines)
        lifetime = sum(line.lifetime_ns for line in self.lines) // max(given, 1)
        made = format_counted(self.made, "large block", "large blocks")
        most = sum(line.most_bytes for line in self.lines)
        freed = f"{given:,} are given back, after {format_ns(lifetime)} on average" if given else "none is given back"
        return (
            f"It makes {made} of {format_bytes(self.made_bytes)} in all; {freed}. At most {format_bytes(most)} live at"
            " once."
        )


def blocks_at(scene: Scene, making: Int64) -> PlaceBlocks | None:
    """The large memory that the place of these wall rows makes; None where the recording has none of it."""
    pids = set(np.unique(scene.capture.samples.pid[scene.course.wall.sample[making]]).tolist())
    lines = [line for line in scene.blocks if line.pid in pids and not line.grows]
    site = scene.site_of(making)
    mine = _of_place(lines, site, scene.sites.path(site.file))
    if not mine:
        return None
    rate = scene.rates.cost("touch.first", _SAMPLE)
    speed = _SAMPLE / rate.ns if rate and rate.ns > 0 else _BYTES_PER_NS
    return PlaceBlocks(tuple(mine), scene.ns(making) * speed)


def _of_place(lines: Sequence[LineBlocks], site: Site, path: str) -> list[LineBlocks]:
    """Those that the line makes; else those that its function makes, or has made."""
    here = [line for line in lines if site.line and (line.site.caller.line, line.site.caller.path) == (site.line, path)]
    if here or not site.function or site.function.startswith("["):
        return here

    def is_here(caller: Caller) -> bool:
        return caller.function == site.function and (not path or not caller.path or caller.path == path)

    return [line for line in lines if any(map(is_here, line.site.frames))]
