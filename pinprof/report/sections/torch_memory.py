"""PyTorch's own view of memory: its pools by line, next to the page-locked memory that the ledger has for the line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze import Run
from pinprof.analyze.allocations.results import HOST_KINDS
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import clipped
from pinprof.data.activity_kinds import CopyKind
from pinprof.data.torch_memory import TorchLine, TorchMemory, TorchPool
from pinprof.report.data import Explained
from pinprof.report.names import printable, shortened
from pinprof.report.section import Section
from pinprof.report.sections.ledger import MOST_NAME
from pinprof.report.terminal.layout import figures_table, sentence, titled

MOST_ROWS, MOST_TEXT_ROWS = 20, 8
"""Lines on the page and in the terminal."""
_NAME_WIDTH = 40
_ALIKE = 0.01
"""By which two sums may differ that say the same."""


@dataclass(frozen=True)
class TorchSection(Section[Explained]):
    """What PyTorch's allocators hold."""

    key, title, short = "torch", "PyTorch's memory", "PyTorch"
    after = (("text", "ledger"), ("json", "ledger"))
    absent = (("torch", None),)

    memory: TorchMemory
    by_line: Mapping[str, int]
    """The most page-locked memory that each line had, by the ledger."""
    locked_bytes: int | None
    """The most that all had; None without a ledger."""
    step_bytes: int | None
    """What a step copies to GPUs, the median; None without steps or copies."""
    gpu_bytes: tuple[int, ...]
    """The memory of each GPU, 0 where it is not known."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nobody gave a file of PyTorch."""
        run = subject.run
        memory = run.capture.torch
        if memory is None:
            return None
        by_line: Counter[str] = Counter()
        for site in run.ledger.sites if run.ledger else ():
            if site.kind in HOST_KINDS:
                by_line[site.line] += site.peak_granted_bytes
        totals = run.ledger.totals if run.ledger else ()
        locked = sum(total.peak_granted_bytes for total in totals if total.kind in HOST_KINDS)
        gpus = run.capture.manifest.host.get("gpus") or ()
        sizes = tuple(int(gpu.get("memory_bytes") or 0) for gpu in gpus)
        return cls(memory, by_line, locked if run.ledger else None, _step_bytes(run), sizes)

    @property
    def rows(self) -> list[tuple[TorchPool, TorchLine]]:
        """Pools with their lines, those of most memory first."""
        rows = [(pool, line) for pool in self.memory.pools for line in pool.lines]
        return sorted(rows, key=lambda row: -max(row[1].bytes, row[1].peak_bytes or 0))[:MOST_ROWS]

    @property
    def sentences(self) -> list[str]:
        """What each pool holds, what the pinned one took, whether a step's copies would fit on the GPU."""
        return [*map(_of_pool, self.memory.pools), *self._host(), *self._room()]

    def _host(self) -> Iterator[str]:
        host = self.memory.host
        if host is None:
            return
        calls = units.format_counted(host.allocations, "call", "calls")
        yield (
            f"PyTorch's pinned pool held at most {units.format_bytes(host.most_held_bytes)}, of which at most "
            f"{units.format_bytes(host.most_used_bytes)} was in use; pinning took "
            f"{units.format_ns(host.allocating_ns)} in {calls} of CUDA."
        )
        if self.locked_bytes is None:
            return
        others = self.locked_bytes - host.most_held_bytes
        ledger = f"The ledger has at most {units.format_bytes(self.locked_bytes)} of page-locked memory"
        if abs(others) <= _ALIKE * self.locked_bytes:
            yield f"{ledger}, as much as that pool held."
        elif others > 0:
            yield f"{ledger}, {units.format_bytes(others)} more than that pool held."
        else:
            yield f"{ledger}: the recording lacks {units.format_bytes(-others)} of that pool."

    def _room(self) -> Iterator[str]:
        for pool in self.memory.pools:
            number = pool.name.removeprefix("cuda:")
            if not self.step_bytes or not number.isdecimal():
                continue
            index = int(number)
            size = self.gpu_bytes[index] if index < len(self.gpu_bytes) else 0
            free, step = pool.free_bytes, units.format_bytes(self.step_bytes)
            outside = max(size - pool.reserved_bytes, 0)
            start = f"Each step copies {step} to GPUs; {pool.name} would have room"
            if free >= self.step_bytes:
                yield f"{start} in PyTorch's pool, which has {units.format_bytes(free)} free at its peak."
            elif free + outside >= self.step_bytes:
                room = units.format_bytes(free + outside)
                yield f"{start} for {room} at PyTorch's peak, if no other program uses it."
            elif size:
                room = units.format_bytes(free + outside)
                yield f"Each step copies {step} to GPUs; {pool.name} has room for only {room} at PyTorch's peak."

    def ledger_bytes(self, line: TorchLine) -> int:
        """The most page-locked memory that the ledger has for a line."""
        return self.by_line.get(line.line, 0) if line.line else 0

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The sentences, and the lines that have most."""
        parts: list[RenderableType] = [sentence(text) for text in self.sentences]
        if self.rows:
            table = figures_table("line", "pool", "blocks", "at the snapshot", "at the peak", "page-locked")
            for pool, line in self.rows[:MOST_TEXT_ROWS]:
                table.add_row(
                    Text(shortened(printable(line.line or "(no stack)"), _NAME_WIDTH)),
                    pool.name,
                    units.format_count(line.blocks),
                    units.format_bytes(line.bytes),
                    "–" if line.peak_bytes is None else Text(units.format_bytes(line.peak_bytes), "bold"),
                    units.format_bytes(locked) if (locked := self.ledger_bytes(line)) else "–",
                )
            parts.append(table)
        yield from titled(self.title, Group(*parts))

    def to_json(self) -> dict[str, Any]:
        """Pools with their lines, and the counts."""
        found = asdict(self.memory)
        for pool, made in zip(self.memory.pools, found["pools"], strict=True):
            made["lines"] = [
                asdict(line) | {"line": clipped(line.line, MOST_NAME), "ledger_bytes": self.ledger_bytes(line)}
                for line in pool.lines
            ]
        return {"torch": found | {"step_bytes": self.step_bytes}}


def _of_pool(pool: TorchPool) -> str:
    name = "The pinned pool" if pool.name == "pinned" else f"PyTorch's pool on {pool.name}"
    held = units.format_bytes(pool.reserved_bytes)
    peak = "" if pool.peak_bytes is None else f", at most {units.format_bytes(pool.peak_bytes)} in its history"
    return f"{name} holds {held} at the snapshot; tensors use {units.format_bytes(pool.used_bytes)} of it{peak}."


def _step_bytes(run: Run) -> int | None:
    """What the median step copies to GPUs."""
    steps = run.course.steps if run.course else None
    if steps is None or not steps.starts_ns or run.copies is None:
        return None
    rows = np.flatnonzero(np.isin(run.copies.direction, (CopyKind.HOST_TO_DEVICE, CopyKind.HOST_TO_ARRAY)))
    starts, sizes = np.array(steps.starts_ns, np.int64), run.copies.size_bytes[rows]
    step = np.searchsorted(starts, run.copies.start_ns[rows], "right") - 1
    inside = (step >= 0) & (run.copies.start_ns[rows] < np.array(steps.ends_ns, np.int64)[step])
    by_step = np.zeros(len(starts), np.int64)
    np.add.at(by_step, step[inside], sizes[inside])
    return int(np.median(by_step))
