"""What memory operations of any size cost on the machine of a capture, how sure that is, and where it comes from.

Sources in order: `pinprof bench` of that machine, the run itself, calibrations of it, a reference
machine. The first that has the measure near the size answers. Between two measured sizes an estimate is a straight line
on logarithmic axes; below the smallest and above the largest it is a fixed part and a price per byte.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import rates
from pinprof.data.model import Capture
from pinprof.data.rates import NEED_NO_GPU, Rate, Rates, family, prefault_threads

BENCH = "pinprof bench on this machine"
RUN = "this run"
CALIBRATION = "calibration of this machine"
REFERENCE = "reference machine: H200, Xeon Sapphire Rapids, PCIe 5.0 x16"
_REFERENCE_FILE = Path(__file__).parent / "reference-h200.json"

PER_PAGE = {"fault.4k": ("touch.first", 4096), "fault.huge": ("touch.huge", 2 << 20), "fault.cow": ("touch.cow", 4096)}
"""Derived measure → the measure of whole buffers and its page: one fault of those that create this number of bytes."""


@dataclass(frozen=True)
class Estimate:
    """What one operation costs. `low_ns <= ns <= high_ns`."""

    ns: float
    low_ns: float
    high_ns: float
    source: str
    """In words, for whoever asks what a prediction rests on."""
    measure: str = ""
    """The measure behind it: of `prefault.tN`, the number of threads that was cheapest."""

    def times(self, count: float) -> Estimate:
        """The estimate of `count` of them."""
        return replace(self, ns=self.ns * count, low_ns=self.low_ns * count, high_ns=self.high_ns * count)


@dataclass(frozen=True)
class RateSource:
    """Rates that have one origin."""

    name: str
    rates: tuple[Rate, ...]
    least_error: float
    """The error is never smaller, as a share of the estimate, however close together the values were."""
    reach: float = math.inf
    """How many times smaller or larger than all of its sizes another size may be for it to answer first."""

    def curve(self, measure: str) -> tuple[Rate, ...]:
        """What it has of a measure, by size, the last of those of one size."""
        of_size = {rate.size_bytes: rate for rate in self.rates if rate.measure == measure}
        return tuple(of_size[size] for size in sorted(of_size))

    def estimate(self, measure: str, size_bytes: int) -> Estimate | None:
        """What it says, however far from its sizes; None when it does not have the measure."""
        if measure == "prefault.tN":
            names = {rate.measure for rate in self.rates if prefault_threads(rate.measure)}
            found = [answer for name in names if (answer := self.estimate(name, size_bytes))]
            return min(found, key=lambda answer: (answer.ns, answer.measure), default=None)
        curve = self.curve(measure)
        if not curve:
            return None
        ns = interpolated([(rate.size_bytes, rate.median_ns) for rate in curve], size_bytes)
        near = _nearest(curve, size_bytes)
        below = max([self.least_error, *(1 - rate.low_ns / rate.median_ns for rate in near if rate.median_ns)])
        above = max([self.least_error, *(rate.high_ns / rate.median_ns - 1 for rate in near if rate.median_ns)])
        return Estimate(ns, ns * (1 - min(below, 1.0)), ns * (1 + above), self.name, measure)

    def reaches(self, measure: str, size_bytes: int) -> bool:
        """Whether it has the measure near that size."""
        sizes = [rate.size_bytes for rate in self.rates if measure in (rate.measure, family(rate.measure))]
        if not sizes:
            return False
        return (min(sizes) <= size_bytes * self.reach and size_bytes <= max(sizes) * self.reach) or not any(sizes)


class RateBook:
    """Answers what an operation costs, from the first source that knows."""

    def __init__(self, sources: Iterable[RateSource]) -> None:
        self.sources = tuple(sources)
        self.guessed: set[str] = set()
        """The measures that were asked for and that nothing has of this machine."""

    @classmethod
    def of(cls, capture: Capture, run_rates: Sequence[Rate] = ()) -> Self:
        """The book of a capture; `run_rates` are what the run itself showed (analyze.costs.run_rates)."""
        stored = capture.rates
        found = _trusted(stored) if stored else ()
        calibrated = stored is not None and stored.measured_by == "calibration"
        return cls(
            [
                *([RateSource(BENCH, found, 0.10)] if found and not calibrated else ()),
                *([RateSource(RUN, tuple(run_rates), 0.20, reach=4.0)] if run_rates else ()),
                *([RateSource(CALIBRATION, found, 0.20)] if found and calibrated else ()),
                RateSource(REFERENCE, reference().rates, 0.50),
            ]
        )

    def cost(self, measure: str, size_bytes: int) -> Estimate | None:
        """One call of a measure of `rates.MEASURES` at a size; None when no source has it.

        `prefault.tN` is the cheapest number of threads that was measured. `fault.4k`, `fault.huge` and `fault.cow` are
        one page fault of those that create `size_bytes`.
        """
        if measure in PER_PAGE:
            whole, page = PER_PAGE[measure]
            size_bytes = max(size_bytes, page)
            cost = self.cost(whole, size_bytes)
            return cost.times(page / size_bytes) if cost else None
        near = (source for source in self.sources if source.reaches(measure, size_bytes))
        answers = (source.estimate(measure, size_bytes) for source in (*near, *self.sources))
        answer = next(filter(None, answers), None)
        if answer is None or answer.source == REFERENCE:
            self.guessed.add(measure)
        return answer


@functools.cache
def reference() -> Rates:
    """The rates of the reference machine, which this package brings along."""
    return rates.read(_REFERENCE_FILE)


def interpolated(points: Sequence[tuple[int, float]], size_bytes: int) -> float:
    """The time at a size, from (size, time) in ascending order of size; exact at each of them, and never negative."""
    (first, first_ns), (last, last_ns) = points[0], points[-1]
    if first <= 0 and first == last:
        return first_ns
    if len(points) == 1:
        return first_ns * size_bytes / first
    if size_bytes <= first:
        # A fixed part below 0 is none: then it is a price per byte alone.
        slope = min(_slope(points[0], points[1]), first_ns / first) if first > 0 else 0.0
        return first_ns - slope * (first - size_bytes)
    if size_bytes >= last:
        return last_ns + _slope(points[-2], points[-1]) * (size_bytes - last)
    upper = next(number for number, (size, _) in enumerate(points) if size >= size_bytes)
    (low, low_ns), (high, high_ns) = points[upper - 1], points[upper]
    if min(low, low_ns, high_ns) <= 0:
        return low_ns + (high_ns - low_ns) * (size_bytes - low) / (high - low)
    share = math.log(size_bytes / low) / math.log(high / low)
    # The powers are exact at both ends, exp(log()) is not.
    return high_ns if size_bytes == high else float(low_ns ** (1 - share) * high_ns**share)


def _slope(lower: tuple[int, float], upper: tuple[int, float]) -> float:
    """Nanoseconds per byte between two points, at least 0."""
    return max((upper[1] - lower[1]) / (upper[0] - lower[0]), 0.0)


def _nearest(curve: Sequence[Rate], size_bytes: int) -> tuple[Rate, ...]:
    """The measured sizes on both sides, or the nearest one."""
    below = [rate for rate in curve if rate.size_bytes <= size_bytes]
    above = [rate for rate in curve if rate.size_bytes >= size_bytes]
    return (*below[-1:], *above[:1])


def _trusted(found: Rates) -> tuple[Rate, ...]:
    """Without what the host backend emulates: that is not what CUDA does."""
    return found.rates if found.backend == "cuda" else tuple(one for one in found.rates if one.measure in NEED_NO_GPU)
