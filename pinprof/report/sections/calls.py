"""What the page and the terminal say of CUDA activity in the same words: splits of calls, GPU time, managed memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pinprof import units
from pinprof.analyze.activity.results import CallResult, CallSplit, ContextInit, DeviceTime, ScopeActivity, UvmAnalysis
from pinprof.report.activity_data import ActivityData
from pinprof.report.data import RangeData, ReportData
from pinprof.report.summary import Tile
from pinprof.report.walls import REMAINDER

_NAMELESS = re.compile(r"(\[.+\]) \(.+\)$")
"""A caller without a symbol, which is named by its file already: `[libfoo.so] (libfoo.so)`."""

UNSAMPLED = "not on a CPU"
_SMALLEST_PART = 0.005
"""Parts of a call's time below this are summed up."""
_TOLD = 3
"""Parts named beside the bar."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the time inside calls."""

    leaf: str
    """A leaf of the taxonomy; empty for time that no sample saw, or for small parts together."""
    label: str
    ns: int
    share: float
    """Of all parts, 0 to 1."""


def split_parts(split: CallSplit) -> list[Part]:
    """The causes inside a call, heaviest first, then small ones together, then time off the CPU; shares sum to 1."""
    whole = split.sampled_ns + max(split.unsampled_ns, 0)
    if not whole:
        return []
    large = [(leaf, ns) for leaf, ns in split.by_leaf.items() if ns >= _SMALLEST_PART * whole]
    parts = [Part(leaf, leaf, ns, ns / whole) for leaf, ns in large]
    rest = split.sampled_ns - sum(ns for _, ns in large)
    if rest:
        parts.append(Part("", "others", rest, rest / whole))
    if split.unsampled_ns > 0:
        parts.append(Part("", REMAINDER if split.waits else UNSAMPLED, split.unsampled_ns, split.unsampled_ns / whole))
    return parts


def told_parts(split: CallSplit) -> list[Part]:
    """The parts worth a figure."""
    return [part for part in split_parts(split) if part.share >= 0.01][:_TOLD]


def range_activity(data: ReportData) -> list[tuple[RangeData, ScopeActivity]]:
    """Every range beside what happened in it."""
    return list(zip(data.ranges, data.activity.analysis.ranges, strict=True)) if data.activity else []


def call_line(call: CallResult) -> str:
    """`cudaMallocHost from step (app)`: a call, and who made most of it where that is known."""
    if not call.sites:
        return call.name
    nameless = _NAMELESS.match(call.sites[0].name)
    return f"{call.name} from {nameless[1] if nameless else call.sites[0].name}"


def has_splits(data: ActivityData) -> bool:
    """Whether samples say where calls spent their time."""
    return any(call.split for call in data.analysis.whole.calls)


def context_sentence(entry: ContextInit) -> str:
    """What creating a CUDA context took, and why it is not in the table."""
    otherwise = f", {units.format_ns(entry.typical_ns)} otherwise" if entry.typical_ns is not None else ""
    return (
        f"The first {entry.name} took {units.format_ns(entry.duration_ns)}{otherwise}: it created the CUDA context. "
        "The table counts it nowhere."
    )


def device_sentence(device: DeviceTime) -> str:
    """How one GPU spent its time."""
    name = f"GPU {device.device}" if device.device >= 0 else "The GPU"
    sentence = (
        f"{name} worked {units.format_share(device.busy_ns, device.span_ns)} of the {units.format_ns(device.span_ns)} "
        f"between its first work and its last: kernels {units.format_ns(device.kernel_ns)}, "
        f"copies {units.format_ns(device.copy_ns)}"
    )
    if device.kernel_ns and device.copy_ns:
        sentence += (
            f", both at once {units.format_ns(device.overlap_ns)} "
            f"({units.format_share(device.overlap_ns, device.copy_ns)} of the copying)"
            if device.overlap_ns
            else ", never both at once"
        )
    if device.longest_gaps:
        sentence += f"; its longest gap lasted {units.format_ns(device.longest_gaps[0][1])}"
    return sentence + "."


def uvm_tiles(data: ActivityData, scope: ScopeActivity | None = None) -> list[Tile]:
    """The figures that tell how managed memory behaved, in the whole recording or in a range: the same tiles."""
    uvm = data.analysis.uvm
    if uvm is None:
        return []
    whole = scope or data.analysis.whole
    kernel_ns, lost_ns = (scope.kernel_ns, scope.lost_ns) if scope else (uvm.kernel_ns, uvm.lost_ns)
    moves = whole.migrations
    down, up = (sum(m.size_bytes.total for m in moves if m.direction == way) for way in ("H2D", "D2H"))
    tiles = []
    if uvm.kernel_ns:
        tiles.append(
            Tile(
                f"of kernel time lost to faults ({units.format_ns(lost_ns)})",
                units.format_share(lost_ns, kernel_ns),
                lost_ns > 0.1 * kernel_ns,
            )
        )
    if uvm.gpu_fault_groups is not None:
        label = f"groups of GPU faults, {units.format_count(whole.gpu_faults)} faults"
        tiles.append(Tile(label, units.format_count(whole.gpu_fault_groups), False))
    tiles += [
        Tile("moved to the device", units.format_bytes(down), False),
        Tile("moved to the host", units.format_bytes(up), False),
    ]
    if uvm.cpu_faults is not None:
        tiles.append(Tile("CPU faults on managed memory", units.format_count(whole.cpu_faults), False))
    moved = "–" if scope else f"{_few(uvm.moved_per_byte)} moves"
    tiles.append(Tile("for each byte that ever moved", moved, False))
    return tiles


def _few(number: float) -> str:
    return f"{number:.2g}" if number < 10 else units.format_count(number)


def uvm_notes(uvm: UvmAnalysis) -> list[str]:
    """What the figures of managed memory rest on."""
    notes = []
    if uvm.lost_from == "migration causes" and uvm.kernel_ns:
        notes.append(
            "GPU faults were not recorded: a kernel's fault window is taken to last from its start to its last "
            "migration that a touch caused."
        )
    elif uvm.kernel_ns:
        notes.append("Kernel time lost is time in which the GPU waited for faults to be served and nothing was copied.")
    if uvm.cpu_fault_functions:
        told = ", ".join(f"{name} ({units.format_count(count)})" for name, count in uvm.cpu_fault_functions[:_TOLD])
        notes.append(f"Touched on the CPU by {told}.")
    return notes
