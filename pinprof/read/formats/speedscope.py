"""speedscope's file format, as pinprof, py-spy, rbspy, xctrace converters and speedscope itself write it.

Profiles of one file that are named for threads become threads of one event; every other profile is an event of its
own, because nothing says that two profiles count the same thing. Sampled profiles have no times. Evented profiles
become one sample per interval between two events, in the profile's own clock.

Source: speedscope's file-format-schema.json, version 1.25.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import NO_NODE, Capture, ClockSync, Event, Losses
from pinprof.read.assembly import (
    MAX_DEPTH,
    MAX_WEIGHT,
    NO_CLOCK,
    SampleColumns,
    StackBuilder,
    check_sum,
    dso_of,
    foreign_capture,
    is_elsewhere,
    unit_of,
)
from pinprof.read.formats.frame_names import OUTERMOST, Context, FrameNames
from pinprof.read.formats.json_source import document, items
from pinprof.read.reader import Reader, by_head

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_THREAD = re.compile(r"(?i).*\b(thread|tid|pid|process)\b.*|.* profile for \d+:\d+", re.DOTALL)
"""py-spy's and rbspy's names, and Austin's of a process and a thread."""
_OWN_TID = re.compile(r"(?i)(?:thread|tid|profile for \d+)[:\s#(]*(0x[0-9a-f]+|\d+)")


def sniff(head: bytes) -> bool:
    """Whether a JSON document names speedscope's schema, or has its `shared` frames, near its start."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start[:1] == b"{" and (SCHEMA.encode() in head or (b'"shared"' in head and b'"frames"' in head))


def read(path: Path) -> Capture:
    """Events by profile, samples in file order; FormatError when the document is not a speedscope file."""
    root = document(path, "speedscope")
    shared, profiles = root.get("shared"), root.get("profiles")
    frames = shared.get("frames") if isinstance(shared, dict) else None
    if not isinstance(frames, list) or not isinstance(profiles, list):
        raise FormatError(
            str(path),
            expected="the keys `shared.frames` and `profiles` of a speedscope file",
            found="other keys",
            remedy="Export the profile from speedscope again, or give the file it was made from.",
            slug="speedscope",
        )
    importer = _Importer()
    importer.add_frames(frames)
    own = str(root.get("exporter", "")).startswith("pinprof")
    for number, profile in enumerate(profiles):
        if isinstance(profile, dict):
            importer.add_profile(profile, number, own)
        else:
            importer.broken += 1
    return importer.capture(str(path))


@dataclass(frozen=True, slots=True)
class _Call:
    """A function that is open in an evented profile."""

    index: int
    """Into the file's frames."""
    node: int
    context: Context


@dataclass
class _Importer:
    builder: StackBuilder = field(default_factory=StackBuilder)
    frames: list[int | str] = field(default_factory=list)
    """Per frame of the file its number, or the name that has to be read in the context of its stack."""
    columns: SampleColumns = field(default_factory=SampleColumns)
    events: list[Event] = field(default_factory=list)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    by_unit: dict[str, int] = field(default_factory=dict)
    timed: bool = False
    timeless: bool = False
    broken: int = 0
    rounded: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        self.names = FrameNames(self.builder)

    def add_frames(self, frames: Sequence[Any]) -> None:
        """Number the shared frames: those with a file at once, the others by their names."""
        for frame in frames:
            name = frame.get("name") if isinstance(frame, dict) else None
            file = frame.get("file") if isinstance(frame, dict) else None
            if isinstance(name, str) and isinstance(file, str) and file:
                self.frames.append(self.builder.frame(name, *dso_of(file)))
            else:
                self.broken += not isinstance(name, str)
                self.frames.append(name if isinstance(name, str) else "[unknown]")

    def add_profile(self, profile: dict[str, Any], number: int, own: bool) -> None:
        """Take in one profile, sampled or evented."""
        name, unit_name = str(profile.get("name", "")), str(profile.get("unit", "none"))
        unit, factor = unit_of(name, unit_name)
        tid = 0
        if not own and _THREAD.fullmatch(name):
            event = self.by_unit.setdefault(unit_name, len(self.events))
            if event == len(self.events):
                kind = {"ns": "time", "bytes": "memory"}.get(unit, unit)
                self.events.append(Event(kind, unit, None, None, merged=True, elsewhere=unit == "ns"))
            tid = self._thread(name, number)
        else:
            event = len(self.events)
            elsewhere = unit == "ns" and (is_elsewhere(name) or profile.get("type") == "evented")
            name = name or f"profile {number + 1}"
            self.events.append(Event(name, unit, None, None, merged=True, elsewhere=elsewhere))
        if profile.get("type") == "evented":
            rows = self._evented(items(profile.get("events")), factor)
            self.timed = True
        else:
            rows = self._sampled(items(profile.get("samples")), items(profile.get("weights")), factor)
            self.timeless = True
        count = len(rows.stack)
        self.missing += rows.stack.count(NO_NODE)
        self.columns.stack += rows.stack
        self.columns.weight += rows.weight
        self.columns.time_ns.extend(rows.time_ns or [0] * count)
        self.columns.event.extend([event] * count)
        self.columns.tid.extend([tid] * count)

    def _thread(self, name: str, number: int) -> int:
        """A tid for a profile named for a thread: its own number where it fits the kernel's range, else the place."""
        match = _OWN_TID.search(name)
        tid = int(match[1], 0 if match[1][:2] in ("0x", "0X") else 10) if match and len(match[1]) < 20 else 0
        if not 0 < tid < 1 << 22 or (0, tid) in self.threads:
            tid = number + 1
            while (0, tid) in self.threads:
                tid += 1
        self.threads[0, tid] = name
        return tid

    def _chain(self, stack: Sequence[Any]) -> list[int] | None:
        """Frame numbers of a stack of indices; None when an index leads nowhere."""
        try:
            known = [self.frames[index] for index in stack if index >= 0]
        except (IndexError, TypeError):
            return None
        if len(known) != len(stack):
            return None
        if not any(isinstance(frame, str) for frame in known):
            return [frame for frame in known if isinstance(frame, int)]
        by_name = self.names.chain([frame for frame in known if isinstance(frame, str)])
        waiting = iter(by_name)
        return [frame if isinstance(frame, int) else next(waiting) for frame in known]

    def _sampled(self, samples: Sequence[Any], weights: Sequence[Any], factor: int) -> SampleColumns:
        self.broken += abs(len(samples) - len(weights))
        rows = SampleColumns()
        chains = []
        for stack, amount in zip(samples, weights, strict=False):
            chain = self._chain(stack) if isinstance(stack, list) else None
            weight = self._scaled(amount, factor)
            if chain is None or weight is None:
                self.broken += 1
            else:
                chains.append(chain)
                rows.weight.append(weight)
        rows.stack.extend(self.builder.stacks(chains).tolist())
        return rows

    def _evented(self, events: Sequence[Any], factor: int) -> SampleColumns:
        """One row per interval with the same functions open; closing another function than the innermost is damage."""
        rows = SampleColumns()
        open_calls: list[_Call] = []
        since: int | None = None
        for event in events:
            at = self._scaled(event.get("at"), factor) if isinstance(event, dict) else None
            if at is None or (since is not None and at < since):
                self.broken += 1
                continue
            if open_calls and since is not None and at > since:
                rows.stack.append(open_calls[-1].node)
                rows.weight.append(at - since)
                rows.time_ns.append(since)
            since = at
            index = event.get("frame")
            if event.get("type") == "O" and isinstance(index, int) and 0 <= index < len(self.frames):
                open_calls.append(self._call(index, open_calls))
            elif event.get("type") == "C" and open_calls and index == open_calls[-1].index:
                open_calls.pop()
            else:
                self.broken += 1
        self.broken += len(open_calls)
        return rows

    def _call(self, index: int, callers: list[_Call]) -> _Call:
        """The node of a function called from the innermost open one; beyond MAX_DEPTH calls stay with their caller."""
        node, context = (callers[-1].node, callers[-1].context) if callers else (NO_NODE, OUTERMOST)
        if len(callers) >= MAX_DEPTH:
            self.builder.cut_chains += 1
            return _Call(index, node, context)
        frame = self.frames[index]
        if isinstance(frame, str):
            frame, context = self.names.follow(frame, context)
        return _Call(index, self.builder.child(node, frame), context)

    def _scaled(self, amount: Any, factor: int) -> int | None:
        """A weight or time as an integer in the model's unit; None when it is no usable number."""
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            return None
        # Compared before it is scaled: negative, infinite, not a number and beyond 64 bits all fail here.
        if not 0 <= amount <= MAX_WEIGHT / factor:
            return None
        scaled = amount * factor
        whole = round(scaled)
        self.rounded += factor == 1 and whole != scaled
        return min(whole, MAX_WEIGHT)

    def capture(self, path: str) -> Capture:
        """The capture as collected."""
        check_sum(path, sum(self.columns.weight), "speedscope")
        notes = self.names.notes()
        if self.broken:
            notes.append(f"{self.broken} entries of the file are damaged or refer to nothing; left out.")
        if self.rounded:
            notes.append(f"{self.rounded} fractional weights were rounded.")
        timed = self.timed and not self.timeless
        if not timed:
            notes.append("Sampled speedscope profiles have no times, so ranges can't be separated.")
            del self.columns.time_ns[:]
        losses = Losses(
            unknown_records=self.broken,
            truncated_chains=self.builder.cut_chains,
            missing_stacks=self.missing,
            notes=tuple(notes),
        )
        clock = ClockSync("speedscope", 0, 0) if timed else NO_CLOCK
        samples = self.columns.table()
        table = self.builder.table()
        return foreign_capture(
            path, "speedscope", self.events, samples, table, threads=self.threads, clock=clock, losses=losses
        )


READER = Reader("speedscope file", by_head(sniff), lambda path, _: read(path), streams=True)
