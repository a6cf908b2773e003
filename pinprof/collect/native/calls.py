"""CUDA calls without nsys: a second process of the collector, whose events are uprobes on CUDA's own functions.

It writes calls.data beside whatever sampler records, in the same format: when a function was entered, with its
arguments and the program's stack, when it returned, and which memory was mapped. It goes on outside the measured region
of a scenario too, since that is where a context is created. What keeps it from working never fails a recording.
"""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Mapping
from typing import Any

from pinprof import __version__
from pinprof.collect.base import Program, Recorder, RecordRequest, Session, ToolResult
from pinprof.collect.control import Control
from pinprof.collect.cuda_libraries import find_sites
from pinprof.collect.native import events, tracefs
from pinprof.collect.native.attached import collector_environment, last_word, unwinding_library
from pinprof.collect.native.sampler import Orders
from pinprof.collect.native.tracefs import Site
from pinprof.store import CALLS_DATA, CALLS_LOG, CaptureWriter

_RING_BYTES = 512 << 10
"""Room for some two thousand calls between two readings, on each CPU."""
_START_TIMEOUT_S = 20.0


def sites(request: RecordRequest, environment: Mapping[str, str], executable: str) -> list[Site]:
    """What to probe for this request; empty where there is no CUDA or nothing is wanted."""
    if not request.cuda_calls or not tracefs.supported():
        return []
    return find_sites(executable, environment)


class CallTracer:
    """The process that records CUDA calls, attached to a program that waits behind its gate."""

    def __init__(self, writer: CaptureWriter, program: Program, control: Control, probed: list[Site]) -> None:
        self._control, self._log, self._data = control, writer.path / CALLS_LOG, writer.path / CALLS_DATA
        self._files = len({site.path for site in probed})
        self._refusal = ""
        place = control.ctl.with_name("calls.json")
        Orders(
            output=str(self._data.resolve()),
            events=(events.mappings(data=True),),
            pid=program.pid,
            ring_bytes=_RING_BYTES,
            control=(str(control.ctl), str(control.ack)),
            command=("pinprof", "record", "--cuda-calls"),
            version=f"pinprof {__version__}",
            probes=tuple(probed),
            unwinding=unwinding_library(),
        ).save(place)
        argv = [sys.executable, "-P", "-S", "-m", "pinprof.collect.native", str(place)]
        self.recorder = Recorder(argv, collector_environment(), self._log)

    def await_ready(self, session: Session) -> None:
        """Wait until calls are recorded; where they cannot be, the recording goes on without them."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        for word in ("ping", "enable"):
            self._control.send(word)
            while not self._control.acknowledged(0.02):
                session.wait(0)
                if session.interruptions:
                    raise KeyboardInterrupt(session.interrupted_by)
                if self.recorder.wait_status is not None or time.monotonic() > deadline:
                    self._refusal = _reason(last_word(self._log))
                    self._control.close()
                    return
        self._control.close()

    def result(self) -> ToolResult:
        """What it recorded, or why it did not."""
        said = last_word(self._log)
        facts: dict[str, Any] = {
            "name": "cuda-calls",
            "version": __version__,
            "options": {"files": self._files},
            "cpu_ns": self.recorder.cpu_ns,
            **{name: said[name] for name in ("recording_cpu_ns", "lost_records") if name in said},
        }
        notes = [str(note) for note in said.get("notes", ())]
        if self._refusal or (self.recorder.died_first and not self._refusal):
            notes.append(f"CUDA calls were not traced{'' if self._refusal else ' to the end'}: {_reason(said)}.")
        if self._refusal:
            self._data.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        return ToolResult(facts, tuple(notes))


def _reason(said: Mapping[str, Any]) -> str:
    """Why the process ended, in words."""
    number = int(said.get("errno") or 0)
    if number in (errno.EPERM, errno.EACCES):
        return "that needs root (tracefs and uprobes)"
    if number in (errno.ENODEV, errno.ENOENT):
        return "this kernel has no uprobe events"
    return str(said.get("refused") or said.get("failed") or "the collector ended early").rstrip(".")
