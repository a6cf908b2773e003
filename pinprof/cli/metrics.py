"""The file of `pinprof record --ring --metrics FILE`: what each window of the ring adds to counters.

A window follows the one before without a gap. A process of its own reads it, with low priority, keeps the symbols that
it has loaded, and says what the window adds. Windows become longer where that takes more than SHARE of a processor.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pinprof.base import files
from pinprof.base.errors import PinprofError, UsageError

if TYPE_CHECKING:
    from pinprof.portions.flight import FlightRecorder
    from pinprof.portions.following import Following
    from pinprof.report.export.metrics import Sums

SHORTEST_S, SHARE = 10.0, 0.01
"""The length of windows; what cutting and reading them may take of a processor."""
_FOR_ALL = 0o644
"""A collector of another user reads the file."""


class _Asked(NamedTuple):
    """A window that is being read."""

    path: Path
    length_s: float
    spent_s: float
    """The CPU time that cutting it took."""


class MetricsFile:
    """The counters, and who reads windows."""

    def __init__(self, path: Path, folder: Path, length_s: float) -> None:
        """`folder`: for windows; `length_s`: of the ring. UsageError where the file cannot be written."""
        self._path, self._folder, self._longest_s = path, folder, length_s
        self._sums: Sums = defaultdict(float)
        self._until_ns = 0
        self._due = 0.0
        self._reader: _Reader | None = None
        self._asked: _Asked | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write()
        except OSError as error:
            raise UsageError(
                f"--metrics {path} can't be written: {error.strerror}.", "Give a file that you can write.", "metrics"
            ) from error

    def look(self, recorder: FlightRecorder, captures: int) -> None:
        """Take what the reader has said, give it the next window if it is time, and write the file."""
        if self._asked and self._taken(0):
            self._refresh(recorder, captures)
        if not self._until_ns:
            self._until_ns, self._due = recorder.following.looked_ns, time.monotonic() + SHORTEST_S
        elif time.monotonic() >= self._due and not self._asked:
            self._ask(recorder.following)

    def end(self, recorder: FlightRecorder, captures: int) -> None:
        """The rest of the recording."""
        if self._asked:
            self._taken(None)
        if self._until_ns:
            self._ask(recorder.following)
        if self._asked:
            self._taken(None)
        if self._reader:
            self._reader.close()
        self._refresh(recorder, captures)

    def _ask(self, following: Following) -> None:
        from pinprof.streams.store import read_manifest

        began, length_s = time.process_time(), (following.looked_ns - self._until_ns) / 1e9
        if length_s <= 0:
            return
        path = self._folder / "metrics.window"
        try:
            following.write(path, length_s)
            begun_ns, until_ns = read_manifest(path).outcome["recorded_ns"]
            self._reader = self._reader or _Reader()
            self._reader.ask(path)
        except (OSError, PinprofError):
            # The disk is full, perhaps, or the reader was killed: the next window reaches back to here.
            self._reader = None
            shutil.rmtree(path, ignore_errors=True)
            self._due = time.monotonic() + SHORTEST_S
            return
        self._sums["pinprof_unwatched_seconds_total", ()] += max(begun_ns - self._until_ns, 0) / 1e9
        self._until_ns = until_ns
        self._asked = _Asked(path, (until_ns - begun_ns) / 1e9, time.process_time() - began)

    def _taken(self, wait_s: float | None) -> bool:
        """Whether the reader has answered, within a time or however long it takes; what it said counts."""
        assert self._reader is not None
        assert self._asked is not None
        answer = self._reader.answer(wait_s)
        if answer is None:
            return False
        shutil.rmtree(self._asked.path, ignore_errors=True)
        for name, labels, value in answer.get("rows", ()):
            self._sums[name, tuple((label, text) for label, text in labels)] += value
        if not answer:
            self._reader = None
        watched = "watched" if "rows" in answer else "unwatched"
        self._sums[f"pinprof_{watched}_seconds_total", ()] += self._asked.length_s
        spent_s = self._asked.spent_s + answer.get("spent_s", 0.0)
        # Beyond the ring nothing is kept.
        pause_s = min(max(SHORTEST_S, spent_s / SHARE), max(self._longest_s - 2, SHORTEST_S))
        self._due, self._asked = time.monotonic() + pause_s, None
        return True

    def _refresh(self, recorder: FlightRecorder, captures: int) -> None:
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
            os.fchmod(file.fileno(), _FOR_ALL)
            file.write(text_of(self._sums).encode())


class _Reader:
    """The process that reads windows; it ends with this one."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answers, answers = os.pipe()
        self._process = os.fork()
        if not self._process:
            os.close(self._ask)
            os.close(self._answers)
            _serve(asked, answers)
        os.close(asked)
        os.close(answers)
        self._begun = b""

    def ask(self, path: Path) -> None:
        """Read a window; OSError where the reader is gone."""
        os.write(self._ask, os.fsencode(path) + b"\n")

    def answer(self, wait_s: float | None) -> dict[str, Any] | None:
        """What it says; None where it has not said it in time, nothing where it is gone."""
        while select.select([self._answers], [], [], wait_s)[0]:
            got = os.read(self._answers, 1 << 16)
            self._begun += got
            if not got:
                self.close()
                return {}
            if got.endswith(b"\n"):
                whole, self._begun = self._begun, b""
                return dict(json.loads(whole))
        return None

    def close(self) -> None:
        """Let it end."""
        for file in (self._ask, self._answers):
            os.close(file)
        os.waitpid(self._process, 0)


def _serve(asked: int, answers: int) -> NoReturn:
    """Read one window after another, until nobody asks."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the program
        os.nice(10)
        from pinprof import analyze, read
        from pinprof.read.symbols.kept import KeptSymbols
        from pinprof.report.export.metrics import sums_of

        symbols, first = KeptSymbols(), True
        with open(asked, "rb") as paths:
            for path in paths:
                began, answer = time.process_time(), dict[str, Any]()
                try:
                    options = read.ReadOptions(kept=symbols)
                    found = sums_of(analyze.analyze(read.read(Path(os.fsdecode(path[:-1])), options)))
                    answer["rows"] = [(name, labels, value) for (name, labels), value in found.items()]
                except (OSError, PinprofError):
                    traceback.print_exc()
                # The first loads the symbols: what it took says nothing of others.
                answer["spent_s"] = 0.0 if first else time.process_time() - began
                first = False
                os.write(answers, json.dumps(answer).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
