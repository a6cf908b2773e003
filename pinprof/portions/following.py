"""The last seconds of a recording of any program that goes on, cut into windows, in bounded room on disk.

Each look is a moment (streams/window.py). What lies before all windows that may still be asked for is given back to the
file system; later samples are read by what is kept of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof import streams
from pinprof.base import files
from pinprof.collect import host
from pinprof.collect.run import CollectorRun
from pinprof.portions import captures
from pinprof.streams.store import PERF_DATA
from pinprof.streams.window import Growing, Mark, Window

_BLOCK = 1 << 20
"""Bytes that are given back at a time."""


class Following:
    """A recording into `directory`."""

    def __init__(self, directory: Path, command: Sequence[str], longest_s: float) -> None:
        """`longest_s`: of the windows that will be asked for."""
        self._command, self._longest_ns = tuple(command), round(longest_s * 1e9)
        self._growing = Growing(directory)
        self._samples = self._growing.records(directory / PERF_DATA)
        self._host: Mapping[str, Any] = host.facts()
        self._facts: tuple[Sequence[Mapping[str, Any]], Sequence[str]] = (), ()
        self._marks: deque[Mark] = deque()
        self._given_back: dict[str, int] = {}

    def look(self, run: CollectorRun) -> None:
        """Have its recorders write what they hold, and note how far they have come."""
        run.flush()
        mark = self._growing.mark(captures.clock_ns())
        self._facts = run.under_way()
        self._marks.append(mark)
        while len(self._marks) > 1 and self._marks[1].time_ns <= mark.time_ns - self._longest_ns:
            self._marks.popleft()
        self._give_back()

    @property
    def seen_s(self) -> float:
        """How long the longest window is by now, in seconds."""
        return (self._marks[-1].time_ns - self._marks[0].time_ns) / 1e9 if self._marks else 0.0

    def write(self, target: Path, length_s: float) -> Path:
        """Make the last `length_s` seconds before the last look a capture, or what there is of them; its path.

        It begins at the look that is nearest to that. There have been two looks.
        """
        until = self._marks[-1]
        begun_ns = until.time_ns - round(length_s * 1e9)
        begin = min(list(self._marks)[:-1], key=lambda mark: abs(mark.time_ns - begun_ns))
        collectors, notes = self._facts
        captures.write(
            target, Window(self._growing, begin, until), self._command, self._host, collectors, notes,
            ended_ns=until.time_ns, used=MappingProxyType({}),
        )  # fmt: skip
        return target

    def _give_back(self) -> None:
        """What lies before the first moment, of files of which a window needs nothing from before it."""
        for name, first in self._marks[0].sizes.items():
            begins = self._given_back.get(name, 0)
            stream = streams.owner(name)
            if stream is None or stream.cut not in (streams.RECORDS, streams.APPENDED) or first - begins < _BLOCK:
                continue
            if stream.cut == streams.RECORDS:
                self._samples.keep_until(first)
                begins = max(begins, self._samples.begins)
            files.forget(self._growing.directory / name, begins, first)
            self._given_back[name] = first
