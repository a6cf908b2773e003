"""What measured rates say: against the limits of the link, when pinning pays, and what to choose on this machine.

`study` turns rates into figures and answers; it measures nothing, and draws nothing. Figures that do not hold carry no
advice: those of another mechanism than CUDA's, and those of a machine that is not at rest.
"""

from __future__ import annotations

from pinprof.analyze.costs.choices import BenchAnswer, answers_of
from pinprof.analyze.costs.costs import BreakEven, Cost, Limit, break_even_of, cost_of, limits_of, link_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count, format_counted
from pinprof.data.rates import MEASURES, Rates, prefault_threads

MOST_UNSTABLE = 0.5
"""The share of benchmarks: where more than these are unstable, the others are so by chance."""


@dataclass(frozen=True)
class Study:
    """What rates say."""

    rates: Rates
    link: str
    """Name of the link; empty when unknown or without a GPU."""
    limits: tuple[Limit, ...]
    """What a GPU's link can do; empty for the host backend."""
    costs: tuple[Cost, ...]
    break_even: tuple[BreakEven, ...]
    """Empty where advice is withheld."""
    answers: tuple[BenchAnswer, ...]
    """Empty where advice is withheld."""
    withheld: str
    """Why no advice is given, one sentence; empty where it is given."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that were measured, ascending, without 0."""
        return tuple(sorted({cost.rate.size_bytes for cost in self.costs if cost.rate.size_bytes}))

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure, in the order in which they are explained; prefaulting by threads."""
        return tuple(sorted({cost.rate.measure for cost in self.costs}, key=_place))

    def cost(self, measure: str, size_bytes: int) -> Cost | None:
        """One measure at one size; None when it was not taken."""
        wanted = measure, size_bytes
        return next((cost for cost in self.costs if (cost.rate.measure, cost.rate.size_bytes) == wanted), None)

    def sized(self, measure: str) -> bool:
        """Whether a measure was taken at any size; a launch has none."""
        return any(cost.rate.measure == measure and cost.rate.size_bytes for cost in self.costs)

    def prefaults(self, size_bytes: int) -> tuple[tuple[int, float], ...]:
        """(threads, ns) of prefaulting at a size, by threads."""
        by_threads = [
            (threads, cost.rate.median_ns)
            for cost in self.costs
            if (threads := prefault_threads(cost.rate.measure)) and cost.rate.size_bytes == size_bytes
        ]
        return tuple(sorted(by_threads))


def _place(measure: str) -> tuple[int, int]:
    order = list(MEASURES)
    if threads := prefault_threads(measure):
        return order.index("prefault.tN"), threads
    return order.index(measure) if measure in MEASURES else len(order), 0


def study(rates: Rates, unstable: int = 0) -> Study:
    """Figures and answers from rates, of which `unstable` come from benchmarks whose values spread widely."""
    link, theory = link_of(rates.machine) if rates.backend == "cuda" else ("", None)
    limits = limits_of(rates, theory) if rates.backend == "cuda" else ()
    costs = tuple(cost_of(rate, limits) for rate in rates.rates)
    withheld = _withheld(rates, unstable)
    advice = ((), ()) if withheld else (break_even_of(rates), answers_of(rates))
    return Study(rates, link, limits, costs, *advice, withheld)


def _withheld(rates: Rates, unstable: int) -> str:
    if rates.backend != "cuda":
        return "Without a GPU, pinning and copying are emulated, so their costs do not apply to CUDA."
    if unstable > MOST_UNSTABLE * len(rates.rates):
        count = f"{format_count(unstable)} of {format_counted(len(rates.rates), 'benchmark is', 'benchmarks are')}"
        return f"{count} unstable. Measure again while nothing else runs, or for longer (--time)."
    return ""
