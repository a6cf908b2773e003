"""Recording the process that asks for it, from one line of it to another, by the native collector beside it."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pinprof.base.errors import CollectError
from pinprof.collect.collector import Waiter
from pinprof.collect.mappings import OwnMappings
from pinprof.collect.program import Program, resources
from pinprof.collect.recorder import FINISH_TIMEOUT_S
from pinprof.collect.request import Outcome, RecordRequest
from pinprof.collect.run import CollectorRun
from pinprof.collect.trouble import Trouble
from pinprof.streams.store import MEMORY


class _ThisProcess(Program):
    """The process that records itself: from `start` to `end`."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._used: dict[str, int] = {}

    def start(self) -> None:
        """From now on it counts."""
        self._before = self._resources()
        self.started_ns, self.begun = time.monotonic_ns(), True

    def end(self) -> None:
        """Until now."""
        self.ended_ns, self.wait_status = time.monotonic_ns(), 0
        self._used = {name: value - self._before.get(name, 0) for name, value in self._resources().items()}

    def resources(self) -> dict[str, int]:
        """What it used meanwhile."""
        return self._used

    @staticmethod
    def _resources() -> dict[str, int]:
        return resources(resource.getrusage(resource.RUSAGE_SELF))


class _Patience(Waiter):
    """Waits for the collector; nobody interrupts: a Ctrl-C is an exception in the recorded code."""

    def wait(self, timeout_s: float) -> None:
        """Note whether the collector has ended."""
        time.sleep(timeout_s)
        for recorder in self.recorders:
            recorder.reap()

    def finish_recorders(self) -> None:
        """Ask the collector to write what it still holds and wait; CollectError when that takes too long."""
        for recorder in self.recorders:
            recorder.died_first = recorder.reap()
            recorder.finish()
        while not all(recorder.reap() for recorder in self.recorders):
            if any(recorder.had_s() > FINISH_TIMEOUT_S for recorder in self.recorders):
                raise CollectError(
                    f"The collector did not end within {FINISH_TIMEOUT_S:.0f} s.",
                    "Record again for a complete capture.",
                    "native",
                )
            time.sleep(0.005)

    def kill(self) -> None:
        """End the collector, leaving no process behind."""
        for recorder in self.recorders:
            recorder.send(signal.SIGKILL)
            while not recorder.reap():
                time.sleep(0.001)


class OwnRecording:
    """One recording of this process, all of its threads and whatever it starts; `stop` once."""

    def __init__(self, request: RecordRequest, directory: Path) -> None:
        """Begin; CollectError when the kernel does not allow it."""
        self._process = _ThisProcess()
        with ExitStack() as places:
            self._run = CollectorRun(request, directory, places, Trouble(raises=True))
            self._patience = _Patience(self._run.tools)
            places.callback(self._patience.kill)
            self._run.begin(self._process, self._patience)
            self._mappings = OwnMappings(directory / MEMORY)
            places.callback(self._mappings.close)
            self._mappings.write()
            self._process.start()
            self._places = places.pop_all()

    def flush(self) -> None:
        """What was recorded until now lies in the capture's files when this returns, as far as recorders answer."""
        self._run.flush()

    def list_mappings(self) -> None:
        """Write what this process has mapped now: two such lists say what the faults between them were in."""
        self._mappings.write()

    def pause(self) -> None:
        """As `flush`; and what happens from now on need not be recorded, until `resume`."""
        for tool in self._run.tools:
            tool.pause()

    def resume(self) -> None:
        """Record again."""
        for tool in self._run.tools:
            tool.resume()

    def under_way(self) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
        """The collectors' facts and notes before the end, as a manifest has them."""
        return self._run.under_way()

    @property
    def recording(self) -> bool:
        """Whether the samples' recorder still runs."""
        return self._run.recording

    def stop(self, *, interrupted: bool = False) -> Outcome:
        """End; what was recorded lies in the capture's directory then."""
        # Broken off a second time, it leaves no process behind either.
        with self._places:
            self._process.end()
            self._mappings.write()
            self._run.program_ended()
            self._patience.finish_recorders()
        return self._run.outcome(self._process, interrupted=interrupted)
