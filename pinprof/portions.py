"""One recording of this process that goes on, cut into portions: each is a capture of its own.

A recorder takes long to start, and a portion only what reading the rings takes. `begin` and `end` have the recorders
write what they hold, so what lies between these two places of their files is what was recorded between the two calls.
A portion gets that, behind the head of `perf.data` and the earlier records that say who maps what. Its symbols are not
sealed: it is read on this machine, in this boot, best with `ReadOptions.kept`.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof import collect, files
from pinprof.collect import RecordRequest, host
from pinprof.collect.within import OwnRecording
from pinprof.errors import CollectError
from pinprof.scenario import ranges
from pinprof.store import KALLSYMS, PERF_DATA, PYTHON_STACKS, RANGES, new_manifest, write_manifest

_HEAD = struct.Struct("<8s12Q")
_DATA_OFFSET, _DATA_SIZE = 5, 6
"""Fields of perf.data's head (collect/native/perf_file.py)."""
_RECORD = struct.Struct("<IHH")
_KEPT = frozenset({1, 3, 7, 10})
"""MMAP, COMM, FORK and MMAP2: what later samples are read by (perf_event.h)."""
MOST_BYTES, MOST_KEPT_BYTES = 64 << 20, 4 << 20
"""A recording that has grown larger, or whose records to keep have, is begun anew before the next portion."""


@dataclass(frozen=True)
class _Place:
    """How far the files of a recording go, and when that was."""

    samples: int
    python: int
    ranges: int
    time_ns: int
    started_utc: str


class Portions:
    """The recording, from its construction to `close`; portions follow each other, or lie in each other."""

    def __init__(self, request: RecordRequest, folder: Path) -> None:
        """Check `request`, which is recorded into `folder` from the first `begin` on; PinprofError if it cannot be."""
        collect.check(request)
        self._request, self._folder = request, folder
        self._host: Mapping[str, Any] = host.facts()
        self._started = 0
        self._running: _Running | None = None

    def begin(self, name: str) -> Portion:
        """From here on it is a portion, and a range called `name`; PinprofError when it cannot be recorded."""
        if self._running is not None and not self._running.usable:
            self.close()
        if self._running is None:
            self._started += 1
            self._running = _Running(self._request, self._folder / f"recording-{self._started}", self._host)
        return Portion(self._running, name)

    def close(self) -> None:
        """End the recording, and remove everything but the portions."""
        running, self._running = self._running, None
        if running is not None:
            running.close()


class Portion:
    """What is recorded from its construction to `end`."""

    def __init__(self, running: _Running, name: str) -> None:
        self._running = running
        self._begun = running.begin()
        self._phase = ranges.PhaseInto(name, running.ranges)

    def end(self, target: Path | None, used: Mapping[str, int] = MappingProxyType({})) -> None:
        """Until here; it becomes the capture `target`. `used` is what a manifest has as `resources`.

        CollectError when the recorder has ended meanwhile.
        """
        ended_ns = _clock_ns()
        self._phase.end()
        until = self._running.end()
        if target is not None:
            self._running.write(target, self._begun, until, ended_ns, used)


class _Running:
    """One run of the recorders."""

    def __init__(self, request: RecordRequest, directory: Path, host_facts: Mapping[str, Any]) -> None:
        directory.mkdir(files.PRIVATE_FOLDER)
        self._directory, self._host = directory, host_facts
        self.ranges = (directory / RANGES).resolve()
        self._pid = os.getpid()
        self._open = 0
        """Portions that have begun and not ended: without any, samples would only be in the way."""
        ranges.prepare()
        try:
            self._session = OwnRecording(request, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        self._kept = bytearray()
        self._head = b""
        self._session.pause()
        self._gathered = 0
        """How much of the samples' file `_kept` has been gathered from."""

    @property
    def usable(self) -> bool:
        """Whether another portion may be of this one."""
        if os.getpid() != self._pid or not self._session.recording:
            return False
        return self._open > 0 or (_size(self._directory / PERF_DATA) < MOST_BYTES and len(self._kept) < MOST_KEPT_BYTES)

    def close(self) -> None:
        """End it; a forked child leaves its parent's alone."""
        if os.getpid() == self._pid:
            try:
                self._session.stop()
            finally:
                shutil.rmtree(self._directory, ignore_errors=True)

    def begin(self) -> _Place:
        """A portion begins."""
        if self._open:
            self._session.settle()
        else:
            self._session.resume()
        self._open += 1
        return self._place()

    def end(self) -> _Place:
        """A portion ends."""
        self._open -= 1
        if os.getpid() == self._pid:
            if self._open:
                self._session.settle()
            else:
                self._session.pause()
        return self._place()

    def _place(self) -> _Place:
        """The place that the recording has reached."""
        return _Place(
            samples=_size(self._directory / PERF_DATA),
            python=_size(self._directory / PYTHON_STACKS),
            ranges=_size(self._directory / RANGES),
            time_ns=_clock_ns(),
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def write(self, target: Path, begun: _Place, until: _Place, ended_ns: int, used: Mapping[str, int]) -> None:
        """Make the capture of what was recorded between two places."""
        if os.getpid() != self._pid or not self._session.recording:
            raise CollectError(
                "The recorder ended before the block did.", "Run it again; `pinprof doctor` checks this machine.",
                "recording",
            )  # fmt: skip
        here = self._directory
        collectors, notes = self._session.under_way()
        outcome = {
            "state": "complete",
            "exit_status": 0,
            "started_utc": begun.started_utc,
            "duration_ns": ended_ns - begun.time_ns,
            "resources": dict(used),
            "counters": {},
            "notes": notes,
        }
        target.mkdir(files.PRIVATE_FOLDER)
        files.written(target / PERF_DATA, self._samples(begun.samples, until.samples))
        for name, first, last in (
            (PYTHON_STACKS, begun.python, until.python),
            (RANGES, begun.ranges, until.ranges),
        ):
            if last > first:
                files.written(target / name, _between(here / name, first, last))
        if (here / KALLSYMS).is_file():
            os.link(here / KALLSYMS, target / KALLSYMS)
        command = tuple(sys.orig_argv)
        write_manifest(target, new_manifest(command=command, host=self._host, collectors=collectors, outcome=outcome))

    def _samples(self, first: int, last: int) -> bytes:
        """A whole perf.data file of the records between two places of the recording's own."""
        path = self._directory / PERF_DATA
        if not self._head:
            size = _HEAD.unpack(_between(path, 0, _HEAD.size))[_DATA_OFFSET]
            self._head, self._gathered = _between(path, 0, size), size
        if first > self._gathered:
            self._keep(_between(path, self._gathered, first))
            self._gathered = first
        records = _between(path, first, last)
        fields = list(_HEAD.unpack_from(self._head))
        fields[_DATA_SIZE] = len(self._kept) + len(records)
        return b"".join((_HEAD.pack(*fields), self._head[_HEAD.size :], self._kept, records))

    def _keep(self, records: bytes) -> None:
        """Of whole records, those that later portions are read by."""
        place, unpack = 0, _RECORD.unpack_from
        while place + _RECORD.size <= len(records):
            kind, _, size = unpack(records, place)
            if size < _RECORD.size:
                break
            if kind in _KEPT:
                self._kept += records[place : place + size]
            place += size


def _clock_ns() -> int:
    """Now, also where a test has stopped `time.monotonic`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _between(path: Path, first: int, last: int) -> bytes:
    with path.open("rb") as file:
        file.seek(first)
        return file.read(last - first)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
