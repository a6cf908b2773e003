"""The pulse of a run: how much of what happened in each moment, a line for each, as small as a line of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.analyze.extent import timed_span
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import MemoryKind
from pinprof.data.model import Capture, clock_event
from pinprof.report.data import Explained
from pinprof.report.section import Section
from pinprof.report.terminal.layout import kept

MOMENTS = 30
"""Into which the run's time is divided."""
_HEIGHTS = "▁▂▃▄▅▆▇█"
_NAME_CELLS = 12


@dataclass(frozen=True)
class Beat:
    """One figure over time."""

    name: str
    said: str
    """What it was on the whole, or is at the end."""
    moments: tuple[float, ...]
    """In each moment, in its order."""

    @property
    def bars(self) -> str:
        """`▁▃█▁`, against the highest."""
        most = max(self.moments, default=0)
        top = len(_HEIGHTS) - 1
        return "".join(_HEIGHTS[round(top * moment / most) if most else 0] for moment in self.moments)


@dataclass(frozen=True)
class Pulse(Section[Explained]):
    """What a run did, moment by moment."""

    key, title = "pulse", "Pulse"

    beats: tuple[Beat, ...]

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nothing has a time."""
        span = timed_span(subject.run.capture)
        if span is None or span[1] <= span[0]:
            return None
        return cls(tuple(_beats(subject, *span)))

    def to_text(self, _: Console) -> Iterator[RenderableType]:
        """A line for each."""
        for beat in self.beats:
            yield Text(f"{beat.name:<{_NAME_CELLS}}", "cyan") + Text(f"{beat.bars}  ") + Text(kept(beat.said))


def _beats(subject: Explained, start_ns: int, end_ns: int) -> Iterator[Beat]:
    capture = subject.run.capture
    edges = np.linspace(start_ns, end_ns, MOMENTS + 1)
    seconds = (end_ns - start_ns) / 1e9
    clock = clock_event(capture.events)
    for number, event in enumerate(capture.events):
        weights = _in_moments(capture, number, edges)
        total = float(weights.sum())
        if number == clock:
            yield Beat("CPU", f"{total / 1e9 / seconds:.2f} cores busy", tuple(weights))
        elif event.unit == "faults" and total:
            yield Beat("page faults", f"{units.format_count(round(total / seconds))} a second", tuple(weights))
    yield from _of_calls(capture, edges, seconds)
    memory = subject.run.memory
    if memory is None or not memory.looks:
        return
    at = np.maximum(np.searchsorted(memory.time_ns, edges[1:], side="right") - 1, 0)
    for name, column in (("resident", "rss"), ("pinned", "pinned"), ("swapped", "swap")):
        held = memory.together.get(column)
        if held is not None and held.any():
            yield Beat(name, units.format_bytes(int(held[-1])), tuple(held[at].astype(float)))


def _of_calls(capture: Capture, edges: NDArray[np.float64], seconds: float) -> Iterator[Beat]:
    """CUDA calls, and the bytes of copies by where the host's end of them lies."""
    calls = capture.activity.calls if capture.activity is not None else None
    if calls is None or not len(calls):
        return
    yield Beat(
        "CUDA calls", f"{units.format_count(round(len(calls) / seconds))} a second",
        tuple(np.histogram(calls.start_ns, edges)[0].astype(float)),
    )  # fmt: skip
    if calls.source_kind is None or calls.target_kind is None or calls.size_bytes is None:
        return
    for kind in (MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.MANAGED):
        rows = ((calls.source_kind == kind) | (calls.target_kind == kind)) & (calls.size_bytes > 0)
        if rows.any():
            size = np.histogram(calls.start_ns[rows], edges, weights=calls.size_bytes[rows].astype(np.float64))[0]
            rate = units.format_bytes(round(float(size.sum()) / seconds))
            yield Beat("copied", f"{rate} a second, {kind.name.lower()}", tuple(size))


def _in_moments(capture: Capture, event: int, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    chosen = capture.samples.event == event
    weights = capture.samples.weight[chosen].astype(np.float64)
    return np.histogram(capture.samples.time_ns[chosen], edges, weights=weights)[0]
