"""Measured rates against the limits of the link, per GiB, and when a pin is repaid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pinprof.analyze.activity.link import lanes_or_generation
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.rates import Rate, Rates

Direction = Literal["to the device", "to the host"]

GIB = 1 << 30
MOVES: Mapping[str, Direction | None] = {
    "h2d.pageable": "to the device",
    "h2d.pinned": "to the device",
    "h2d.staged": "to the device",
    "h2d.write-combined": "to the device",
    "d2h.pageable": "to the host",
    "d2h.pinned": "to the host",
    "uvm.ondemand": "to the device",
    "uvm.prefetch": "to the device",
    "uvm.prefetched-kernel": None,
    "uvm.cpu-readback": "to the host",
    "zerocopy.pass": "to the device",
    "memcpy.host": None,
}
"""Measures that move data, with the direction on the link; None for those that do not use it."""

_PCIE_GT_PER_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Generation → transfers per second and lane (PCI Express Base Specification)."""
_PCIE_CODING = {1: 8 / 10, 2: 8 / 10, 6: 242 / 256}
"""Share that the line code leaves: 8b/10b, from generation 3 on 128b/130b, with 6 flits of 256 bytes."""
_C2C_GB_PER_S = 450.0
"""NVLink-C2C per direction (NVIDIA, Grace Hopper architecture)."""


@dataclass(frozen=True)
class Limit:
    """What one direction of the link can do."""

    direction: Direction
    theory_gb_per_s: float | None
    """Bits on the wire, before packet headers; None when the link is unknown."""
    practical_gb_per_s: float | None
    """The best that was measured with pinned memory; None when that was not."""


@dataclass(frozen=True)
class Cost:
    """One measure at one size."""

    rate: Rate
    ns_per_gib: float | None
    """None where no memory takes part."""
    gb_per_s: float | None
    """For measures that move data."""
    of_practical: float | None
    of_theory: float | None


@dataclass(frozen=True)
class BreakEven:
    """How many copies to the device repay a pin, at one size."""

    size_bytes: int
    pageable_ns: float
    pinned_ns: float
    pin_ns: float | None
    """cudaMallocHost and cudaFreeHost."""
    register_ns: float | None
    """cudaHostRegister of memory that has its pages, and cudaHostUnregister."""

    def copies(self, cost_ns: float | None) -> int | None:
        """Copies after which a cost is repaid; None when it never is, or was not measured."""
        gain = self.pageable_ns - self.pinned_ns
        return max(1, math.ceil(cost_ns / gain)) if cost_ns is not None and gain > 0 else None


def link_of(machine: Mapping[str, Any]) -> tuple[str, float | None]:
    """Name and theory, GB/s per direction, of the GPUs' link; unknown when they differ."""
    gpus = machine.get("gpus")
    links = {_link_of(gpu) for gpu in gpus if isinstance(gpu, Mapping)} if isinstance(gpus, list | tuple) else set()
    return links.pop() if len(links) == 1 else ("", None)


def _link_of(gpu: Mapping[str, Any]) -> tuple[str, float | None]:
    if "GH200" in str(gpu.get("name")):
        return "NVLink-C2C", _C2C_GB_PER_S
    generation, width = (lanes_or_generation(gpu.get(key)) for key in ("link_generation_max", "link_width_max"))
    if generation is None or width is None or generation not in _PCIE_GT_PER_S:
        return "", None
    coding = _PCIE_CODING.get(generation, 128 / 130)
    return f"PCIe {generation}.0 x{width}", _PCIE_GT_PER_S[generation] * coding * width / 8


def limits_of(rates: Rates, theory: float | None) -> tuple[Limit, ...]:
    """Theory and the best that was measured, for both directions."""

    def best(*measures: str) -> float | None:
        measured = [rate.size_bytes / rate.median_ns for name in measures for rate in rates.of(name) if rate.median_ns]
        return max(measured, default=None)

    return (
        Limit("to the device", theory, best("h2d.pinned", "h2d.write-combined")),
        Limit("to the host", theory, best("d2h.pinned")),
    )


def cost_of(rate: Rate, limits: Sequence[Limit]) -> Cost:
    """A rate per GiB, and against the limit of its direction."""
    moves = rate.measure in MOVES and rate.size_bytes > 0 and rate.median_ns > 0
    speed = rate.size_bytes / rate.median_ns if moves else None
    direction = MOVES.get(rate.measure)
    limit = next((one for one in limits if one.direction == direction), None)
    return Cost(
        rate=rate,
        ns_per_gib=rate.median_ns * GIB / rate.size_bytes if rate.size_bytes else None,
        gb_per_s=speed,
        of_practical=_share(speed, limit.practical_gb_per_s if limit else None),
        of_theory=_share(speed, limit.theory_gb_per_s if limit else None),
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


class Times:
    """Medians by measure and size."""

    def __init__(self, rates: Rates) -> None:
        self._ns = {(rate.measure, rate.size_bytes): rate.median_ns for rate in rates.rates}

    def __call__(self, measure: str, size: int) -> float | None:
        """The time of a measure at a size; None when it was not taken."""
        return self._ns.get((measure, size))

    def sum(self, size: int, *measures: str) -> float | None:
        """The times of several measures at a size; None when one is missing."""
        times = self._all(size, measures)
        return None if times is None else sum(times)

    def largest(self, *measures: str) -> tuple[int, tuple[float, ...]] | None:
        """The largest size at which all of them were measured, with their times."""
        for size in sorted({size for _, size in self._ns}, reverse=True):
            if times := self._all(size, measures):
                return size, times
        return None

    def _all(self, size: int, measures: Sequence[str]) -> tuple[float, ...] | None:
        times = tuple(self._ns[measure, size] for measure in measures if (measure, size) in self._ns)
        return times if len(times) == len(measures) else None


def break_even_of(rates: Rates) -> tuple[BreakEven, ...]:
    """By size, where both kinds of copies and a kind of pinning were measured."""
    times = Times(rates)
    rows = []
    for rate in rates.of("h2d.pageable"):
        size, pinned = rate.size_bytes, times("h2d.pinned", rate.size_bytes)
        if pinned is None:
            continue
        pin = times.sum(size, "pin.alloc", "free.pinned")
        register = times.sum(size, "pin.register-touched", "free.unregister")
        if pin is not None or register is not None:
            rows.append(BreakEven(size, rate.median_ns, pinned, pin, register))
    return tuple(rows)
