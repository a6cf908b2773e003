"""Lanes of the GPUs: kernels, copies, memsets, migrations and faults, and what the program allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from pinprof.analyze.activity.transfers import DIRECTION, DIRECTIONS, memory_name
from pinprof.analyze.allocations.levels import StepFunction, of_kinds
from pinprof.analyze.allocations.results import HOST_KINDS, Allocations
from pinprof.base.columns import ascending
from pinprof.data.activity import GpuOpTable, GpuWindowTable, OpKind, PageFaultTable
from pinprof.data.gpu_functions import Allocated
from pinprof.data.model import Int32, Int64
from pinprof.report.flame_tables import Numbered
from pinprof.report.sections.timeline.model import INTERVALS, Lane, MemoryUse
from pinprof.report.sections.uvm.migration_field import FIELD_STYLES, cause_styles
from pinprof.report.styles import DIRECTIONS as DIRECTION_WORDS
from pinprof.report.styles import FAULT_GROUP, KERNEL, MEMSET, Style, memory_style
from pinprof.report.thinning import Spans, thin

STREAMS = 8
"""Streams with lanes of their own: those with most kernels."""
MEMORY_STEPS = 1_000

_MEMORY_LEVELS: Mapping[str, tuple[Allocated, ...]] = MappingProxyType(
    {"pinned": HOST_KINDS, "managed": ("managed",), "device": ("device", "pool")}
)


def gpu_lanes(operations: GpuOpTable, start: int, names: Numbered[str], styles: Numbered[Style]) -> Iterator[Lane]:
    """Kernels, copies, memsets and migrations of each GPU.

    Rows are numbers into `operations` throughout: there may be millions, of many columns.
    """
    kernel_names = np.array([*(names.add(name) for name in operations.names), names.add("kernel")], np.int32)
    working = operations.kind != OpKind.SYNC
    for device in ascending(operations.device[working]).tolist():
        mine = np.flatnonzero(working & (operations.device == device))
        kind = operations.kind[mine]
        heading = f"GPU {device}" if device >= 0 else "GPU"
        compute = mine[(kind == OpKind.KERNEL) | (kind == OpKind.GRAPH)]
        stream = operations.stream[compute]
        streams, count = np.unique(stream, return_counts=True)
        own = streams[np.argsort(-count, kind="stable")][:STREAMS].tolist() if len(streams) > 1 else []
        lanes = [(f"kernels, stream {number}", compute[stream == number]) for number in sorted(own)]
        others = compute[~np.isin(stream, own)]
        lanes.append(("kernels" if not own else "kernels, other streams", others))
        for title, rows in lanes:
            look = np.full(len(rows), styles.add(KERNEL), np.int32)
            yield _lane(heading, title, "kernel", operations, rows, start, look, kernel_names[operations.name[rows]])
        yield from _copy_lanes(operations, mine[kind == OpKind.COPY], heading, start, names, styles)
        blank = mine[kind == OpKind.MEMSET]
        look, text = (np.full(len(blank), number, np.int32) for number in (styles.add(MEMSET), names.add("memset")))
        yield _lane(heading, "memset", "memset", operations, blank, start, look, text)
        yield from _migration_lanes(operations, mine[kind == OpKind.MIGRATION], heading, start, names, styles)


def _copy_lanes(
    operations: GpuOpTable, copies: Int64, heading: str, start: int, names: Numbered[str], styles: Numbered[Style]
) -> Iterator[Lane]:
    direction = DIRECTION[operations.copy_kind[copies]]
    for number, key in enumerate(DIRECTIONS):
        rows = copies[direction == number]
        if len(rows):
            memory = (operations.dst_kind if key == "D2H" else operations.src_kind)[rows]
            kinds, of = np.unique(memory, return_inverse=True)
            words = [memory_name(kind) for kind in kinds.tolist()]
            look = np.array([styles.add(memory_style(word)) for word in words], np.int32)[of.reshape(-1)]
            text = np.array([names.add(f"{word} memory, {DIRECTION_WORDS[key]}") for word in words], np.int32)
            yield _lane(heading, f"copies {key}", "copy", operations, rows, start, look, text[of.reshape(-1)])


def _migration_lanes(
    operations: GpuOpTable, moved: Int64, heading: str, start: int, names: Numbered[str], styles: Numbered[Style]
) -> Iterator[Lane]:
    direction = DIRECTION[operations.copy_kind[moved]]
    for number, key in enumerate(DIRECTIONS):
        rows = moved[direction == number]
        if len(rows):
            used, of = np.unique(cause_styles(operations.cause[rows]), return_inverse=True)
            look = np.array([styles.add(FIELD_STYLES[one]) for one in used.tolist()], np.int32)[of.reshape(-1)]
            text = np.array([names.add(FIELD_STYLES[one].label) for one in used.tolist()], np.int32)
            title = f"migrations {key}"
            yield _lane(heading, title, "migration", operations, rows, start, look, text[of.reshape(-1)])


def _lane(
    heading: str, title: str, kind: str, operations: GpuOpTable, rows: Int64, start: int, style: Int32, name: Int32
) -> Lane:
    begin, end = operations.start_ns[rows] - start, operations.end_ns[rows] - start
    spans = Spans.single(begin, end, style, name, size_bytes=operations.size_bytes[rows])
    return Lane(heading, title, kind, thin(spans, INTERVALS).spans, len(rows))


def window_lanes(windows: GpuWindowTable, start: int, names: Numbered[str], styles: Numbered[Style]) -> Iterator[Lane]:
    """When the GPU's work was recorded, where that was not always: elsewhere its lanes say nothing."""
    if not len(windows):
        return
    look, text = (np.full(len(windows), number, np.int32) for number in (styles.add(MEMSET), names.add("recorded")))
    spans = Spans.single(windows.start_ns - start, windows.end_ns - start, look, text)
    yield Lane("GPU", "work recorded", "window", thin(spans, INTERVALS).spans, len(windows))


def fault_lanes(faults: PageFaultTable, start: int, styles: Numbered[Style]) -> Iterator[Lane]:
    """A lane for each GPU whose faults were recorded."""
    for device in ascending(faults.device).tolist():
        if device < 0:
            continue
        part = faults.take(faults.device == device)
        nothing = np.full(len(part), -1, np.int32)
        look = np.full(len(part), styles.add(FAULT_GROUP), np.int32)
        spans = Spans.single(
            part.time_ns - start, part.time_ns - start + part.duration_ns, look, nothing, size_bytes=part.count
        )
        yield Lane(f"GPU {device}", "fault groups", "fault", thin(spans, INTERVALS).spans, len(part))


def allocations(history: Allocations | None, start: int, styles: Numbered[Style]) -> Iterator[MemoryUse]:
    """What the program allocated by its CUDA calls."""
    for title, kinds in _MEMORY_LEVELS.items():
        mine = of_kinds(history, kinds)
        if not mine.size_bytes.any():
            continue
        level = StepFunction.of(mine, mine.size_bytes)
        # Beyond the limit each step keeps its peak.
        edges = np.arange(0, len(level.bytes), -(-len(level.bytes) // MEMORY_STEPS))
        most = np.maximum.reduceat(level.bytes, edges)
        yield MemoryUse(title, styles.add(memory_style(title)), level.time_ns[edges] - start, most)
