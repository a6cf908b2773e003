"""Recording the process that asks for it, from one line of it to another, by the native collector beside it."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime

from pinprof.collect import counters, kallsyms, native
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
        self.tool: Attached | None = None

    def wait(self, timeout_s: float) -> None:
        """Note whether the collector has ended."""
        time.sleep(timeout_s)
        if self.tool is not None:
            self.tool.recorder.reap()


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
            self._tool = self._patience.tool = Attached(self._request, self._writer, ThisProcess(), control)
            self._tool.await_ready(self._patience)
        except BaseException:
            if self._patience.tool is not None:
                self._kill(self._patience.tool.recorder)
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
        recorder = self._tool.recorder
        died = recorder.reap()
        recorder.died_first = died
        recorder.finish()
        deadline = time.monotonic() + FINISH_TIMEOUT_S
        try:
            while not recorder.reap() and time.monotonic() < deadline:
                time.sleep(0.005)
        except BaseException:  # broken off a second time
            self._kill(recorder)
            self._places.close()
            raise
        if recorder.wait_status is None:
            self._kill(recorder)
            self._places.close()
            raise CollectError(
                f"The collector did not end within {FINISH_TIMEOUT_S:.0f} s.", "Record again for the whole.", "native"
            )
        self._places.close()
        result = self._tool.result()
        notes = (*self._notes, *result.notes)
        return Outcome(
            state="failed" if result.failure else "interrupted" if interrupted else "complete",
            exit_status=0,
            started_utc=self._started_utc,
            duration_ns=ended_ns - self._started_ns,
            resources=used,
            counters=grown,
            collectors=(result.facts,),
            notes=tuple(dict.fromkeys(note for note in notes if note)),
            failure=result.failure,
        )

    @staticmethod
    def _kill(recorder: Recorder) -> None:
        """End the collector, leaving no process behind."""
        recorder.send(signal.SIGKILL)
        while not recorder.reap():
            time.sleep(0.001)

    def _resources(self) -> dict[str, int]:
        return resources(resource.getrusage(resource.RUSAGE_SELF))
