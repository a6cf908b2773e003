"""Data quality: what was recorded, what was lost, what the recording cannot say, and how well the clocks agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.activity.sampled import sample_words
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Losses
from pinprof.data.rates import Rates
from pinprof.report import markdown
from pinprof.report.data import Explained, Shared, Tile
from pinprof.report.names import printable, shortened
from pinprof.report.section import Section
from pinprof.report.terminal.layout import sentence, tiles_line, titled

_QUIET_SHARE = 0.01
"""Unresolved, missing or truncated stacks up to this part of the samples change no verdict."""

_SHORTEST_NS = 1_000_000
"""Ranges shorter than this hold too few samples to compare with a clock."""

_LONG_NS = 200_000_000
"""From this wall time on, sampling noise no longer explains a difference of 3 % between the clocks."""

_GPUS = 8
"""GPUs of which the report says what windows tell."""
_UNRECORDED = {
    "gpu_faults": "GPU page faults were not recorded.",
    "cpu_faults": "CPU page faults on managed memory were not recorded.",
    "memory": "Allocation sizes were not recorded.",
}
"""What a trace may lack, by the names of `Activity.recorded`."""


@dataclass(frozen=True)
class ClockRow:
    """Sampled on-CPU time of a range beside its own clock."""

    name: str
    depth: int
    wall_ns: int
    sampled_ns: int


@dataclass(frozen=True)
class Quality(Section[Explained]):
    """What a recording can be trusted for."""

    key, title, short = "quality", "Data quality", "Quality"
    room = 2

    losses: Losses
    tiles: tuple[Tile, ...]
    clock_rows: tuple[ClockRow, ...]
    """Empty where waits were recorded: wall time is explained then, and not just compared."""
    notes: tuple[str, ...]
    rates: Rates | None
    """What memory operations cost on the machine, if somebody measured it."""
    rates_age_s: int | None
    """How much older than the recording they are, 0 for younger ones."""
    recording: str
    """Its path's last component."""
    recorded: bool
    """Whether anything was sampled or traced."""

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """Every report has it."""
        losses = subject.run.capture.losses
        explained = any(entry.wall for entry in subject.shared.ranges)
        rates = subject.run.capture.rates
        age = rates.older_than(str(subject.run.capture.manifest.outcome.get("started_utc"))) if rates else None
        return cls(
            losses,
            tuple(quality_tiles(losses, subject.shared)),
            () if explained else tuple(clock_rows(subject.shared)),
            (*quality_notes(losses, subject.shared), *_rates_note(rates, age)),
            rates,
            round(age.total_seconds()) if age is not None else None,
            subject.shared.capture.path,
            recorded=bool(subject.shared.events or subject.shared.activity),
        )

    def on_page(self) -> bool:
        """Whether anything was recorded that could be bad."""
        return self.recorded

    def to_json(self) -> dict[str, Any]:
        """What could not be used, and what costs come from."""
        rates = self.rates and {
            "measured_by": self.rates.measured_by,
            "measured_utc": self.rates.measured_utc,
            "age_s": self.rates_age_s,
            "count": len(self.rates.rates),
        }
        return {"losses": asdict(self.losses), "rates": rates}

    def to_markdown(self) -> Iterator[str]:
        """What was read."""
        yield from ("", f"Recording {markdown.code(self.recording)}, read by pinprof.")

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Figures that are not zero, clocks that disagree, notes."""
        tiles = [tile for tile in self.tiles if tile.label == "samples" or not re.match(r"0\b", tile.value)]
        off = [
            Text(
                f"{shortened(row.name, 30)}: {units.format_share(row.sampled_ns, row.wall_ns)} of its wall time sampled"
            )
            for row in self.clock_rows
            if row.wall_ns >= _LONG_NS and not 0.97 <= row.sampled_ns / row.wall_ns <= 1.03
        ]
        notes = (sentence(printable(note), "dim") for note in self.notes)
        yield from titled(self.title, Group(tiles_line(tiles), *off, *notes))


def activity_counts(activity: ActivityAnalysis | None) -> list[tuple[int, str]]:
    """How much a tracing tool recorded, by kind in the right number; without kinds of which there is nothing."""
    if activity is None:
        return []
    whole, api = activity.whole, activity.api
    counts = [
        (calls_recorded(activity), f"{api} call", f"{api} calls"),
        (whole.kernels, "kernel", "kernels"),
        (sum(copy.count for copy in whole.copies), "copy", "copies"),
        (sum(moved.count for moved in whole.migrations), "migration", "migrations"),
    ]
    return [(count, one if count == 1 else many) for count, one, many in counts if count]


def calls_recorded(activity: ActivityAnalysis) -> int:
    """CUDA calls of the whole recording, those that created contexts among them."""
    return sum(call.count for call in activity.whole.calls) + len(activity.context_init)


def quality_tiles(losses: Losses, shared: Shared) -> list[Tile]:
    """Losses as figures; those that may change a verdict warn."""
    samples = sum(event.samples for event in shared.events)
    traced = [Tile(label, units.format_count(count), False) for count, label in activity_counts(shared.activity)]
    if traced and not shared.events:
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


def clock_rows(shared: Shared) -> list[ClockRow]:
    """Per range its wall time and the sampled time of its own threads, or of all where those are unknown."""
    timed = next((index for index, event in enumerate(shared.events) if event.event.clocks), None)
    rows = []
    for entry in (shared.ranges[index] for index in shared.shown.index.tolist()):
        part = entry.events[timed] if timed is not None else None
        if part and part.total and entry.wall_ns >= _SHORTEST_NS * entry.count:
            sampled = part.total if entry.own_thread_ns is None else entry.own_thread_ns
            rows.append(ClockRow(entry.name, entry.depth, entry.wall_ns, sampled))
    return rows


def quality_notes(losses: Losses, shared: Shared) -> list[str]:
    """Sentences about what this recording cannot say."""
    notes = list(losses.notes)
    outcome_notes = shared.capture.outcome.get("notes")
    if isinstance(outcome_notes, list | tuple):
        notes += [str(note) for note in outcome_notes]
    notes += [
        f"{units.format_share(event.heuristic, event.total)} of {event.name} is attributed by a heuristic (hot loops "
        "of stripped libraries), not by the name of a function."
        for event in shared.events
        if event.heuristic
    ]
    notes += _activity_notes(shared.activity) if shared.activity else []
    clock, uncertainty = shared.capture.clock.get("source"), shared.capture.clock.get("uncertainty_ns", 0)
    if clock and shared.ranges:
        exact = f"within {units.format_ns(uncertainty)}" if uncertainty else "exactly, because both read the same clock"
        named = f"the {clock} clock" if clock.isalpha() else f"one clock ({clock})"
        notes.append(f"Samples and ranges use {named} and agree {exact}.")
    above = {gap.text for gap in shared.gaps}
    return [note for note in dict.fromkeys(notes) if note not in above]


def _rates_note(rates: Rates | None, age: timedelta | None) -> list[str]:
    if rates is None or rates.measured_by == "bench":
        return []
    when = f"{_long(age)} before this recording" if age else "after this recording"
    count = units.format_count(len(rates.rates))
    return [
        f"The costs of memory operations were measured {when} ({count} rates). For more rates, run `pinprof bench`."
    ]


def _long(age: timedelta) -> str:
    """A time that nobody needs more precisely: `2 days`, `5 h`, `3 min`."""
    minutes = round(age.total_seconds() / 60)
    if minutes < 100:
        return f"{max(minutes, 1)} min"
    return f"{round(minutes / 60)} h" if minutes < 48 * 60 else f"{age.days} days"


def _activity_notes(activity: ActivityAnalysis) -> list[str]:
    calls = calls_recorded(activity)
    if "cuda" in activity.recorded:
        unrecorded = [note for kind, note in _UNRECORDED.items() if kind not in activity.recorded]
        return [f"CUDA activity comes from {activity.source}.", *unrecorded]
    source = f"CUDA activity comes from {activity.source}."
    if "migrations" in activity.recorded:
        return [source, "Managed memory was recorded, but GPU copies and kernels were not."]
    if activity.sampled:
        gpus = "; ".join(sample_words(sample) for sample in activity.sampled[:_GPUS])
        return [source, f"By the windows in which the GPU's work was recorded, {gpus}."]
    if not calls:
        return [f"{activity.source} recorded no CUDA calls."]
    return [source, "The GPU's work (copies, kernels, migrations) was not recorded, only the calls."]
