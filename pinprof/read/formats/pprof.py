"""pprof's profile.proto, plain or gzip, as Go, gperftools, perf_to_profile and async-profiler write it.

Every sample type is an event of its own: `samples count` and `cpu nanoseconds` of one profile stand side by side.
Samples have no times; threads come from the labels that name them.

Source: github.com/google/pprof, proto/profile.proto.
"""

from __future__ import annotations

import re
from dataclasses import field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import KERNEL, USER, Capture, Dso, Event, Losses, Unit
from pinprof.read.assembly import (
    MAX_DEPTH,
    MAX_WEIGHT,
    SampleColumns,
    StackBuilder,
    check_sum,
    dso_of,
    foreign_capture,
    is_elsewhere,
    kernel_dso,
    unit_of,
)
from pinprof.read.byte_source import ByteSource, ends_early
from pinprof.read.formats.frame_names import FrameNames
from pinprof.read.formats.protobuf import Value, WireError, fields, integers, signed
from pinprof.read.reader import Reader, by_head

_LIMIT = 1 << 30
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters that no line of text has."""
_BATCH = 2048
"""Samples whose stacks are entered into the tree at once: a few bytes can stand for thousands of frames."""
_KERNEL_START = 1 << 63
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_PERIOD_TYPE, _PERIOD = 11, 12
_MESSAGES = (*range(_SAMPLE_TYPE, _STRING + 1), _PERIOD_TYPE)
_INTEGERS = (7, 8, 9, 10, 12, 13, 14, 15)

_PID_LABELS = ("pid", "process_id")
_TID_LABELS = ("tid", "thread_id", "thread id")
_NAME_LABELS = ("thread", "thread_name", "thread name", "comm")


class _Location(NamedTuple):
    mapping: int
    address: int
    functions: list[int]
    """Innermost first, as inlining nests."""


def sniff(head: bytes) -> bool:
    """Whether the first fields of a message are those of a profile, with the types they have there.

    Text can look like one for a few fields: `b` is the tag of field 12. Lengths and numbers of a profile do not.
    """
    if not _BINARY.search(head):
        return False
    seen = 0
    try:
        for number, value in fields(head):
            if not (isinstance(value, bytes) if number in _MESSAGES else number in _INTEGERS):
                return False
            if number == _SAMPLE_TYPE and any(inner not in (1, 2) for inner, _ in fields(_bytes(value))):
                return False
            seen += 1
            if seen > 8:
                break
    except WireError:
        return seen > 1
    return seen > 1


def read(path: Path) -> Capture:
    """One event per sample type; FormatError for bytes of something else."""
    source = ByteSource(path)
    data = source.whole(_LIMIT)
    importer = _Importer(str(path))
    rest = 0
    try:
        for number, value in fields(data):
            importer.take(number, value)
    except WireError as error:
        rest = len(data) - error.offset
    if not importer.types or not importer.strings:
        raise FormatError(
            str(path),
            expected="a pprof profile with sample types and strings",
            found="something else" if not rest else "damaged bytes",
            offset=len(data) - rest,
            remedy="Write the profile again with the tool that made it.",
            slug="pprof",
        )
    return importer.capture(rest, source.damage)


@dataclass
class _Importer:
    """Collects the messages, then joins them: a profile may store its tables in any order."""

    path: str
    strings: list[str] = field(default_factory=list)
    types: list[tuple[int, int]] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    mappings: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Mapping id → strings of file name and build id."""
    locations: dict[int, _Location] = field(default_factory=dict)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Function id → strings of name and file."""
    period_type: tuple[int, int] | None = None
    period: int = 0
    builder: StackBuilder = field(default_factory=StackBuilder)
    unresolved: set[int] = field(default_factory=set)
    """Locations without a function."""
    broken: int = 0

    def __post_init__(self) -> None:
        self.names = FrameNames(self.builder)

    def take(self, number: int, value: Value) -> None:
        """Keep one field of the profile; damaged messages are counted."""
        if number == _STRING:
            self.strings.append(_bytes(value).decode("utf-8", "replace"))
        elif number == _SAMPLE:
            self.samples.append(_bytes(value))
        elif number == _PERIOD:
            self.period = signed(value) if isinstance(value, int) else 0
        else:
            try:
                self._take_row(number, _bytes(value))
            except WireError:
                self.broken += 1

    def _take_row(self, number: int, message: bytes) -> None:
        if number == _SAMPLE_TYPE:
            row = _scalars(message)
            self.types.append((row.get(1, 0), row.get(2, 0)))
        elif number == _PERIOD_TYPE:
            row = _scalars(message)
            self.period_type = row.get(1, 0), row.get(2, 0)
        elif number == _MAPPING:
            row = _scalars(message)
            self.mappings[row.get(1, 0)] = row.get(5, 0), row.get(6, 0)
        elif number == _FUNCTION:
            row = _scalars(message)
            self.functions[row.get(1, 0)] = row.get(2, 0) or row.get(3, 0), row.get(4, 0)
        elif number == _LOCATION:
            row = _scalars(message)
            lines = [_scalars(value) for inner, value in fields(message) if inner == 4 and isinstance(value, bytes)]
            functions = [line.get(1, 0) for line in lines]
            self.locations[row.get(1, 0)] = _Location(row.get(2, 0), row.get(3, 0), functions)

    def capture(self, rest: int, damage: str) -> Capture:
        """Join the tables."""
        events = [self._event(*names) for names in self.types]
        factors = [unit_of(self._string(name), self._string(unit))[1] for name, unit in self.types]
        columns, threads, missing = SampleColumns(), dict[tuple[int, int], str](), 0
        chains: list[list[int]] = []
        frames = cache(self._frames)
        unresolved = 0
        for message in self.samples:
            try:
                locations, values, labels = _sample(message)
            except WireError:
                self.broken += 1
                continue
            pid, tid, name = self._thread(labels)
            if name:
                threads[pid, tid] = name
            # Leaf first until no more is kept: a few bytes can name a location of many inlined functions many times.
            inward = (frame for location in locations for frame in reversed(frames(location)))
            chain = [*islice(inward, MAX_DEPTH + 1)][::-1]
            self.broken += abs(len(values) - len(events))
            address = self.locations[locations[0]].address if locations and locations[0] in self.locations else 0
            for event, (value, factor) in enumerate(zip(values, factors, strict=False)):
                weight = signed(value) * factor
                if weight < 0 or weight > MAX_WEIGHT:
                    self.broken += 1
                elif weight:
                    chains.append(chain)
                    columns.weight.append(weight)
                    columns.event.append(event)
                    columns.pid.append(pid)
                    columns.tid.append(tid)
                    columns.ip.append(address)
                    missing += not chain
                    unresolved += sum(number in self.unresolved for number in locations) if self.unresolved else 0
            if len(chains) >= _BATCH:
                columns.stack.extend(self.builder.stacks(chains).tolist())
                chains.clear()
        check_sum(self.path, sum(columns.weight), "pprof")
        columns.stack.extend(self.builder.stacks(chains).tolist())
        notes = ["pprof profiles have no times, so ranges can't be separated.", *self.names.notes()]
        if self.broken:
            notes.append(f"{self.broken} entries of the file are damaged, negative or refer to nothing; left out.")
        if rest and not damage:
            damage = f"{rest:,} bytes at its end hold no whole message"
        losses = Losses(
            unknown_records=self.broken,
            truncated_chains=self.builder.cut_chains,
            corrupt_bytes=rest,
            unresolved_frames=unresolved,
            missing_stacks=missing,
            notes=tuple(notes),
        )
        made = (events, columns.table(), self.builder.table())
        capture = foreign_capture(self.path, "pprof", *made, threads=threads, losses=losses)
        return capture.with_damage(ends_early(damage))

    def _string(self, index: int) -> str:
        return self.strings[index] if index < len(self.strings) else ""

    def _event(self, name: int, unit: int) -> Event:
        text = self._string(name)
        kind, factor = unit_of(text, self._string(unit))
        period = self.period * factor if self.period > 0 and self.period_type == (name, unit) else None
        return Event(text or "samples", kind, period, None, merged=True, elsewhere=self._elsewhere(text, kind))

    def _elsewhere(self, name: str, kind: Unit) -> bool:
        """Whether a type counts something else than time on processors: counts do as the profile's times do."""
        if kind == "ns":
            return is_elsewhere(name)
        kinds = (*self.types, *([self.period_type] if self.period_type else ()))
        amounts = [self._string(name) for name, unit in kinds if unit_of("", self._string(unit))[0] != "samples"]
        return bool(amounts) and all(map(is_elsewhere, amounts))

    def _thread(self, labels: list[bytes]) -> tuple[int, int, str]:
        """(pid, tid, name) from a sample's labels; 0 and empty where they say nothing."""
        pid = tid = 0
        name = ""
        for message in labels:
            row = _scalars(message)
            key = self._string(row.get(1, 0))
            text = self._string(row.get(2, 0))
            number = row.get(3, 0) or (int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0)
            if not 0 < number < 1 << 31:
                number = 0
            if key in _PID_LABELS:
                pid = number
            elif key in _TID_LABELS:
                tid = number
            elif key in _NAME_LABELS:
                name = text
        return pid, tid, name

    def _frames(self, number: int) -> list[int]:
        """The frames of a location, outermost first; one for inlined functions each."""
        location = self.locations.get(number)
        if location is None:
            self.broken += 1
            return []
        file, build_id = (self._string(text) for text in self.mappings.get(location.mapping, (0, 0)))
        dso, mode = dso_of(file, build_id.lower())
        mode = KERNEL if location.address >= _KERNEL_START else mode
        functions = [self.functions.get(function, (0, 0)) for function in reversed(location.functions)]
        if not any(self._string(name) for name, _ in functions):
            self.unresolved.add(number)
            symbol = dso.name if dso.name.startswith("[") else f"[{dso.name}]"
            return [self.builder.frame(symbol, dso, mode)]
        if file:
            return [self.builder.frame(self._string(name) or "[unknown]", dso, mode) for name, _ in functions]
        return [
            self._unmapped(self._string(name) or "[unknown]", self._string(source), mode) for name, source in functions
        ]

    def _unmapped(self, symbol: str, source: str, mode: int) -> int:
        """A function of a profile without mappings: interpreters name the source file."""
        if mode == KERNEL:
            return self.builder.frame(symbol, kernel_dso(symbol), KERNEL)
        return self.builder.frame(symbol, Dso(source, "", "file"), USER) if source else self.names[symbol]


def _sample(message: bytes) -> tuple[list[int], list[int], list[bytes]]:
    """Location ids leaf first, values, labels of one sample; WireError where damaged."""
    locations: list[int] = []
    values: list[int] = []
    labels: list[bytes] = []
    for number, value in fields(message):
        if number == 1:
            locations += integers(value)
        elif number == 2:
            values += integers(value)
        elif number == 3 and isinstance(value, bytes):
            _scalars(value)
            labels.append(value)
    return locations, values, labels


def _scalars(message: bytes) -> dict[int, int]:
    """The integer fields of a message, the last of each number; WireError where damaged."""
    return {number: value for number, value in fields(message) if isinstance(value, int)}


def _bytes(value: Value) -> bytes:
    """The bytes of a field; none where a number stands in the place of a message."""
    return value if isinstance(value, bytes) else b""


READER = Reader("pprof profile", by_head(sniff), lambda path, _: read(path), streams=True)
