"""Wall time of ranges in the same words on the page, in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pinprof.analyze.results import RangeWall

REMAINDER = "not explained"
_ERRORS = 5
_SMALLEST = 0.002
"""Parts below this share of the wall time are drawn together."""


@dataclass(frozen=True, slots=True)
class WallPart:
    """One part of the wall time."""

    leaf: str
    """A leaf of the taxonomy; empty for small parts together, and for what nothing explains."""
    label: str
    ns: int
    share: float
    """Of all parts, 0 to 1."""


@dataclass(frozen=True, slots=True)
class WallData:
    """Where the wall time of one row of ranges went; `on_cpu`, `off_cpu` and `remainder_ns` sum to `wall_ns`."""

    wall_ns: int
    on_cpu_ns: int
    off_cpu_ns: int
    gpu_ns: int
    """Waiting for the GPU: part of both."""
    remainder_ns: int
    """Negative where samples and waits together exceed the clock."""
    error_ns: int
    """How large the remainder may be by chance: one standard error of sampling."""
    on_cpu: Mapping[str, int]
    off_cpu: Mapping[str, int]

    @property
    def sampled_enough(self) -> bool:
        """Whether the range is long against the error of sampling; shares of a shorter one are chance."""
        return self.wall_ns >= _ERRORS * self.error_ns

    def parts(self) -> list[WallPart]:
        """As a bar shows them: processor time by cause, waits, small parts, the remainder; shares sum to 1."""
        whole = self.on_cpu_ns + self.off_cpu_ns + max(self.remainder_ns, 0)
        if not whole:
            return []
        told = [*self.on_cpu.items(), *self.off_cpu.items()]
        parts = [WallPart(leaf, leaf, ns, ns / whole) for leaf, ns in told if ns >= _SMALLEST * whole]
        rest = sum(ns for _, ns in told) - sum(part.ns for part in parts)
        if rest:
            parts.append(WallPart("", "others", rest, rest / whole))
        if self.remainder_ns > 0:
            parts.append(WallPart("", REMAINDER, self.remainder_ns, self.remainder_ns / whole))
        return parts

    def most(self, count: int = 4, share: float = 0.02) -> list[WallPart]:
        """The heaviest causes and waits."""
        large = [part for part in self.parts() if part.leaf and part.share >= share]
        return sorted(large, key=lambda part: -part.ns)[:count]


def wall_data(wall: RangeWall | None) -> WallData | None:
    """What the analysis found, for a report."""
    if wall is None:
        return None
    return WallData(
        wall_ns=wall.wall_ns,
        on_cpu_ns=wall.on_cpu_ns,
        off_cpu_ns=wall.off_cpu_ns,
        gpu_ns=wall.gpu_ns,
        remainder_ns=wall.remainder_ns,
        error_ns=wall.error_ns,
        on_cpu=dict(wall.on_cpu),
        off_cpu=dict(wall.off_cpu),
    )


def wall_json(wall: WallData | None) -> dict[str, Any] | None:
    """The documented JSON (docs/json.md)."""
    return asdict(wall) if wall else None
