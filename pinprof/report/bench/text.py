"""The terminal's view of `pinprof bench` and `pinprof bench compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.analyze.costs.costs import GIB, BreakEven, Cost
from pinprof.base.units import format_bytes, format_ns, format_share
from pinprof.data.rates import Rate
from pinprof.report.bench.data import BenchReport, speed
from pinprof.report.names import printable
from pinprof.report.terminal.layout import console_of, kept, plain_table, sentence, tidy, titled

_CHOOSE = "Recommendations for this machine"
_MOST_SIZES = 6
_NAMES_SHOWN = 4
_GROWS = 0.1
"""Part of the growth in size: what grows by less of it has no cost per GiB."""


def print_bench(report: BenchReport) -> None:
    """Print tables, break-even counts, the decision tree, what was left out, and pyperf's warnings."""
    console = console_of()
    with tidy(console):
        for part in _bench(report, console):
            console.print(part)


def _bench(report: BenchReport, console: Console) -> Iterator[RenderableType]:
    yield sentence(report.headline, "bold")
    badge = ("host emulation · ", "yellow") if report.emulated else ""
    yield Text.assemble(badge, (" · ".join(kept(printable(fact)) for fact in report.facts), "dim"))
    if report.makes:
        yield from titled("Allocating, pinning and freeing: time per call", _fitting(console, report, _makes))
    if report.moves:
        yield from titled("Copying: GB/s", _fitting(console, report, _moves))
    if report.study.break_even:
        yield from titled("Break-even: copies to the device that repay a pin", _break_even(report.study.break_even))
    if report.study.answers:
        yield from titled(_CHOOSE, _answers(report))
    elif report.study.withheld:
        yield from titled(_CHOOSE, sentence(report.study.withheld))
    omissions = [f"{what}: {reason}" for what, reason in report.omissions()]
    if omissions:
        yield from titled("Left out", Text("\n".join(map(printable, omissions))))
    if report.unstable:
        yield from titled("Stability, as pyperf sees it", _stability(report))


def print_comparison(comparison: Any) -> None:
    """Print the benchmarks whose means differ significantly, and how many do not (`bench.compare.Comparison`)."""
    console = console_of()
    with tidy(console):
        for part in _comparison(comparison):
            console.print(part)


def _comparison(comparison: Any) -> Iterator[RenderableType]:
    differing = [row for row in comparison.rows if row.significant]
    same = len(comparison.rows) - len(differing)
    verdict = f"{len(differing)} of {len(comparison.rows)} differ" if differing else "No significant change"
    yield Text(f"{verdict}: {comparison.before} against {comparison.after}", "bold")
    for line in comparison.different:
        yield Text(printable(line), "yellow")
    if comparison.rows:
        table = _table("benchmark", "before", "after", "ratio", "")
        for row in comparison.rows:
            change = Text("not significant", "dim")
            if row.significant:
                slower = row.ratio > 1
                change = Text("slower" if slower else "faster", "red" if slower else "green")
            cells = format_ns(row.before_ns), format_ns(row.after_ns), f"{row.ratio:.2f} ×"
            table.add_row(Text(printable(row.name)), *cells, change, style="" if row.significant else "dim")
        yield table
    notes = []
    if differing:
        notes.append(
            f"Each benchmark has a t-test at 95 %. Of {len(comparison.rows)} benchmarks that have not changed, "
            f"about {max(1, round(0.05 * len(comparison.rows)))} differ by chance. {same} do not differ."
        )
    for names, where in ((comparison.only_before, comparison.before), (comparison.only_after, comparison.after)):
        if names:
            notes.append(f"Only in {where}: {_named(names)}.")
    for note in notes:
        yield Text(printable(note), "dim")


def _table(first: str, *numbers: str) -> Table:
    table = plain_table()
    table.add_column(first, no_wrap=True, vertical="bottom")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    return table


def _fitting(
    console: Console, report: BenchReport, draw: Callable[[BenchReport, int], tuple[Table, list[Text]]]
) -> Group:
    """A table with as many sizes as fit, at least two, and the lines below it."""
    for most in range(_MOST_SIZES, 1, -1):
        table, lines = draw(report, most)
        if table.__rich_measure__(console, console.options.update(width=1000)).maximum + 2 <= console.width:
            break
    return Group(table, *lines)


def _shown(sizes: Sequence[int], most: int = _MOST_SIZES) -> list[int]:
    """Some of the sizes, both ends among them."""
    if len(sizes) <= most:
        return list(sizes)
    return [sizes[round(index * (len(sizes) - 1) / (most - 1))] for index in range(most)]


def _makes(report: BenchReport, most: int) -> tuple[Table, list[Text]]:
    sizes = _shown(report.study.sizes, most)
    table = _table("measure", *map(format_bytes, sizes), "per GiB")
    for measure in report.makes:
        costs = [report.study.cost(measure, size) for size in sizes]
        known = [cost.rate for cost in costs if cost]
        if not known:
            continue
        per_gib = format_ns(known[-1].median_ns * GIB / known[-1].size_bytes) if _grows(known) else "–"
        table.add_row(measure, *(format_ns(cost.rate.median_ns) if cost else "–" for cost in costs), per_gib)
    return table, [Text(line, "dim") for line in report.single]


def _moves(report: BenchReport, most: int) -> tuple[Table, list[Text]]:
    sizes = _shown(report.study.sizes, most)
    limited = bool(report.study.limits)
    shares = ("of\npractice", "of\ntheory") if limited else ()
    table = _table("measure", *map(format_bytes, sizes), *shares, "per GiB")
    for measure in report.moves:
        costs = [report.study.cost(measure, size) for size in sizes]
        best = max((cost for cost in costs if cost), key=lambda cost: cost.gb_per_s or 0, default=None)
        last = next((cost for cost in reversed(costs) if cost), None)
        reached = [_percent(best.of_practical), _percent(best.of_theory)] if best and limited else []
        table.add_row(measure, *map(_speed, costs), *reached, format_ns(last.ns_per_gib or 0) if last else "")
    lines = [
        Text(
            f"{report.study.link or 'link'} {limit.direction}: "
            + ", ".join(
                f"{name} {value:.3g} GB/s"
                for name, value in (("theory", limit.theory_gb_per_s), ("best measured", limit.practical_gb_per_s))
                if value is not None
            ),
            "dim",
        )
        for limit in report.study.limits
        if limit.theory_gb_per_s or limit.practical_gb_per_s
    ]
    return table, lines


def _speed(cost: Cost | None) -> str:
    return speed(cost) if cost else "–"


def _percent(share: float | None) -> str:
    return format_share(share, 1) if share is not None else "–"


def _break_even(rows: Sequence[BreakEven]) -> Table:
    shown = [row for row in rows if row.size_bytes in _shown([one.size_bytes for one in rows])]
    table = _table(
        "size", "pageable\ncopy", "pinned\ncopy", "pin and\nfree", "copies", "register and\nunregister", "copies"
    )
    for row in shown:
        table.add_row(
            format_bytes(row.size_bytes),
            format_ns(row.pageable_ns),
            format_ns(row.pinned_ns),
            *(part for cost in (row.pin_ns, row.register_ns) for part in _repaid(row, cost)),
        )
    return table


def _repaid(row: BreakEven, cost_ns: float | None) -> tuple[str, str]:
    if cost_ns is None:
        return "–", "–"
    copies = row.copies(cost_ns)
    return format_ns(cost_ns), f"{copies:,}" if copies is not None else "never"


def _grows(rates: Sequence[Rate]) -> bool:
    """Whether the time of a call follows its size; that of a malloc does not, and has no cost per GiB."""
    first, last = rates[0], rates[-1]
    return last.median_ns * first.size_bytes >= _GROWS * first.median_ns * last.size_bytes


def _answers(report: BenchReport) -> Group:
    lines: list[RenderableType] = []
    for answer in report.study.answers:
        because = Text(f"→ {answer.choice}. ", "green") + sentence(answer.because, "dim")
        lines += [Text(answer.question), Padding(because, (0, 0, 0, 2), expand=False)]
    return Group(*lines)


def _named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _stability(report: BenchReport) -> Text:
    text = Text(f"pyperf warns about {len(report.unstable)} of {report.benchmarks} benchmarks:")
    for reason, names in report.warnings():
        text.append(f"\n{reason}: {_named(names)}", "dim")
    text.append(f"\nFor the figures, run: python -m pyperf check {printable(report.file)}", "dim")
    return text
