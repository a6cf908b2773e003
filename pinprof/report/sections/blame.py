"""Who waits for whom: each thread's waits, with the thread or process that held it up, and at which line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.blame.results import CERTAINTIES, BlameResult, BlameRow, Holder, HolderKind
from pinprof.analyze.evidence import LEAST_NS
from pinprof.analyze.extent import timed_span
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.names import shortened
from pinprof.report.section import Section, picked
from pinprof.report.terminal.layout import plain_table, sentence, titled

MOST_ROWS = 40
_MOST_LINES = 8
_SMALLEST_SHARE = 0.01
_WIDTH = 30

_KINDS = {
    HolderKind.OUTSIDE: "outside the program",
    HolderKind.KERNEL: "the kernel",
    HolderKind.GPU: "the GPU",
    HolderKind.DISK: "a disk",
    HolderKind.UNKNOWN: "not known",
}


def holder_name(holder: Holder) -> str:
    """`worker · 4711`: whom a thread waits for, without the line."""
    if holder.kind is HolderKind.THREAD:
        return f"{holder.name or 'thread'} · {holder.tid}"
    if holder.kind is HolderKind.PROCESS:
        return f"process {holder.pid}" + (f" ({holder.name})" if holder.name else "")
    name = f" ({holder.name})" if holder.name and holder.kind is HolderKind.KERNEL else ""
    return _KINDS[holder.kind] + name


def site_words(row: BlameRow | Holder) -> str:
    """`train.py:20`, or the function where no line is known."""
    site = row.waiter.site if isinstance(row, BlameRow) else row.site
    return site.place or "(no line known)"


@dataclass(frozen=True)
class WhoWaits(Section[Explained]):
    """The rows of a recording, longest first."""

    key, title, short = "blame", "Who waits for whom", "Waits"
    after = (("text", "walls"), ("json", "lines"))
    absent = (("blame", None),)

    blame: BlameResult
    start_ns: int
    stacks: Mapping[int, list[str]]
    """`Holder.node` → its functions, innermost first."""

    holder_name, site_words = staticmethod(holder_name), staticmethod(site_words)

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where no thread waits for anybody."""
        if subject.run.blame is None or (span := timed_span(subject.run.capture)) is None:
            return None
        blame, stacks = subject.run.blame, subject.shared.stacks
        nodes = {row.holder.node for row in blame.rows} if stacks else ()
        return cls(blame, span[0], {node: stacks.names(node) for node in nodes if stacks})

    @property
    def rows(self) -> tuple[BlameRow, ...]:
        """Those that the page shows."""
        return self.blame.rows[:MOST_ROWS]

    @property
    def rest(self) -> tuple[int, int]:
        """How many rows are not shown, and their time."""
        left = self.blame.rows[MOST_ROWS:]
        return len(left) + self.blame.rest, sum(row.ns for row in left) + self.blame.rest_ns

    @property
    def basis(self) -> str:
        """What the rows rest on, in a sentence."""
        if not self.blame.recorded:
            return (
                "Wake-ups were not recorded, so holders are the program's threads that were busy during the wait. "
                "Recording wake-ups needs root, for the kernel's scheduler events."
            )
        if self.blame.recorded_share < 0.995:
            share = units.format_share(round(1000 * self.blame.recorded_share), 1000)
            return f"Wake-ups were recorded for {share} of the time, to limit the cost; the rest is inferred."
        return "Wake-ups were recorded. To name holders outside the program, record with --system-wide."

    def on_page(self) -> bool:
        """Whether any wait is worth a table."""
        return bool(self._told())

    def to_json(self) -> dict[str, Any]:
        """Every row."""
        blame = self.blame
        facts = picked(blame, "waited_ns late_ns rest rest_ns recorded recorded_share threads_left_out")
        return {"blame": facts | {"rows": [_row_json(row, self) for row in blame.rows]}}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """The longest waits."""
        if rows := self._told():
            yield from titled(self.title, _text(rows, self))

    def _told(self) -> list[BlameRow]:
        floor = max(LEAST_NS, _SMALLEST_SHARE * self.blame.waited_ns)
        return [row for row in self.blame.rows if row.ns >= floor]


def _row_json(row: BlameRow, section: WhoWaits) -> dict[str, Any]:
    holder, waiter = row.holder, row.waiter
    return {
        "waiter": picked(waiter, "pid tid thread") | {"site": picked(waiter.site, "function file line")},
        "wait": row.wait,
        "holder": picked(holder, "kind pid tid name")
        | {
            "site": picked(holder.site, "function file line"),
            "causes": dict(holder.causes),
            "stack": section.stacks[holder.node],
        },
        "certainty": {CERTAINTIES[how]: ns for how, ns in row.certainty.items()},
        **picked(row, "ns count longest_ns"),
        "longest_at_ns": row.longest_at_ns - section.start_ns,
    }


def _text(rows: list[BlameRow], section: WhoWaits) -> RenderableType:
    table = plain_table("waits", "count")
    for title in ("waiter", "holder", "meanwhile"):
        table.add_column(title, overflow="fold")
    for row in rows[:_MOST_LINES]:
        waiter = f"{row.waiter.thread or 'thread'} · {row.waiter.tid}"
        holder = Text(shortened(holder_name(row.holder), _WIDTH))
        if row.holder.site.place:
            holder += Text(f"\n{shortened(site_words(row.holder), _WIDTH)}", "bold")
        causes = ", ".join(list(row.holder.causes)[:2])
        table.add_row(
            Text(units.format_ns(row.ns), "bold"),
            units.format_count(row.count),
            Text(shortened(waiter, _WIDTH)) + Text(f"\n{shortened(site_words(row), _WIDTH)}", "bold") + f"\n{row.wait}",
            holder,
            Text(causes) + Text(f"\n{row.certain}" if causes else row.certain, "dim"),
        )
    lines: list[RenderableType] = [table]
    if len(rows) > _MOST_LINES:
        lines.append(Text(f"{units.format_count(len(rows) - _MOST_LINES)} more rows have less.", "dim"))
    return Group(*lines, sentence(section.basis, "dim"))
