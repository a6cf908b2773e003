"""What the tracer of CUDA calls says of itself in the manifest: what it cost, and which calls it gave up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from pinprof.base.units import format_count, format_counted, format_ns
from pinprof.data.activity import CallOverhead, GivenUp
from pinprof.data.gpu_functions import BATCHES, COPIES, KINDS, MEMORY
from pinprof.data.manifest import Manifest

_TOOL, _MOST_NS, _MOST_EPISODES = "cuda-calls", 1_000_000_000, 4096
_WORDS = {
    COPIES: ("memory copy or memset", "memory copies and memsets"),
    BATCHES: ("batched call", "batched calls"),
    MEMORY: ("call that allocates or frees memory", "calls that allocate or free memory"),
}
_OTHERS = ("other CUDA call", "other CUDA calls")


def overhead(manifest: Manifest) -> CallOverhead | None:
    """What the tracer wrote of its own cost; None where it did not, or wrote what is none."""
    for raw in _told(manifest, "call_overhead_ns"):
        inside, around = raw.get("inside"), raw.get("around")
        if type(inside) is int and type(around) is int and 0 <= inside < _MOST_NS and 0 <= around < _MOST_NS:
            return CallOverhead(inside, around)
    return None


def given_up(manifest: Manifest) -> tuple[GivenUp, ...]:
    """When calls of a kind were not recorded, by time; episodes that are none are left out."""
    found = []
    for raw in _told(manifest, "probes"):
        for entry in list(raw.get("given_up") or ())[:_MOST_EPISODES]:
            start, end = entry.get("from_ns"), entry.get("to_ns")
            whole = type(start) is int and type(end) is int and start <= end
            if whole and entry.get("kind") in KINDS and entry.get("without") == "calls":
                found.append(GivenUp(entry["kind"], start, end))
    return tuple(sorted(found, key=lambda entry: entry.start_ns))


def notes(episodes: Iterable[GivenUp], begun_ns: int, percent: float | None) -> tuple[str, ...]:
    """One sentence for each kind; `begun_ns` is when the recording began."""
    said = []
    budget = f"{percent:g} % of the program's time" if percent else "the program may lose"
    for kind, group in groupby(sorted(episodes, key=lambda entry: KINDS.index(entry.kind)), lambda entry: entry.kind):
        parts = list(group)
        since, length = min(part.start_ns for part in parts), sum(part.end_ns - part.start_ns for part in parts)
        times = f" in {format_count(len(parts))} intervals" if len(parts) > 1 else ""
        counted, words = [part.calls for part in parts if part.calls is not None], _WORDS.get(kind, _OTHERS)
        count = format_counted(sum(counted), *words) if len(counted) == len(parts) else words[1].capitalize()
        when = f"from {format_ns(max(since - begun_ns, 0))} on, for {format_ns(length)}{times}"
        why = f"because tracing them would have cost more than {budget} (--probe-budget)"
        said.append(f"{count} were not traced, {when}, {why}.")
    return tuple(said)


def budget_percent(manifest: Manifest) -> float | None:
    """The budget that the recording had; None where that is not known."""
    for raw in _told(manifest, "probes"):
        percent = raw.get("budget_percent")
        if isinstance(percent, (int, float)) and 0 < percent <= 100:
            return float(percent)
    return None


def _told(manifest: Manifest, name: str) -> Iterable[Mapping[str, Any]]:
    for collector in manifest.collectors:
        raw = collector.get(name)
        if collector.get("name") == _TOOL and isinstance(raw, Mapping):
            yield raw
