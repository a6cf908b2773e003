"""Large memory of the host by the line that makes it: how often, how much, how long it lives, what is made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.allocations.blocks import LineBlocks
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import clipped
from pinprof.data.host_memory import HostEvent, LargeMemory, Maker
from pinprof.report.data import Explained
from pinprof.report.names import printable, shortened
from pinprof.report.section import Section, picked
from pinprof.report.sections.ledger import MOST_NAME
from pinprof.report.terminal.layout import figures_table, sentence, titled

MOST_LINES, MOST_ROWS, MOST_GIVEN = 200, 8, 5
"""Lines in the JSON, on the page and in the terminal; lines that give back what one line makes."""
LEAST_SHOWN = 64 << 20
"""A program that makes less has nothing to see on the page and in the terminal."""
_NAME_WIDTH = 40
_ADVICE = {
    Maker.DONTNEED: "MADV_DONTNEED",
    Maker.FREE_LAZILY: "MADV_FREE",
    Maker.HUGE_PAGES: "MADV_HUGEPAGE",
    Maker.SHM_OPEN: "shm_open",
}


@dataclass(frozen=True)
class BlocksSection(Section[Explained]):
    """What each line makes of large memory, exactly."""

    key, title, short = "blocks", "Large memory", "Blocks"
    after = (("text", "memory"), ("json", "ledger"))
    absent = (("host_memory", None),)

    lines: tuple[LineBlocks, ...]
    memory: LargeMemory

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nothing recorded it."""
        memory = subject.run.capture.host_memory
        return None if memory is None else cls(subject.run.blocks, memory)

    def on_page(self) -> bool:
        """Where a program makes little, there is nothing to see."""
        return sum(line.made_bytes for line in self.lines) >= LEAST_SHOWN

    @property
    def rows(self) -> tuple[LineBlocks, ...]:
        """The lines that are shown."""
        return self.lines[:MOST_ROWS]

    @property
    def rest(self) -> str:
        """What the other lines make, in a sentence; empty without any."""
        rest = self.lines[MOST_ROWS:]
        amount = units.format_bytes(sum(line.made_bytes for line in rest))
        return f"{units.format_counted(len(rest), 'other line makes', 'other lines make')} {amount}." if rest else ""

    @property
    def answer(self) -> str:
        """How much is made, and how much of it again, in a sentence."""
        made, again = (sum(getattr(line, name) for line in self.lines) for name in ("made_bytes", "again_bytes"))
        count = units.format_counted(sum(line.made for line in self.lines), "large block", "large blocks")
        return (
            f"The program makes {count} of memory, {units.format_bytes(made)} in all; {units.format_bytes(again)} of it"
            " after it gave back as much at the same line."
        )

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, and the lines that make most."""
        if not self.on_page():
            return
        table = figures_table("line", "blocks", "bytes", "again", "at once", "lives", "to free")
        for line in self.rows:
            table.add_row(
                Text(shortened(printable(line.site.caller.text), _NAME_WIDTH)),
                units.format_count(line.made),
                Text(units.format_bytes(line.made_bytes), "bold"),
                units.format_count(line.again),
                units.format_bytes(line.most_bytes),
                units.format_ns(line.mean_lifetime_ns) if line.given else "–",
                units.format_ns(line.giving_ns) if line.given else "–",
            )
        lines: list[RenderableType] = [sentence(self.answer), table]
        if self.rest:
            lines.append(sentence(self.rest, "dim"))
        yield from titled(self.title, Group(*lines))

    def to_json(self) -> dict[str, Any]:
        """Lines with all figures, and what the program advised the kernel to do."""
        table = self.memory.table
        before = table.event == HostEvent.BEFORE
        rest = self.lines[MOST_LINES:]
        return {
            "host_memory": {
                "lines": [self._line(line) for line in self.lines[:MOST_LINES]],
                "others": {"lines": len(rest)} | {name: sum(getattr(line, name) for line in rest)
                                                  for name in ("made", "made_bytes", "again", "again_bytes")},
                "advice": self._advice(),
                "before": {"made": int(table.count[before].sum()), "made_bytes": int(table.size_bytes[before].sum())},
                "lost": self.memory.lost,
            }
        }  # fmt: skip

    def _line(self, line: LineBlocks) -> dict[str, Any]:
        names = "pid grows made made_bytes again again_bytes most most_bytes given given_bytes elsewhere live"
        places = [
            {"line": clipped(site.caller.text, MOST_NAME), "given": count} for site, count in line.given_at[:MOST_GIVEN]
        ]
        return (
            {"line": clipped(line.site.caller.text, MOST_NAME)}
            | picked(line, f"{names} making_ns giving_ns")
            | {"lifetime_ns": line.mean_lifetime_ns if line.given else None, "returned": line.returned}
            | {"given_at": places}
        )

    def _advice(self) -> list[dict[str, Any]]:
        table = self.memory.table
        count: Counter[tuple[int, int]] = Counter()
        size: Counter[tuple[int, int]] = Counter()
        for row in np.flatnonzero(table.event == HostEvent.ADVISED).tolist():
            key = int(table.maker[row]), int(table.site[row])
            count[key] += int(table.count[row])
            size[key] += int(table.size_bytes[row])
        return [
            {
                "call": _ADVICE[Maker(maker)],
                "line": clipped(self.memory.sites[site].caller.text, MOST_NAME) if site >= 0 else "",
                "count": number,
                "bytes": size[maker, site],
            }
            for (maker, site), number in count.most_common(MOST_LINES)
        ]
