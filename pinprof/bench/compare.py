"""Two measurements side by side: per benchmark the ratio, and whether a t-test calls it significant."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, variance
from typing import Any

from pyperf._utils import is_significant

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import LEVEL, difference
from pinprof.bench.suite import load_suite


@dataclass(frozen=True)
class BenchmarkRow:
    """One benchmark that both have."""

    name: str
    before_ns: float
    """Mean, as everywhere in pyperf's comparisons."""
    after_ns: float
    significant: bool

    @property
    def ratio(self) -> float:
        """After divided by before: above 1 is slower."""
        return self.after_ns / self.before_ns


@dataclass(frozen=True)
class Comparison:
    """Two measurements."""

    before: str
    after: str
    rows: tuple[BenchmarkRow, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    different: tuple[str, ...]
    """Sentences about what else differs: backend, machine."""


def compare(before: Path, after: Path) -> Comparison:
    """Compare two files of `pinprof bench`; CaptureError when one cannot be read."""
    suites = [load_suite(path) for path in (before, after)]
    old, new = ({one.get_name(): one for one in suite.get_benchmarks() if one.get_nvalue()} for suite in suites)
    rows = tuple(
        BenchmarkRow(name, 1e9 * old[name].mean(), 1e9 * new[name].mean(), _significant(old[name], new[name]))
        for name in old
        if name in new
    )
    return Comparison(
        before=str(before),
        after=str(after),
        rows=rows,
        only_before=tuple(name for name in old if name not in new),
        only_after=tuple(name for name in new if name not in old),
        different=tuple(_different(*(suite.get_benchmarks()[0].get_metadata() for suite in suites))),
    )


def _significant(before: Any, after: Any) -> bool:
    """A two-sided t-test at 95 %: pyperf's own for as many values on both sides, Welch's otherwise.

    pyperf calls what it cannot test significant. Here the same values do not differ, and one value proves nothing.
    """
    old, new = before.get_values(), after.get_values()
    if old == new or min(len(old), len(new)) < 2:
        return False
    if max(variance(old), variance(new)) == 0:
        return bool(mean(old) != mean(new))
    if len(old) == len(new):
        return bool(is_significant(old, new)[0])
    welch = difference(old, new)
    return welch is not None and welch.p <= LEVEL


def _different(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    labels = {
        "pinprof_backend": "backends",
        "pinprof_device": "devices",
        "cpu_model_name": "processors",
        "platform": "systems",
    }
    return [
        f"Different {label}: {before.get(key, 'unknown')} and {after.get(key, 'unknown')}."
        for key, label in labels.items()
        if before.get(key) != after.get(key)
    ]
