"""Tables for notebooks and databases: every sample with its cause, every range, every leaf of every event and range.

    samples    time_ns, pid, tid, thread, cpu, event, unit, weight, leaf, level, work, function, dso, range, line
    ranges     name, domain, start_ns, end_ns, pid, tid, depth
    leaves     range, domain, depth, event, unit, leaf, level, work, weight    (range empty: the whole recording)
    calls      name, start_ns, end_ns, pid, tid, correlation_id, status, api, folded
    gpu_ops    kind, name, start_ns, end_ns, pid, device, stream, correlation_id, size_bytes, copy_kind, src_kind,
               dst_kind, cause                                       (the last two only of recordings with GPU activity)

A sample's range is the innermost one around it; its line is `FILE:LINE` of the program, or of the library that its
thread runs. Both are empty where they are not known. The columns are the same in both formats. In CSV, texts that a
spreadsheet would take for a formula get a leading apostrophe (OWASP, "CSV injection"): function names are whatever the
profiled program says they are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from pinprof.analyze import CATEGORIES, WORK_ATTRIBUTES, EventResult, Run
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.lines import lines_of_samples
from pinprof.base import files
from pinprof.base.columns import in_order
from pinprof.base.errors import ToolMissing
from pinprof.data.activity import (
    UNRECORDED,
    Api,
    ApiCallTable,
    CopyKind,
    GpuOpTable,
    MemoryKind,
    MigrationCause,
    OpKind,
)
from pinprof.data.model import NO_NODE, Int32, UInt8
from pinprof.report import rows
from pinprof.report.export.streams import encoded
from pinprof.report.joined_frames import as_shown
from pinprof.report.section import listed

Table = Mapping[str, Sequence[Any]]

_FORMULA = re.compile(r"[\s\x00-\x20\ufeff\u00ad\u200b-\u200f\u2060'\"]*[=+\-@\u2212\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""What a spreadsheet may take for a formula: also behind blanks and characters that do not show, and in full width."""


def write_csv(analysis: Run, directory: Path, *, all_frames: bool = False) -> None:
    """Write one CSV file per table into a directory, which is made; RFC 4180 quoting, UTF-8."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in tables(analysis, all_frames=all_frames).items():
        with (
            files.replacing(directory / f"{name}.csv") as binary,
            encoded(binary) as stream,
        ):
            writer = csv.writer(stream)
            writer.writerow(table)
            writer.writerows(zip(*(_harmless(column) for column in table.values()), strict=True))


def write_parquet(analysis: Run, directory: Path, *, all_frames: bool = False) -> None:
    """Write one Parquet file per table into a directory, which is made; ToolMissing without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ToolMissing(
            "Parquet needs the pyarrow package.", "Install it: pip install 'pinprof[nsys]', or use csv.", "parquet"
        ) from error
    directory.mkdir(parents=True, exist_ok=True)
    for name, table in tables(analysis, all_frames=all_frames).items():
        columns = {
            column: pa.array(map(_utf8, values), pa.string()).dictionary_encode()
            if column in _TEXTS
            else pa.array(values, pa.int64())
            for column, values in table.items()
        }
        with files.replacing(directory / f"{name}.parquet") as file:
            parquet.write_table(pa.table(columns), file, compression="zstd")


_TEXTS = {
    "thread", "event", "unit", "leaf", "level", "work", "function", "dso", "line", "name", "domain", "range", "api",
    "kind", "copy_kind", "src_kind", "dst_kind", "cause",
}  # fmt: skip


def tables(analysis: Run, *, all_frames: bool = False) -> dict[str, Table]:
    """The tables that a recording has, by name; columns of Python values, integers are 64-bit."""
    recorded = [
        name for name in ("samples", *_OTHERS) if analysis.capture.activity is not None or name not in _OF_ACTIVITY
    ]
    return {name: table(analysis, name, all_frames=all_frames) for name in recorded}


def table(analysis: Run, name: str, *, all_frames: bool = False) -> Table:
    """One of `tables`; empty columns for one that the recording does not have."""
    return _samples(analysis, all_frames) if name == "samples" else _OTHERS[name](analysis)


def _samples(analysis: Run, all_frames: bool) -> Table:
    analysis = analysis.in_pieces
    capture = as_shown(analysis.capture, all_frames=all_frames)
    samples, frames = capture.samples, capture.stacks.frames
    names = rows.thread_names(capture)
    dsos = [*rows.dso_names(frames), ""]
    symbols = [*frames.symbol, ""]
    members = analysis.members
    paths = [*map(str, members.paths), ""]
    leaf = [CATEGORIES[number].name for number in analysis.attribution.leaf.tolist()]
    event = [capture.events[number] for number in samples.event.tolist()]
    # -1 leads to the empty text at the end of each list.
    frame = [-1 if node == NO_NODE else int(capture.stacks.frame[node]) for node in samples.stack.tolist()]
    return {
        **listed(samples, "time_ns pid tid"),
        "thread": [names[thread] for thread in zip(samples.pid.tolist(), samples.tid.tolist(), strict=True)],
        "cpu": samples.cpu.tolist(),
        "event": [described.name for described in event],
        "unit": [described.unit for described in event],
        "weight": samples.weight.tolist(),
        "leaf": leaf,
        "level": [CATEGORIES[LEAF[name]].level for name in leaf],
        "work": [WORK_ATTRIBUTES[number] for number in analysis.attribution.work.tolist()],
        "function": [symbols[number] for number in frame],
        "dso": [dsos[number] for number in frame],
        "range": [paths[number] for number in members.innermost(members.samples).tolist()],
        "line": lines_of_samples(capture),
    }


def _ranges(analysis: Run) -> Table:
    ranges = analysis.capture.ranges
    return {"name": ranges.name, "domain": ranges.domain, **listed(ranges, "start_ns end_ns pid tid depth")}


def _calls(analysis: Run) -> Table:
    activity = analysis.capture.activity
    calls = activity.calls if activity else ApiCallTable.empty()
    return {
        "name": _named(calls.name, calls.names),
        **listed(calls, "start_ns end_ns pid tid correlation_id status"),
        "api": _words(calls.api, Api),
        **listed(calls, "folded"),
    }


def _gpu_ops(analysis: Run) -> Table:
    activity = analysis.capture.activity
    ops = activity.gpu_ops if activity else GpuOpTable.empty()
    ops = ops.take(in_order(ops.start_ns))
    return {
        "kind": _words(ops.kind, OpKind),
        "name": _named(ops.name, ops.names),
        **listed(ops, "start_ns end_ns pid device stream correlation_id size_bytes"),
        "copy_kind": _words(ops.copy_kind, CopyKind),
        "src_kind": _words(ops.src_kind, MemoryKind),
        "dst_kind": _words(ops.dst_kind, MemoryKind),
        "cause": _words(ops.cause, MigrationCause),
    }


def _named(name: Int32, names: Sequence[str]) -> list[str]:
    return [names[number] if number >= 0 else "" for number in name.tolist()]


def _words(values: UInt8, enum: type[IntEnum]) -> list[str]:
    """Enum values in words, numbers that this version does not know as numbers, nothing where not recorded."""
    words = {int(member): member.name.lower() for member in enum} | {UNRECORDED: ""}
    return [words.get(value, str(value)) for value in values.tolist()]


def _leaves(analysis: Run) -> Table:
    rows = [("", "", -1, *row) for row in _weights(analysis.events)]
    for result in analysis.ranges:
        rows += [(str(result.path), result.domain, result.depth, *row) for row in _weights(result.events)]
    names = ("range", "domain", "depth", "event", "unit", "leaf", "level", "work", "weight")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _weights(events: Iterable[EventResult]) -> list[tuple[str, str, str, str, str, int]]:
    return [
        (result.event.name, result.event.unit, leaf, CATEGORIES[LEAF[leaf]].level, work, weight)
        for result in events
        for leaf, works in result.by_work.items()
        for work, weight in works.items()
    ]


def _harmless(column: Sequence[Any]) -> Iterable[Any]:
    return (f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value for value in column)


def _utf8(text: str) -> str:
    """The text without lone surrogates, which no UTF-8 has; they are spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


_OTHERS: Mapping[str, Callable[[Run], Table]] = {
    "ranges": _ranges,
    "leaves": _leaves,
    "calls": _calls,
    "gpu_ops": _gpu_ops,
}
_OF_ACTIVITY = ("calls", "gpu_ops")
"""Tables of recordings that trace CUDA calls or GPU work."""
