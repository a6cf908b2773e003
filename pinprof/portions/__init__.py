"""One recording of this process that goes on, cut into portions: each is a capture of its own.

    captures.py   a window of a recording as a capture
    following.py  the last seconds of a recording of any program
    agent_files.py  what the agent writes, while the last seconds alone are kept
    inside_kept.py, nvtx_kept.py, gpu_kept.py  of calls and memory, of NVTX, of the GPU's work
    watching.py   what such a recording has told since the last look
    triggers.py   what a flight recorder waits for
    flight.py     captures of the last seconds, when that happens

A recorder takes long to start, and a portion only what reading the rings takes. `begin` and `end` mark how far the
recording has gone, and `end` has the recorders write what they hold: a portion is the window between the two marks
(streams/window.py).

What a CUDA call did depends on what was granted before: a copy from a pointer is one from pinned memory where that was
allocated, perhaps in another portion. So the agent stays in the process from the first start to the end, and a portion
has its files from their beginning; reading keeps the calls in it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof import collect
from pinprof.base import files
from pinprof.base.clock import clock_ns
from pinprof.base.errors import CollectError
from pinprof.collect import RecordRequest, host
from pinprof.collect.late import OwnAgent
from pinprof.collect.within import OwnRecording
from pinprof.portions import captures
from pinprof.scenario import ranges
from pinprof.streams.store import INSIDE, PERF_DATA, RANGES
from pinprof.streams.window import Growing, Mark, Window

MOST_BYTES, MOST_KEPT_BYTES = 128 << 20, 4 << 20
"""A recording that has grown larger, or whose records to keep have, is begun anew before the next portion."""


class Portions:
    """The recording, from its construction to `close`; portions follow each other, or lie in each other."""

    def __init__(self, request: RecordRequest, folder: Path) -> None:
        """Check `request`, which is recorded into `folder` from the first `begin` on; PinprofError if it cannot be."""
        collect.check(request)
        self._request, self._folder = replace(request, cuda_calls=False), folder
        self._agent = OwnAgent((folder / INSIDE).resolve(), asked=True) if request.cuda_calls else None
        self._untraced = ""
        """Why calls are not traced."""
        self._host: Mapping[str, Any] = host.facts()
        self._started = 0
        self._running: _Running | None = None

    def begin(self, name: str) -> Portion:
        """From here on it is a portion, and a range called `name`; PinprofError when it cannot be recorded."""
        self.start()
        assert self._running is not None
        return Portion(self._running, name)

    def start(self) -> None:
        """Start the recorders, unless they are at work, for portions that begin later.

        Calls are traced from here on. PinprofError when it cannot be recorded.
        """
        if self._running is not None and not self._running.usable:
            self._end()
        if self._running is None:
            if self._agent and not self._started:
                self._untraced = self._agent.enter()
            self._started += 1
            folder = self._folder / f"recording-{self._started}"
            self._running = _Running(self._request, folder, self._host, self._agent, self._untraced)

    def close(self) -> None:
        """End the recording, and remove everything but the portions."""
        try:
            self._end()
        finally:
            if self._agent:
                self._agent.leave()
                shutil.rmtree(self._folder / INSIDE, ignore_errors=True)

    def _end(self) -> None:
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
        ended_ns = clock_ns()
        self._phase.end()
        until = self._running.end()
        if target is not None:
            self._running.write(target, self._begun, until, ended_ns, used)


class _Running:
    """One run of the recorders."""

    def __init__(
        self,
        request: RecordRequest,
        directory: Path,
        host_facts: Mapping[str, Any],
        agent: OwnAgent | None,
        untraced: str,
    ) -> None:
        """`agent`: it writes beside `directory`; `untraced`: why it does not."""
        directory.mkdir(files.PRIVATE_FOLDER)
        if agent:
            (directory / INSIDE).symlink_to(directory.parent / INSIDE)
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
        self._growing = Growing(directory)
        self._samples = self._growing.records(directory / PERF_DATA)
        self._agent, self._untraced = agent, untraced
        self._session.pause()

    @property
    def usable(self) -> bool:
        """Whether another portion may be of this one."""
        if os.getpid() != self._pid or not self._session.recording:
            return False
        if self._open:
            return True
        return self._samples.size < MOST_BYTES and len(self._samples.kept) < MOST_KEPT_BYTES

    def close(self) -> None:
        """End it; a forked child leaves its parent's alone."""
        if os.getpid() == self._pid:
            try:
                self._session.stop()
            finally:
                shutil.rmtree(self._directory, ignore_errors=True)

    def begin(self) -> Mark:
        """A portion begins."""
        if not self._open:
            self._session.resume()
        self._sum_apart()
        mark = self._growing.mark(begin=self._session.flush) if self._open else self._growing.mark()
        self._open += 1
        self._session.list_mappings()
        return mark

    def end(self) -> Mark:
        """A portion ends."""
        self._open -= 1
        self._sum_apart()
        if os.getpid() != self._pid:
            return self._growing.mark()
        self._session.list_mappings()
        return self._growing.mark(end=self._session.flush if self._open else self._session.pause)

    def _sum_apart(self) -> None:
        """What the agent sums before this moment is not of what comes after it."""
        if self._agent:
            self._agent.part()

    def write(self, target: Path, begin: Mark, until: Mark, ended_ns: int, used: Mapping[str, int]) -> None:
        """Make the capture of what was recorded between two marks."""
        if os.getpid() != self._pid or not self._session.recording:
            raise CollectError(
                "The recorder ended before the block.", "Run it again; `pinprof doctor` checks this machine.",
                "recording",
            )  # fmt: skip
        collectors, notes = self._session.under_way()
        captures.write(
            target, Window(self._growing, begin, until), sys.orig_argv, self._host, collectors,
            [*notes, self._untraced] if self._untraced else notes,
            ended_ns=ended_ns, used=used,
        )  # fmt: skip
