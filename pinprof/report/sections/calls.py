"""CUDA calls: how often, how long, on what, and where samples say that the time inside them went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.activity.results import ActivityAnalysis, CallResult, CallSplit, ContextInit
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Purpose
from pinprof.report.data import Explained
from pinprof.report.names import printable, shortened
from pinprof.report.section import Section
from pinprof.report.sections.ranges.walls import REMAINDER, WallPart, parts_of
from pinprof.report.styles import PURPOSES
from pinprof.report.terminal.layout import figures_table, sentence, style_colour, titled

MEMORY_CALLS: tuple[Purpose, ...] = (
    "alloc pinned", "register", "alloc device", "alloc managed", "prefetch", "advise", "copy", "set", "free pinned",
    "unregister", "free device",
)  # fmt: skip
"""Calls about memory, which a report tells before all others."""

_NAMELESS = re.compile(r"(\[.+\]) \(.+\)$")
"""A caller without a symbol, which is named by its file already: `[libfoo.so] (libfoo.so)`."""

UNSAMPLED = "not on a CPU"
_SMALLEST_PART = 0.005
"""Parts of a call's time below this are summed up."""
_NAMED = 3
"""Parts named beside the bar."""
_CALLS, _NAME_WIDTH = 12, 26
_LEAST_PER_GIB_NS = 1e6
"""What takes less for a GiB does not touch its bytes: an asynchronous copy, a reservation of managed memory."""
_LEAST_SAMPLES = 5
"""The causes of fewer samples inside a call are chance."""


def split_parts(split: CallSplit) -> list[WallPart]:
    """The causes inside a call, heaviest first, then small ones together, then what no sample saw."""
    left = REMAINDER if split.waits else UNSAMPLED
    return parts_of([*split.by_leaf.items()], split.unsampled_ns, left, _SMALLEST_PART)


def named_parts(split: CallSplit) -> list[WallPart]:
    """The parts worth a figure."""
    return [part for part in split_parts(split) if part.share >= 0.01][:_NAMED]


def faults_text(call: CallResult) -> str:
    """`262,144 page faults in 1 call`, and how many of them waited for a disk; empty where there are none."""
    faults = call.faults
    if faults is None or not faults.minor + faults.major:
        return ""
    count = units.format_counted(faults.minor + faults.major, "page fault", "page faults")
    disk = f", {units.format_count(faults.major)} of them with a wait for a disk" if faults.major else ""
    return f"{count} in {units.format_counted(faults.calls, 'call', 'calls')}{disk}"


def call_line(call: CallResult) -> str:
    """`cudaMallocHost from step (app)`: a call, and who made most of it where that is known."""
    if not call.sites:
        return call.name
    nameless = _NAMELESS.match(call.sites[0].name)
    return f"{call.name} from {nameless[1] if nameless else call.sites[0].name}"


def context_sentence(entry: ContextInit) -> str:
    """What creating a CUDA context took, and why it is not in the table."""
    later = f" (later ones {units.format_ns(entry.typical_ns)})" if entry.typical_ns is not None else ""
    return (
        f"The first {entry.name} took {units.format_ns(entry.duration_ns)}{later} because it created the CUDA context. "
        "The table excludes this call."
    )


@dataclass(frozen=True)
class CallsSection(Section[Explained]):
    """The calls of the whole recording, longest total first."""

    key, title, short = "calls", "CUDA calls", "Calls"

    activity: ActivityAnalysis
    merged: bool
    """Whether rows that the page sums again stand for several calls."""

    parts = staticmethod(split_parts)
    faults_text = staticmethod(faults_text)
    named_parts = staticmethod(named_parts)

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where no call was traced."""
        if subject.shared.activity is None or not subject.shared.activity.whole.calls:
            return None
        return cls(
            subject.shared.activity, merged=subject.shared.instances is not None and subject.shared.instances.merged
        )

    @property
    def heading(self) -> str:
        """After the vendor's API."""
        return f"{self.activity.api} calls"

    @property
    def memory(self) -> list[CallResult]:
        """Those about memory, which come before all others."""
        return [call for call in self.activity.whole.calls if call.purpose in MEMORY_CALLS]

    @property
    def others(self) -> list[CallResult]:
        """All others."""
        return [call for call in self.activity.whole.calls if call.purpose not in MEMORY_CALLS]

    @property
    def has_splits(self) -> bool:
        """Whether samples say where calls spent their time."""
        return any(call.split for call in self.activity.whole.calls)

    @property
    def contexts(self) -> list[str]:
        """A sentence for each context that was created."""
        return [context_sentence(entry) for entry in self.activity.context_init]

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The calls about memory, or all others, and what samples say of the time inside them."""
        yield from titled(self.heading, _text(self))


def _text(data: CallsSection) -> Group:
    calls = data.memory or data.others
    if all(call.failures == call.count for call in data.activity.whole.calls) and not data.activity.context_init:
        # As on a machine with the driver's library and no GPU: there is nothing to tell of times and sizes.
        names = ", ".join(f"{shortened(call.name, _NAME_WIDTH)} ({units.format_count(call.count)})" for call in calls)
        return Group(Text(f"Calls that always failed: {names}."))
    several = sum(call.count for call in data.activity.whole.calls) > 1
    table = figures_table("call", "count", "bytes", "total", "of run", "median", "per GiB")
    for call in calls[:_CALLS]:
        failed = f" ({call.failures} failed)" if call.failures else ""
        table.add_row(
            Text(shortened(call.name, _NAME_WIDTH) + failed, style_colour(PURPOSES[call.purpose])),
            units.format_count(call.count),
            units.format_bytes(call.size_bytes) if call.size_bytes else "–",
            Text(units.format_ns(call.time_ns.total), "bold"),
            units.format_share(call.time_ns.total, data.activity.span_ns) if several else "–",
            units.format_ns(call.time_ns.median),
            units.format_ns(per_gib) if (per_gib := call.ns_per_gib or 0.0) >= _LEAST_PER_GIB_NS else "–",
        )
    lines: list[RenderableType] = [table]
    if data.has_splits:
        lines += [
            Text(f"{shortened(call_line(call), 2 * _NAME_WIDTH)}: ")
            + sentence(", ".join(f"{part.label} {units.format_ns(part.ns)}" for part in named_parts(call.split)), "dim")
            for call in calls[:_CALLS]
            if call.split and call.split.samples >= _LEAST_SAMPLES and named_parts(call.split)
        ]
    lines += [
        Text(f"{shortened(call_line(call), 2 * _NAME_WIDTH)}: ") + sentence(f"{text}.", "dim")
        for call in calls[:_CALLS]
        if (text := faults_text(call))
    ]
    if len(calls) > _CALLS:
        lines.append(Text(f"{units.format_count(len(calls) - _CALLS)} more kinds of calls took less time.", "dim"))
    lines += [sentence(printable(context), "dim") for context in data.contexts]
    return Group(*lines)
