"""What the page and the terminal say in the same words: key facts, data quality, clocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pinprof import units
from pinprof.report.activity_data import ActivityData
from pinprof.report.data import ReportData

_QUIET_SHARE = 0.01
"""Unresolved, missing or truncated stacks up to this part of the samples change no verdict."""

_SHORTEST_NS = 1_000_000
"""Ranges shorter than this hold too few samples to compare with a clock."""


_UNRECORDED = {
    "gpu_faults": "Page faults of the GPU were not recorded.",
    "cpu_faults": "Page faults of the CPU on managed memory were not recorded.",
    "memory": "Sizes of allocations were not recorded.",
}
"""What a trace may lack, by the names of `Activity.recorded`."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of data quality."""

    label: str
    value: str
    warn: bool


@dataclass(frozen=True, slots=True)
class ClockRow:
    """Sampled on-CPU time of a range beside its own clock."""

    name: str
    depth: int
    wall_ns: int
    sampled_ns: int


def hero_facts(data: ReportData) -> list[str]:
    """A line of key facts under the headline."""
    scenario, facts = data.capture.scenario, []
    parameters = scenario.get("parameters")
    variant = parameters.get("variant") if isinstance(parameters, dict) else None
    if name := scenario.get("name"):
        facts.append(f"scenario {name}" + (f" ({variant})" if variant else ""))
    if backend := scenario.get("backend"):
        facts.append(f"{backend} backend")
    if isinstance(parameters, dict):
        size, iterations = parameters.get("size_bytes"), parameters.get("iterations")
        if isinstance(size, int):
            facts.append(f"{iterations} × {units.format_bytes(size)}" if iterations else units.format_bytes(size))
    memory = scenario.get("memory_bytes")
    if isinstance(memory, dict):
        facts += [f"{units.format_bytes(size)} of {what}" for what, size in memory.items() if isinstance(size, int)]
    for event in data.events:
        if event.spans:
            facts.append(units.format_counted(event.samples, "wait", "waits"))
            continue
        if event.name == event.unit:
            # Counts of which nothing is known: the event has no name but its unit.
            facts.append(units.format_counted(event.samples, "weighted stack", "weighted stacks"))
            continue
        count = f"{units.format_counted(event.samples, 'sample', 'samples')} of {event.name}"
        rate = re.search(r"\d+", event.sampling.replace(",", ""))
        told = rate is None or re.search(rf"={rate[0]}\b", event.name)
        facts.append(count if told else f"{count}, {event.sampling}")
    facts += [f"{units.format_count(count)} {label}" for count, label in activity_counts(data)]
    return facts


def activity_counts(data: ReportData) -> list[tuple[int, str]]:
    """How much a tracing tool recorded, by kind in the right number; without kinds of which there is nothing."""
    if data.activity is None:
        return []
    whole = data.activity.analysis.whole
    counts = [
        (calls_recorded(data.activity), "CUDA call", "CUDA calls"),
        (whole.kernels, "kernel", "kernels"),
        (sum(copy.count for copy in whole.copies), "copy", "copies"),
        (sum(moved.count for moved in whole.migrations), "migration", "migrations"),
    ]
    return [(count, one if count == 1 else many) for count, one, many in counts if count]


def calls_recorded(activity: ActivityData) -> int:
    """CUDA calls of the whole recording, those that created contexts among them."""
    return sum(call.count for call in activity.analysis.whole.calls) + len(activity.analysis.context_init)


def quoted(words: Sequence[str]) -> str:
    """Words as a shell reads them; a leading `~/` stays outside the quotes, so that it is expanded."""
    return " ".join(
        "~/" + shlex.quote(word[2:]) if word.startswith("~/") and word[2:] else shlex.quote(word) for word in words
    )


def quality_tiles(data: ReportData) -> list[Tile]:
    """Losses as figures; those that may change a verdict warn."""
    losses, samples = data.losses, sum(event.samples for event in data.events)
    traced = [Tile(label, units.format_count(count), False) for count, label in activity_counts(data)]
    if traced and not data.events:
        return traced
    return [
        *traced,
        _counted("sample", "samples", samples, samples == 0),
        _counted("lost sample", "lost samples", losses.lost_samples, losses.lost_samples > 0),
        _counted("frame without a symbol", "frames without a symbol", losses.unresolved_frames, False),
        _shared("truncated callchain", "truncated callchains", losses.truncated_chains, samples),
        _shared("sample without a callchain", "samples without a callchain", losses.missing_stacks, samples),
        _counted("unknown record", "unknown records", losses.unknown_records, losses.unknown_records > 0),
        Tile("unreadable", units.format_bytes(losses.corrupt_bytes), losses.corrupt_bytes > 0),
        _counted("sample of other processes", "samples of other processes", losses.other_processes, False),
    ]


def _counted(one: str, many: str, count: int, warn: bool) -> Tile:
    return Tile(one if count == 1 else many, units.format_count(count), warn)


def _shared(one: str, many: str, count: int, samples: int) -> Tile:
    share = f" ({units.format_share(count, samples)})" if count else ""
    return Tile(one if count == 1 else many, f"{units.format_count(count)}{share}", count > _QUIET_SHARE * samples)


def clock_rows(data: ReportData) -> list[ClockRow]:
    """Per range its wall time and the sampled time of its own threads, or of all where those are unknown."""
    timed = next((event.name for event in data.events if event.unit == "ns"), None)
    rows = []
    for entry in data.ranges:
        part = entry.event(timed) if timed else None
        if part and entry.wall_ns >= _SHORTEST_NS * entry.count:
            sampled = part.total if entry.own_thread_ns is None else entry.own_thread_ns
            rows.append(ClockRow(entry.name, entry.depth, entry.wall_ns, sampled))
    return rows


def quality_notes(data: ReportData) -> list[str]:
    """Sentences about what this recording cannot say."""
    notes = list(data.losses.notes)
    outcome_notes = data.capture.outcome.get("notes")
    if isinstance(outcome_notes, list | tuple):
        notes += [str(note) for note in outcome_notes]
    notes += [
        f"{units.format_share(event.heuristic, event.total)} of {event.name} is attributed by a heuristic (hot loops "
        "of stripped libraries), not by the name of a function."
        for event in data.events
        if event.heuristic
    ]
    if data.activity:
        recorded, source = data.activity.analysis.recorded, data.activity.analysis.source
        if "cuda" not in recorded and not calls_recorded(data.activity):
            notes.append(f"No call of CUDA was seen by {source}.")
        else:
            notes.append(f"CUDA activity comes from {source}.")
        if "cuda" in recorded:
            notes += [told for kind, told in _UNRECORDED.items() if kind not in recorded]
        elif calls_recorded(data.activity):
            notes.append("What the GPU did (copies, kernels, migrations) was not recorded, only the calls.")
    clock, uncertainty = data.capture.clock.get("source"), data.capture.clock.get("uncertainty_ns", 0)
    if clock and data.ranges:
        exact = f"within {units.format_ns(uncertainty)}" if uncertainty else "exactly, as both read the same clock"
        named = f"the {clock} clock" if clock.isalpha() else f"one clock ({clock})"
        notes.append(f"Samples and ranges count on {named} and agree {exact}.")
    return list(dict.fromkeys(notes))
