"""The run with other memory types: what the program would have cost, by the rates of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyze import Run
from pinprof.analyze.costs.results import Counterfactual, Estimate
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import ReportData, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.terminal.layout import kept, plain_table, sentence, titled

NO_RATES = (
    "Estimates for other memory types need the rates of `pinprof bench`. Run it on the machine of the recording, "
    "then record again, or report on this recording there."
)


@dataclass(frozen=True)
class ModeRow:
    """One kind of memory in the table: the measured run among its alternatives, cheapest first."""

    estimate: Estimate
    measured: bool
    """Whether this is the run as it was."""
    longest_ns: float
    """The longest of all rows: the bars' scale."""

    @property
    def bar(self) -> float:
        """Length in percent."""
        return 100 * max(self.estimate.ns, 0.0) / self.longest_ns if self.longest_ns else 0.0

    @property
    def whisker(self) -> tuple[float, float]:
        """Start and length of the error in percent."""
        if not self.longest_ns:
            return 0.0, 0.0
        low, high = self.estimate.low_ns, self.estimate.high_ns
        return 100 * low / self.longest_ns, 100 * (high - low) / self.longest_ns

    @property
    def error(self) -> str:
        """`54.1 ms to 65.4 ms`; empty for what was measured."""
        return "" if self.measured else _interval(self.estimate)


@dataclass(frozen=True)
class OtherMemory(Section):
    """The run as it was, and its estimates."""

    key, title = "counterfactual", "What if: other memory types"
    absent = (("counterfactual", None),)

    run: Counterfactual

    @classmethod
    def build(cls, analysis: Run, _: Shared) -> Self | None:
        """None for programs that do not say what their phases are."""
        return cls(analysis.counterfactual) if analysis.counterfactual else None

    @property
    def rows(self) -> list[ModeRow]:
        """The measured run and every estimate, cheapest first."""
        run = self.run
        own = Estimate(run.mode, run.title, run.measured_ns, run.measured_ns, run.measured_ns, 0.0, "")
        longest = max(estimate.high_ns for estimate in (own, *run.estimates))
        rows = [ModeRow(one, one is own, longest) for one in (own, *run.estimates)]
        return sorted(rows, key=lambda row: row.estimate.ns)

    def difference(self, row: ModeRow) -> str:
        """`−92.1 ms (61 % less)` against the measured run."""
        change = row.estimate.ns - self.run.measured_ns
        word = "less" if change < 0 else "more"
        share = units.format_share(abs(change), self.run.measured_ns)
        return f"{'−' if change < 0 else '+'}{units.format_ns(abs(change))} ({share} {word})"

    @property
    def saving(self) -> str:
        """The largest saving, with its error; that there is none beyond the error; or what is missing to say so."""
        run = self.run
        if not run.measured_utc:
            return NO_RATES
        best = run.best
        measured = f"{run.title}: {units.format_ns(run.measured_ns)} per iteration, measured"
        if not run.estimates:
            return f"The rates of this machine do not cover other memory types for this run ({measured})."
        if best is None:
            return f"No other memory type would save more than the error of the estimate ({measured})."
        once = f", after {units.format_ns(best.once_ns)} once" if best.once_ns else ""
        return (
            f"With {best.title}, an iteration would take {units.format_ns(best.ns)} ({_interval(best)}) "
            f"instead of {units.format_ns(run.measured_ns)}: "
            f"{units.format_ns(run.measured_ns - best.ns)} less{once}."
        )

    @property
    def notes(self) -> list[str]:
        """Where the figures come from and what they take for granted."""
        run = self.run
        if not run.measured_utc:
            return []
        when = run.measured_utc[:16].replace("T", " ")
        source = f"Based on this recording and the rates that `pinprof bench` measured on that machine at {when} UTC."
        lines = [source] if run.estimates else []
        if run.modelled and run.estimates:
            lines.append(
                f"The rates give {units.format_ns(run.modelled.ns)} for the run that was measured at "
                f"{units.format_ns(run.measured_ns)}. Allocating and freeing memory took {run.scale:.2f} times as "
                "long as the rates predict. The estimates are scaled accordingly, and their errors include the "
                "difference."
            )
        ordered = [row.estimate for row in self.rows if row.estimate.assumes]
        lines += [f"{one.title[:1].upper()}{one.title[1:]}: {one.assumes}" for one in ordered]
        lacking: dict[tuple[str, ...], list[str]] = {}
        for title, measures in run.lacking:
            lacking.setdefault(tuple(measures), []).append(title)
        lines += [
            f"Estimates need measurements of {', '.join(measures)}: {'; '.join(titles)}."
            for measures, titles in lacking.items()
        ]
        return lines

    def to_json(self) -> dict[str, Any]:
        """`estimates` are empty and `rates_measured_utc` is null without rates."""
        run = self.run
        estimates = [
            {
                "mode": one.mode,
                "title": one.title,
                "low_ns": round(one.low_ns),
                "likely_ns": round(one.ns),
                "high_ns": round(one.high_ns),
                "once_ns": round(one.once_ns),
                "assumes": one.assumes,
            }
            for one in run.estimates
        ]
        data = {
            "mode": run.mode,
            "title": run.title,
            "measured_ns": round(run.measured_ns),
            "modelled_ns": round(run.modelled.ns) if run.modelled else None,
            "scale": run.scale,
            "estimates": estimates,
            "lacking": [{"title": title, "measures": list(measures)} for title, measures in run.lacking],
            "rates_measured_utc": run.measured_utc or None,
        }
        return {"counterfactual": data}

    def to_text(self, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
        """The largest saving, the estimates, what they rest on."""
        run = self.run
        lines: list[RenderableType] = [sentence(printable(self.saving))]
        if run.measured_utc and run.estimates:
            table = plain_table("one iteration")
            table.add_column("error", no_wrap=True)
            table.add_column("difference", no_wrap=True)
            table.add_column("with", overflow="fold")
            for row in self.rows:
                once = f", {kept(units.format_ns(row.estimate.once_ns))} once" if row.estimate.once_ns else ""
                table.add_row(
                    Text(units.format_ns(row.estimate.ns), "bold"),
                    row.error or "measured",
                    "" if row.measured else self.difference(row),
                    Text(printable(row.estimate.title) + once, "bold" if row.measured else ""),
                )
            lines.append(table)
        # Without rates there are none.
        lines += [Padding(sentence(printable(note), "dim"), expand=False) for note in self.notes]
        yield from titled(self.title, Group(*lines))


def _interval(estimate: Estimate) -> str:
    return f"{units.format_ns(estimate.low_ns)} to {units.format_ns(estimate.high_ns)}"
