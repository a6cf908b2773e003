"""The last seconds of a recording of any program that goes on, cut into windows, in bounded room on disk.

Each look is a moment (streams/window.py). What lies before all windows that may still be asked for is given back to the
file system; later samples are read by what is kept of it. Where a program writes more than there is room for, windows
become shorter.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof import streams
from pinprof.base import files
from pinprof.collect import host
from pinprof.collect.run import CollectorRun
from pinprof.portions import captures
from pinprof.portions.agent_files import AgentFiles
from pinprof.streams.store import PARTIAL, PERF_DATA
from pinprof.streams.window import Growing, Mark, Window

MOST_BYTES = 256 << 20
"""What all files may take on disk together."""
_BLOCK = 1 << 20
"""Bytes that are given back at a time."""


class Following:
    """A recording into `directory`."""

    def __init__(
        self,
        directory: Path,
        command: Sequence[str],
        longest_s: float,
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`longest_s`: of the windows that will be asked for; `labels` are those of its captures."""
        self._labels = labels
        self._command, self._longest_ns = tuple(command), round(longest_s * 1e9)
        self._growing = Growing(directory)
        self._samples = self._growing.records(directory / PERF_DATA)
        self.agent = AgentFiles(directory, self._growing.shortened)
        self._host: Mapping[str, Any] = host.facts()
        self._facts: tuple[Sequence[Mapping[str, Any]], Sequence[str]] = (), ()
        self._marks: deque[Mark] = deque()
        self._given_back: dict[str, int] = {}

    def look(self, run: CollectorRun | None) -> Mark:
        """Have its recorders write what they hold, if they still run, and note how far they have come."""
        mark = self._growing.mark(end=lambda: self._written(run))
        self._marks.append(mark)
        while len(self._marks) > 1 and self._marks[1].time_ns <= mark.time_ns - self._longest_ns:
            self._marks.popleft()
        self._give_back(_BLOCK)
        while len(self._marks) > 2 and self._on_disk() > MOST_BYTES:
            self._marks.popleft()
            self._give_back(1)
        return mark

    def _written(self, run: CollectorRun | None) -> None:
        if run is not None:
            run.flush()
            self._facts = run.under_way()
        self.agent.look()

    @property
    def looked_ns(self) -> int:
        """When the last look was; 0 before the first."""
        return self._marks[-1].time_ns if self._marks else 0

    @property
    def seen_s(self) -> float:
        """How long the longest window is by now, in seconds."""
        return (self._marks[-1].time_ns - self._marks[0].time_ns) / 1e9 if self._marks else 0.0

    def write(self, target: Path, length_s: float, more: Mapping[str, Any] = MappingProxyType({})) -> Path:
        """Make the last `length_s` seconds before the last look a capture, or what there is of them; its path.

        It begins at the look that is nearest to that. There have been two looks. `more` goes into its outcome.
        """
        until = self._marks[-1]
        begun_ns = until.time_ns - round(length_s * 1e9)
        begin = min(list(self._marks)[:-1], key=lambda mark: abs(mark.time_ns - begun_ns))
        collectors, notes = self._facts
        captures.write(
            target, Window(self._growing, begin, until), self._command, self._host, collectors, notes,
            ended_ns=until.time_ns, labels=self._labels, more=more,
        )  # fmt: skip
        return target

    def save(
        self, target: Path, length_s: float, folder: Path, more: Mapping[str, Any] = MappingProxyType({})
    ) -> Callable[[], Path]:
        """Write the same into `folder`; what is given makes it the whole capture `target`, with its symbols.

        That may take seconds, and needs nothing of the recording. Nobody sees the capture before it is one. OSError
        where it cannot be made.
        """
        path = self.write(folder / f"{target.name}.window", length_s, more)

        def finish() -> Path:
            from pinprof.read import seal_symbols

            partial = target.with_name(target.name + PARTIAL)
            try:
                seal_symbols(path)
                shutil.move(path, partial)
                partial.rename(target)
            finally:
                shutil.rmtree(path, ignore_errors=True)
            return target

        return finish

    def _on_disk(self) -> int:
        return sum(path.stat().st_blocks * 512 for path in self._growing.directory.rglob("*") if path.is_file())

    def _give_back(self, least: int) -> None:
        """What lies before the first moment, of files of which a window needs nothing from before it."""
        for name, first in self._marks[0].before.items():
            begins = self._given_back.get(name, 0)
            stream = streams.owner(name)
            if stream is None or stream.cut not in (streams.RECORDS, streams.APPENDED) or first - begins < least:
                continue
            if stream.cut == streams.RECORDS:
                self._samples.keep_until(first)
                begins = max(begins, self._samples.begins)
            files.forget(self._growing.directory / name, begins, first)
            self._given_back[name] = first
        self.agent.give_back(self._marks[0].time_ns)
