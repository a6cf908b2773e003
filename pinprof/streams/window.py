"""A window of time of a recording, and how each stream is cut by it: a test's block and a part of a recording are one.

Files of a recording grow. A mark is a moment, and what every file had just before it and once its recorders had written
what they held. What happened between two moments lies between what files had before the first and after the second, so
a window is cut without a look at what is outside of it. What cannot be divided, and what other recorders wrote at these
moments, goes into a window whole; its manifest has the window's times (`outcome.recorded_ns`), and reading keeps what
that `TimeWindow` has.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from pinprof import streams
from pinprof.base import files
from pinprof.base.clock import clock_ns
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.uvm_events import ENTRY_BYTES, HEADER_BYTES, State
from pinprof.streams.records import RecordsFile, between, composed, size
from pinprof.streams.stream import found

_LAYOUT_AT, _STATE_AT, _WRITTEN_AT = 16, 20, 48
"""Places in `uvm_events.HEADER`."""


@dataclass(frozen=True)
class Mark:
    """A moment of a recording."""

    time_ns: int
    """CLOCK_MONOTONIC."""
    before: Mapping[str, int]
    """How many bytes each file had, by its path in the capture, of what happened before it alone."""
    after: Mapping[str, int]
    """The same of a later moment, when all that happened before it had been written."""


class Growing:
    """The directory of a recording that goes on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._records: dict[Path, RecordsFile] = {}
        self.shortened: dict[Path, Callable[[int], bytes]] = {}
        """What files are, that lack most of what was before some time, for windows that begin at a time."""

    def records(self, path: Path) -> RecordsFile:
        """One of its files of perf's records, with what is kept of it for windows that begin later."""
        return self._records.setdefault(path, RecordsFile(path))

    def mark(self, begin: Callable[[], None] = lambda: None, end: Callable[[], None] = lambda: None) -> Mark:
        """This moment. Both have the recorders write what they hold: `begin` for windows that begin at it, which then
        have little from before it; `end` for those that end at it.
        """
        begin()
        before, time_ns = self._sizes(), clock_ns()
        end()
        return Mark(time_ns, before, self._sizes())

    def _sizes(self) -> dict[str, int]:
        paths = [path for stream in streams.STREAMS if stream.cut for path in stream.files(self.directory)]
        records = self._records
        return {self.name(path): records[path].size if path in records else size(path) for path in paths}

    def name(self, path: Path) -> str:
        """The path of one of its files in the capture."""
        return str(path.relative_to(self.directory))


@dataclass(frozen=True)
class Window:
    """What was recorded between two marks."""

    recording: Growing
    begin: Mark
    end: Mark

    def cut(self, target: Path) -> None:
        """Write what every stream has of it into another directory."""
        here = self.recording.directory
        for stream in streams.STREAMS:
            for source in stream.files(here) if stream.cut else ():
                place = target / source.relative_to(here)
                if stream.folder:
                    place.parent.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
                found(stream.cut)(source, place, self)

    def span(self, source: Path) -> tuple[int, int]:
        """From where to where it goes in a file."""
        name = self.recording.name(source)
        return self.begin.before.get(name, 0), self.end.after.get(name, 0)


def appended(source: Path, target: Path, window: Window) -> None:
    """Cut a file of lines, or of members of gzip: nothing in it depends on what was before."""
    first, last = window.span(source)
    if last > first:
        files.written(target, between(source, first, last))


def whole(source: Path, target: Path, _window: Window) -> None:
    """All of a file, which is finished: both names are of the same one."""
    os.link(source, target)


def copied(source: Path, target: Path, window: Window) -> None:
    """A file in which what is said later depends on what was said first: all of it up to the window's end, or what
    later records need of those before it.
    """
    shortened = window.recording.shortened.get(source)
    whole = shortened(window.begin.time_ns) if shortened else between(source, 0, window.span(source)[1])
    files.written(target, whole)


def records(source: Path, target: Path, window: Window) -> None:
    """Cut a file of perf's records; those that say who maps what are kept from before."""
    file = window.recording.records(source)
    first, last = window.span(source)
    file.keep_until(first)
    files.written(target, composed(file.head, file.kept, between(source, first, last)))


def uvm_events(source: Path, target: Path, window: Window) -> None:
    """Cut a file of the driver's events (uvm_events.py): whole entries behind its head."""
    head = bytearray(between(source, 0, HEADER_BYTES))
    if len(head) < HEADER_BYTES:
        return
    layout, state = struct.unpack_from("<II", head, _LAYOUT_AT)
    (written,) = struct.unpack_from("<Q", head, _WRITTEN_AT)
    entry = ENTRY_BYTES.get(layout, 1)
    first, last = ((max(place, HEADER_BYTES) - HEADER_BYTES) // entry * entry for place in window.span(source))
    last = min(last, written // entry * entry)
    entries = between(source, HEADER_BYTES + first, HEADER_BYTES + max(first, last))
    # Its recorder goes on, which is no loss of the window's.
    ended = State.ENDED if state == State.RUNNING else state
    struct.pack_into("<I", head, _STATE_AT, ended)
    struct.pack_into("<Q", head, _WRITTEN_AT, len(entries))
    files.written(target, bytes(head) + entries)
