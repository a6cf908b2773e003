"""The file of `pinprof record --ring --metrics FILE`: what each window of the ring adds to counters.

A window follows the one before without a gap. A process of its own reads it, with low priority, and says what it adds.
Windows become longer where reading takes more than SHARE of a processor.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from pinprof.base import files
from pinprof.base.errors import PinprofError, UsageError

if TYPE_CHECKING:
    from pinprof.portions.flight import FlightRecorder
    from pinprof.portions.following import Following
    from pinprof.report.export.metrics import Sums

SHORTEST_S, SHARE = 10.0, 0.01
"""Of windows; what cutting and reading them may take of a processor."""
_FOR_ALL = 0o644


class MetricsFile:
    """The counters, and who reads a window now."""

    def __init__(self, path: Path, folder: Path, length_s: float) -> None:
        """`folder`: for windows; `length_s`: of the ring. UsageError where the file cannot be written."""
        self._path, self._folder, self._longest_s = path, folder, length_s
        self._sums: Sums = defaultdict(float)
        self._until_ns = 0
        self._due = 0.0
        self._reader: tuple[int, BinaryIO, Path, float, float] | None = None
        """Process, its answer, the window, its length in seconds, and the CPU time that cutting took."""
        try:
            self._write()
        except OSError as error:
            raise UsageError(
                f"--metrics {path} can't be written: {error.strerror}.", "Give a file in a folder that exists.",
                "metrics",
            ) from error  # fmt: skip

    def look(self, recorder: FlightRecorder, captures: int) -> None:
        """Take what a reader has said, begin with the next window if it is time, and write the file."""
        now = time.monotonic()
        if self._reader and self._taken(os.WNOHANG):
            self._written(recorder, captures)
        if not self._until_ns:
            self._until_ns, self._due = recorder.following.looked_ns, now + SHORTEST_S
        elif now >= self._due and not self._reader:
            self._begin(recorder.following)
            self._written(recorder, captures)

    def end(self, recorder: FlightRecorder, captures: int) -> None:
        """The rest of the recording."""
        if self._reader:
            self._taken(0)
        if self._until_ns:
            self._begin(recorder.following)
        if self._reader:
            self._taken(0)
        self._written(recorder, captures)

    def _begin(self, following: Following) -> None:
        from pinprof.streams.store import read_manifest

        began, length_s = time.process_time(), (following.looked_ns - self._until_ns) / 1e9
        if length_s <= 0:
            return
        path = self._folder / "metrics.window"
        try:
            following.write(path, length_s)
            begun_ns, until_ns = read_manifest(path).outcome["recorded_ns"]
            answer = files.nameless()
            process = os.fork()
        except (OSError, PinprofError):
            # The disk is full, perhaps: the next window reaches back to here.
            shutil.rmtree(path, ignore_errors=True)
            self._due = time.monotonic() + SHORTEST_S
            return
        if not process:
            _read(path, answer)
        self._sums["pinprof_unwatched_seconds_total", ()] += max(begun_ns - self._until_ns, 0) / 1e9
        self._until_ns = until_ns
        self._reader = process, answer, path, (until_ns - begun_ns) / 1e9, time.process_time() - began

    def _taken(self, options: int) -> bool:
        """Whether the reader has ended (`options` as of waitpid(2)); what it said counts."""
        import json

        assert self._reader is not None
        process, answer, path, length_s, spent_s = self._reader
        ended, status, used = os.wait4(process, options)
        if not ended:
            return False
        with answer:
            answer.seek(0)
            rows = json.loads(answer.read()) if not status else []
        shutil.rmtree(path, ignore_errors=True)
        for name, labels, value in rows:
            self._sums[name, tuple((label, text) for label, text in labels)] += value
        watched = "unwatched" if status else "watched"
        self._sums[f"pinprof_{watched}_seconds_total", ()] += length_s
        spent_s += used.ru_utime + used.ru_stime
        # Beyond the ring nothing is kept.
        pause_s = min(max(SHORTEST_S, spent_s / SHARE), max(self._longest_s - 2, SHORTEST_S))
        self._due, self._reader = time.monotonic() + pause_s, None
        return True

    def _written(self, recorder: FlightRecorder, captures: int) -> None:
        stalls = zip(recorder.triggers, recorder.stalls, strict=True)
        self._sums |= {("pinprof_stalls_total", (("trigger", one.text),)): count for one, count in stalls}
        self._sums["pinprof_captures_total", ()] = captures
        self._sums["pinprof_pinned_bytes", ()] = recorder.pinned_bytes
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        from pinprof.report.export.metrics import text_of

        self._sums["pinprof_refreshed_timestamp_seconds", ()] = time.time()
        with files.replacing(self._path) as file:
            os.fchmod(file.fileno(), _FOR_ALL)  # a collector of another user reads it
            file.write(text_of(self._sums).encode())


def _read(path: Path, answer: BinaryIO) -> NoReturn:
    """In the process of a reader: say what a window adds."""
    status = 1
    try:
        import json

        from pinprof import analyze, read
        from pinprof.report.export.metrics import sums_of

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the program
        os.nice(10)
        sums = sums_of(analyze.analyze(read.read(path)))
        answer.write(json.dumps([(name, labels, value) for (name, labels), value in sums.items()]).encode())
        answer.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
