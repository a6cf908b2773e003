"""What the analysis of costs returns: a run in other kinds of memory, and the time it takes to get pinned memory."""

from __future__ import annotations

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns

GIB = 1 << 30


def threads_text(count: int) -> str:
    """`1 thread`, `8 threads`."""
    return f"{count} {'thread' if count == 1 else 'threads'}"


@dataclass(frozen=True)
class Estimate:
    """What one iteration would cost in a mode."""

    mode: str
    title: str
    low_ns: float
    ns: float
    high_ns: float
    once_ns: float
    """Paid once beside the iterations; 0 when nothing is."""
    assumes: str


@dataclass(frozen=True)
class Counterfactual:
    """One run beside what it would have been."""

    mode: str
    """Key of the mode that ran."""
    title: str
    measured_ns: float
    """Mean of an iteration."""
    modelled: Estimate | None
    """The same mode by the same arithmetic: how far the model is off here. None when rates for it are missing."""
    estimates: tuple[Estimate, ...]
    """Other modes, cheapest first."""
    lacking: tuple[tuple[str, tuple[str, ...]], ...]
    """Modes without an estimate, by title, and the measures that were not taken."""
    scale: float
    """What making and freeing memory took in this run, of what the rates say; the estimates are scaled by it."""
    measured_utc: str
    """When the rates were measured; empty when there are none, and then nothing is estimated."""

    @property
    def best(self) -> Estimate | None:
        """The cheapest other mode, when it saves more than its error; None else."""
        first = next(iter(self.estimates), None)
        return first if first and first.high_ns < self.measured_ns else None


@dataclass(frozen=True)
class PinningTime:
    """From the first call to usable pinned memory, of the curve's size."""

    threads: int
    """That touch the pages; 0 for the one call of CUDA."""
    runs: int
    median_ns: int
    least_ns: int
    most_ns: int


@dataclass(frozen=True)
class PinningCurve:
    """The same memory, made usable by more and more threads."""

    size_bytes: int
    points: tuple[PinningTime, ...]
    """By threads, ascending; at least one."""
    baseline: PinningTime
    call: str
    """What the baseline calls: `cudaMallocHost`."""

    @property
    def fastest(self) -> PinningTime:
        """The point with the least median."""
        return min(self.points, key=lambda point: point.median_ns)

    def per_gib(self, ns: float) -> float:
        """A time by size."""
        return ns / self.size_bytes * GIB

    def sentence(self) -> str:
        """What the curve says."""
        best, whole = self.fastest, self.baseline.median_ns
        factor = whole / best.median_ns if best.median_ns else 0.0
        return (
            f"prefault with {threads_text(best.threads)} on huge pages: {format_ns(self.per_gib(best.median_ns))}/GiB "
            f"from the first call to usable pinned memory; {self.call}: {format_ns(self.per_gib(whole))}/GiB, "
            f"{factor:.1f} times as long."
        )
