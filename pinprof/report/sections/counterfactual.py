"""What page and terminal say of costs in the same words: other kinds of memory, and pinned memory by threads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pinprof import units
from pinprof.analyze.costs.results import Counterfactual, Estimate, PinningCurve, PinningTime, threads_text

NO_RATES = (
    "What this run would have cost in another kind of memory is known once `pinprof bench` has measured this machine: "
    "record again then, or read this recording again on the machine where it was made."
)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 220, 52, 12, 12, 34
"""Of the drawn curve, in its own units."""
_TICKS = 4


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One kind of memory in the table: the measured run among its alternatives, cheapest first."""

    title: str
    ns: float
    low_ns: float
    high_ns: float
    once_ns: float
    assumes: str
    measured: bool
    """Whether this is the run as it was."""
    longest_ns: float
    """Of all rows: the bars' scale."""

    @property
    def bar(self) -> float:
        """Length in percent."""
        return 100 * max(self.ns, 0.0) / self.longest_ns if self.longest_ns else 0.0

    @property
    def whisker(self) -> tuple[float, float]:
        """Start and length of the error in percent."""
        if not self.longest_ns:
            return 0.0, 0.0
        return 100 * self.low_ns / self.longest_ns, 100 * (self.high_ns - self.low_ns) / self.longest_ns

    @property
    def error(self) -> str:
        """`54.1 ms to 65.4 ms`; empty for what was measured."""
        return "" if self.measured else f"{units.format_ns(self.low_ns)} to {units.format_ns(self.high_ns)}"


def mode_rows(told: Counterfactual) -> list[ModeRow]:
    """The measured run and every estimate, cheapest first."""
    own = Estimate(told.mode, told.title, told.measured_ns, told.measured_ns, told.measured_ns, 0.0, "")
    longest = max(estimate.high_ns for estimate in (own, *told.estimates))
    rows = [
        ModeRow(one.title, one.ns, one.low_ns, one.high_ns, one.once_ns, one.assumes, one is own, longest)
        for one in (own, *told.estimates)
    ]
    return sorted(rows, key=lambda row: row.ns)


def difference(told: Counterfactual, row: ModeRow) -> str:
    """`−92.1 ms (61 % less)` against the measured run."""
    change = row.ns - told.measured_ns
    word = "less" if change < 0 else "more"
    share = units.format_share(abs(change), told.measured_ns)
    return f"{'−' if change < 0 else '+'}{units.format_ns(abs(change))} ({share} {word})"


def saving_sentence(told: Counterfactual) -> str:
    """The largest saving, with its error; that there is none beyond the error; or what is missing to say so."""
    if not told.measured_utc:
        return NO_RATES
    best = told.best
    measured = f"{told.title}: {units.format_ns(told.measured_ns)} an iteration, measured"
    if not told.estimates:
        return f"The rates of this machine say nothing of other kinds of memory for this run ({measured})."
    if best is None:
        return f"No other kind of memory would have saved more than the error of the estimate ({measured})."
    once = f", after {units.format_ns(best.once_ns)} once" if best.once_ns else ""
    return (
        f"With {best.title} an iteration would take {units.format_ns(best.ns)} ({units.format_ns(best.low_ns)} to "
        f"{units.format_ns(best.high_ns)}) instead of {units.format_ns(told.measured_ns)}: "
        f"{units.format_ns(told.measured_ns - best.ns)} less{once}."
    )


def notes(told: Counterfactual) -> list[str]:
    """Where the figures come from and what they take for granted."""
    if not told.measured_utc:
        return []
    when = told.measured_utc[:16].replace("T", " ")
    source = f"From this recording and the rates that `pinprof bench` measured on that machine at {when} UTC."
    found = [source] if told.estimates else []
    if told.modelled and told.estimates:
        found.append(
            f"The rates give {units.format_ns(told.modelled.ns)} for the run that was measured at "
            f"{units.format_ns(told.measured_ns)}: making and freeing memory took {told.scale:.2f} times what they "
            "say. The estimates are scaled by that, and their errors include the difference."
        )
    found += [f"{row.title[:1].upper()}{row.title[1:]}: {row.assumes}" for row in mode_rows(told) if row.assumes]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for title, measures in told.lacking:
        lacking.setdefault(tuple(measures), []).append(title)
    found += [
        f"No estimate without a measurement of {', '.join(measures)}: {'; '.join(titles)}."
        for measures, titles in lacking.items()
    ]
    return found


def counterfactual_json(told: Counterfactual) -> dict[str, Any]:
    """The documented JSON; `estimates` are empty and `rates_measured_utc` is null without rates."""
    return {
        "mode": told.mode,
        "title": told.title,
        "measured_ns": round(told.measured_ns),
        "modelled_ns": round(told.modelled.ns) if told.modelled else None,
        "scale": told.scale,
        "estimates": [
            {
                "mode": one.mode,
                "title": one.title,
                "low_ns": round(one.low_ns),
                "likely_ns": round(one.ns),
                "high_ns": round(one.high_ns),
                "once_ns": round(one.once_ns),
                "assumes": one.assumes,
            }
            for one in told.estimates
        ],
        "lacking": [{"title": title, "measures": list(measures)} for title, measures in told.lacking],
        "rates_measured_utc": told.measured_utc or None,
    }


def pinning_json(curve: PinningCurve) -> dict[str, Any]:
    """The documented JSON."""
    return {
        "size_bytes": curve.size_bytes,
        "call": curve.call,
        "baseline": asdict(curve.baseline),
        "points": [asdict(point) for point in curve.points],
    }


def pinning_rows(curve: PinningCurve) -> list[tuple[str, PinningTime]]:
    """(name, time) of the one call and of every number of threads."""
    return [(curve.call, curve.baseline), *((threads_text(point.threads), point) for point in curve.points)]


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the drawn curve."""

    x: float
    y: float
    least_y: float
    most_y: float
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class CurveDrawing:
    """The curve in the units of its view box."""

    width: int
    height: int
    left: int
    right: int
    bottom: float
    path: str
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    baseline_y: float
    baseline_label: str


def drawing(curve: PinningCurve) -> CurveDrawing:
    """Time per GiB over threads, equal steps from one number to the next, with the one call as a line."""
    step = _tick(curve.per_gib(max(curve.baseline.most_ns, *(point.most_ns for point in curve.points))))
    top = step * _TICKS
    bottom = _HEIGHT - _BOTTOM
    between = (_WIDTH - _LEFT - _RIGHT) / max(len(curve.points), 1)

    def y(ns: float) -> float:
        return round(bottom - (bottom - _TOP) * curve.per_gib(ns) / top, 2)

    marks = tuple(
        Mark(
            round(_LEFT + between * (number + 0.5), 2),
            y(point.median_ns),
            y(point.least_ns),
            y(point.most_ns),
            str(point.threads),
            f"{threads_text(point.threads)}: {units.format_ns(curve.per_gib(point.median_ns))}/GiB",
        )
        for number, point in enumerate(curve.points)
    )
    ticks = tuple(
        (round(bottom - (bottom - _TOP) * number / _TICKS, 2), units.format_ns(step * number) if number else "0")
        for number in range(_TICKS + 1)
    )
    label = f"{curve.call}: {units.format_ns(curve.per_gib(curve.baseline.median_ns))}/GiB"
    path = " ".join(f"{mark.x},{mark.y}" for mark in marks)
    return CurveDrawing(
        _WIDTH, _HEIGHT, _LEFT, _WIDTH - _RIGHT, bottom, path, marks, ticks, y(curve.baseline.median_ns), label
    )


def _tick(most: float) -> float:
    """A round step of which `_TICKS` cover `most`."""
    size = 1.0
    while size * 10 * _TICKS <= most:
        size *= 10
    return next((size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * _TICKS >= most), size * 10)
