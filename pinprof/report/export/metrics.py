"""What a program has spent since it is watched, as a text file of Prometheus (`pinprof record --ring --metrics`).

Names and labels are stable: labels are causes, purposes of calls, kinds of memory and the command line's triggers, so
that a program never makes more of them. Source of the form: the text format 0.0.4 of Prometheus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pinprof.analyze import Run
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import MemoryKind

Labels = tuple[tuple[str, str], ...]
Sums = dict[tuple[str, Labels], float]
"""Values by (name, labels)."""
_NS = 1e9
_PINS = ("alloc pinned", "register")


@dataclass(frozen=True)
class Metric:
    """One name in the file."""

    kind: str
    """`counter` or `gauge`."""
    about: str
    labelled: bool = False


METRICS: Mapping[str, Metric] = {
    "pinprof_cpu_seconds_total": Metric("counter", "Time on processors by cause.", True),
    "pinprof_wait_seconds_total": Metric("counter", "Time off processors by cause, of all threads together.", True),
    "pinprof_page_faults_total": Metric("counter", "Page faults by what touched the pages, from samples.", True),
    "pinprof_cuda_calls_total": Metric("counter", "Calls of CUDA by purpose.", True),
    "pinprof_cuda_call_seconds_total": Metric("counter", "Time in calls of CUDA by purpose.", True),
    "pinprof_pins_total": Metric("counter", "Calls that page-locked memory."),
    "pinprof_pinned_bytes_total": Metric("counter", "Bytes that these calls page-locked."),
    "pinprof_copied_bytes_total": Metric("counter", "Bytes that CUDA copied, by the memory of both ends.", True),
    "pinprof_stalls_total": Metric("counter", "How many looks, one a second, found that a trigger had fired.", True),
    "pinprof_captures_total": Metric("counter", "Captures that were made."),
    "pinprof_watched_seconds_total": Metric("counter", "Time that the counters of causes, calls and copies cover."),
    "pinprof_unwatched_seconds_total": Metric("counter", "Time that they do not cover."),
    "pinprof_pinned_bytes": Metric("gauge", "Bytes that are pinned now."),
    "pinprof_refreshed_timestamp_seconds": Metric("gauge", "When this file was written."),
}


def sums_of(run: Run) -> Sums:
    """What a window of the recording adds to the counters."""
    sums: Sums = defaultdict(float)
    for event in run.events:
        if event.unit == "faults":
            name, each = "pinprof_page_faults_total", 1.0
        elif event.event.clocks or event.event.spans:
            name, each = f"pinprof_{'wait' if event.event.spans else 'cpu'}_seconds_total", 1 / _NS
        else:
            continue
        for leaf, weight in event.by_leaf.items():
            sums[name, (("cause", leaf),)] += weight * each
    for call in run.activity.whole.calls if run.activity else ():
        purpose = (("purpose", call.purpose),)
        sums["pinprof_cuda_calls_total", purpose] += call.count
        sums["pinprof_cuda_call_seconds_total", purpose] += call.time_ns.total / _NS
        if call.purpose in _PINS:
            sums["pinprof_pins_total", ()] += call.count - call.failures
            sums["pinprof_pinned_bytes_total", ()] += call.size_bytes or 0
    if run.copies is not None:
        columns = (run.copies.source.tolist(), run.copies.target.tolist(), run.copies.size_bytes.tolist())
        for source, target, size in zip(*columns, strict=True):
            ends = ("source", _kind(source)), ("target", _kind(target))
            sums["pinprof_copied_bytes_total", ends] += max(size, 0)
    return sums


def _kind(number: int) -> str:
    return MemoryKind(number).name.lower() if number in set(MemoryKind) else "unknown"


def text_of(sums: Sums) -> str:
    """The file. Counters without labels that have no value are 0: a rate needs a beginning."""
    lines = []
    for name, metric in METRICS.items():
        rows = sorted((labels, value) for (one, labels), value in sums.items() if one == name)
        rows = rows or ([] if metric.labelled else [((), 0)])
        lines += [f"# HELP {name} {metric.about}", f"# TYPE {name} {metric.kind}"]
        lines += [f"{name}{_written(labels)} {float(value)!r}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def _written(labels: Labels) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{','.join(pairs)}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
