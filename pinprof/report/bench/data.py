"""What the table and the page of `pinprof bench` show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pinprof.analyze.costs.bench import Study
from pinprof.analyze.costs.costs import MOVES, Cost
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_ns, format_rate
from pinprof.data.rates import MEASURES


@dataclass(frozen=True)
class BenchReport:
    """A measurement of memory operations, with what belongs to reading it."""

    study: Study
    device_name: str
    emulated: bool
    host: Mapping[str, Any]
    """Facts about the machine (collect.host.facts)."""
    left_out: Sequence[tuple[str, int | None, str]]
    """(measure, bytes, reason): an empty measure is all of them, None all sizes."""
    unstable: Mapping[str, Sequence[str]]
    """Benchmark → why pyperf distrusts it, for whatever reason."""
    benchmarks: int
    processes: int
    duration_s: float
    command: str
    file: str
    """Name of pyperf's file."""
    emulations: Mapping[str, str]
    """Measure → what the host backend did for it; empty with a GPU."""

    @property
    def headline(self) -> str:
        """How many copies repay a pin; or what was measured, and why nothing follows from it."""
        rows = [row for row in self.study.break_even if row.copies(row.pin_ns) is not None]
        if rows:
            copies, size = rows[-1].copies(rows[-1].pin_ns), format_bytes(rows[-1].size_bytes)
            return f"{copies:,} {'copy repays' if copies == 1 else 'copies repay'} pinning {size} on this machine."
        measured = f"{self.benchmarks} costs of memory operations on this machine."
        return f"{measured} No advice: {self.study.withheld}" if self.study.withheld else measured

    @property
    def facts(self) -> tuple[str, ...]:
        """What was measured, where and how."""
        sizes = self.study.sizes
        span = f"{format_bytes(sizes[0])} to {format_bytes(sizes[-1])}" if len(sizes) > 1 else ""
        return tuple(
            fact
            for fact in (
                str(self.host.get("cpu") or "") if self.emulated else self.device_name,
                self.study.link,
                f"{self.benchmarks} benchmarks",
                span or "".join(map(format_bytes, sizes)),
                f"{self.processes} {'process' if self.processes == 1 else 'processes'}",
                format_ns(1e9 * self.duration_s),
            )
            if fact
        )

    @property
    def makes(self) -> tuple[str, ...]:
        """Measures that make, touch, pin or free memory, or only launch."""
        return tuple(measure for measure in self.study.measures if measure not in MOVES)

    @property
    def single(self) -> tuple[str, ...]:
        """What has no size, as sentences."""
        costs = [cost for cost in self.study.costs if not cost.rate.size_bytes]
        return tuple(
            f"{cost.rate.measure}, {MEASURES.get(cost.rate.measure, '')}: {format_ns(cost.rate.median_ns)}"
            for cost in costs
        )

    @property
    def moves(self) -> tuple[str, ...]:
        """Measures that move data."""
        return tuple(measure for measure in self.study.measures if measure in MOVES)

    def omissions(self) -> Iterator[tuple[str, str]]:
        """(what, reason) of everything left out, one row for each reason."""
        sizes: dict[tuple[str, str], set[int]] = {}
        for measure, size, reason in self.left_out:
            sizes.setdefault((reason, measure), set()).update(() if size is None else (size,))
        grouped: dict[str, dict[tuple[int, ...], list[str]]] = {}
        for (reason, measure), affected in sizes.items():
            grouped.setdefault(reason, {}).setdefault(tuple(sorted(affected)), []).append(measure)
        for reason, places in grouped.items():
            yield "; ".join(_placed(measures, at) for at, measures in places.items()), reason

    def warnings(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(reason, benchmarks) of pyperf's warnings, those with the same words in one row."""
        grouped: dict[str, list[str]] = {}
        for name, reasons in self.unstable.items():
            for reason in reasons:
                grouped.setdefault(_kind(reason), []).append(name)
        for reason, names in grouped.items():
            yield reason, tuple(names)


def speed(cost: Cost) -> str:
    """GB/s, without the unit."""
    return format_rate(cost.rate.size_bytes, cost.rate.median_ns).removesuffix(" GB/s")


def _placed(measures: Sequence[str], sizes: Sequence[int]) -> str:
    """`pin.alloc, free.pinned at 1 GiB`; only the sizes where everything was left out."""
    at = " and ".join(format_bytes(size) for size in sizes)
    return " at ".join(part for part in (", ".join(filter(None, measures)), at) if part)


def _kind(reason: str) -> str:
    """A warning of pyperf without its figures, which are those of one benchmark."""
    for start, kind in (
        ("the standard deviation", "the standard deviation is 10 % of the mean or more"),
        ("the minimum", "the minimum is less than half of the mean"),
        ("the maximum", "the maximum is more than 1.5 × the mean"),
        ("the shortest raw value", "the shortest value took less than 1 ms"),
    ):
        if reason.startswith(start):
            return kind
    return reason
