"""Recording the process that asks for it, from one line of it to another, by the native collector beside it."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from pinprof.collect import counters, kallsyms, native, python
from pinprof.collect.base import FINISH_TIMEOUT_S, Outcome, Recorder, RecordRequest, resources
from pinprof.collect.control import open_control
from pinprof.collect.native.attached import Attached
from pinprof.errors import CollectError
from pinprof.store import CaptureWriter


class ThisProcess:
    """The process that records itself."""

    def __init__(self) -> None:
        self.pid = os.getpid()


class _Patience:
    """Waits for the collector; nobody interrupts: a Ctrl-C is an exception in the recorded code."""

    interruptions = 0
    interrupted_by = int(signal.SIGINT)

    def __init__(self) -> None:
        self.tools: list[Attached | python.Beside] = []

    def wait(self, timeout_s: float) -> None:
        """Note which recorder has ended."""
        time.sleep(timeout_s)
        for tool in self.tools:
            tool.recorder.reap()


class OwnRecording:
    """One recording of this process, all of its threads and whatever it starts; `start` and `stop` once each."""

    def __init__(self, request: RecordRequest, writer: CaptureWriter) -> None:
        native.check(request)
        self._request, self._writer = request, writer
        self._places = ExitStack()
        self._patience = _Patience()

    def start(self) -> None:
        """Begin; CollectError when the kernel does not allow it."""
        self._notes = [kallsyms.save(self._writer.path)]
        try:
            control = self._places.enter_context(open_control())
            tools = self._patience.tools
            tools.append(Attached(self._request, self._writer, ThisProcess(), control))
            if self._request.python == "lines":
                tools.append(python.Beside(self._request, self._writer, ThisProcess()))
                python.may_be_read_by(tools[-1].recorder.pid)
            for tool in tools:
                tool.await_ready(self._patience)
        except BaseException:
            for tool in self._patience.tools:
                self._kill(tool.recorder)
            self._places.close()
            raise
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self._counters, self._usage = counters.read(), self._resources()
        self._started_ns = time.monotonic_ns()

    def stop(self, *, interrupted: bool = False) -> Outcome:
        """End; what was recorded lies in the writer's directory then."""
        ended_ns = time.monotonic_ns()
        used = {name: value - self._usage.get(name, 0) for name, value in self._resources().items()}
        grown = counters.growth(self._counters, counters.read())
        recorders = [tool.recorder for tool in self._patience.tools]
        for recorder in recorders:
            recorder.died_first = recorder.reap()
            recorder.finish()
        deadline = time.monotonic() + FINISH_TIMEOUT_S
        try:
            while [recorder for recorder in recorders if not recorder.reap()] and time.monotonic() < deadline:
                time.sleep(0.005)
        except BaseException:  # broken off a second time
            self._end(recorders)
            raise
        if any(recorder.wait_status is None for recorder in recorders):
            self._end(recorders)
            raise CollectError(
                f"The collector did not end within {FINISH_TIMEOUT_S:.0f} s.", "Record again for the whole.", "native"
            )
        self._places.close()
        results = [tool.result() for tool in self._patience.tools]
        notes = (*self._notes, *(note for result in results for note in result.notes))
        failure = results[0].failure
        return Outcome(
            state="failed" if failure else "interrupted" if interrupted else "complete",
            exit_status=0,
            started_utc=self._started_utc,
            duration_ns=ended_ns - self._started_ns,
            resources=used,
            counters=grown,
            collectors=tuple(result.facts for result in results),
            notes=tuple(dict.fromkeys(note for note in notes if note)),
            failure=failure,
        )

    def _end(self, recorders: Sequence[Recorder]) -> None:
        for recorder in recorders:
            self._kill(recorder)
        self._places.close()

    @staticmethod
    def _kill(recorder: Recorder) -> None:
        """End the collector, leaving no process behind."""
        recorder.send(signal.SIGKILL)
        while not recorder.reap():
            time.sleep(0.001)

    def _resources(self) -> dict[str, int]:
        return resources(resource.getrusage(resource.RUSAGE_SELF))
