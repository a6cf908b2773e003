"""CUDA calls without nsys: a second process of the collector, whose events are uprobes on CUDA's own functions.

It writes calls.data beside whatever sampler records, in the same format: when a function was entered, with its
arguments and the program's stack, when it returned, and which memory was mapped. It goes on outside the measured region
of a scenario too, since that is where a context is created. What keeps it from working never fails a recording.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from pinprof import __version__
from pinprof.collect import cuda_traced, permission
from pinprof.collect.collector import Collector, Setup, Tool, ToolResult, Waiter
from pinprof.collect.control import open_control
from pinprof.collect.inside import AGENT_VARIABLE
from pinprof.collect.native import events, tracefs
from pinprof.collect.native.attached import START_TIMEOUT_S, last_word, ring_bytes, start, unwinding_library
from pinprof.collect.native.sampler import Orders
from pinprof.collect.native.tracefs import ProbeSite
from pinprof.collect.program import Program, find_program
from pinprof.collect.recorder import Recorder
from pinprof.streams.store import CALLS_DATA, CALLS_LOG

CRASHED = (
    "CUDA calls were not traced: the kernel has crashed since it started, and may not survive probes. Restart the "
    "machine to trace them."
)
_SAID_FACTS = ("recording_cpu_ns", "lost_records", "probes")


def _join(setup: Setup) -> Sequence[Tool]:
    """A tracer, unless there is no CUDA, nothing is wanted, or a collector records calls itself."""
    request = setup.request
    if not request.cuda_calls or not tracefs.supported() or cuda_traced(request):
        return []
    if AGENT_VARIABLE in setup.environment or request.own_process:
        return []  # the agent sees them, or says why not
    if tracefs.kernel_crashed():
        setup.notes.append(CRASHED)
        return []
    from pinprof.collect.cuda_libraries import find_sites, loaded_by

    executable = f"/proc/{request.pid}/exe" if request.pid else find_program(request.command[0])
    loaded = loaded_by(request.pid) if request.pid else []
    sites = find_sites(executable, setup.environment, loaded)
    return [CallTracer(setup, sites)] if sites else []


class CallTracer(Tool):
    """The process that records CUDA calls, attached to a program that waits behind its gate."""

    recorder: Recorder

    def __init__(self, setup: Setup, sites: Sequence[ProbeSite]) -> None:
        self._control = setup.places.enter_context(open_control())
        self._log, self._data, self._sites = setup.directory / CALLS_LOG, setup.directory / CALLS_DATA, sites
        self._refusal = ""
        self._budget, self._attaches = setup.request.probe_budget, bool(setup.request.pid)

    def attach(self, program: Program) -> None:
        """Start the process."""
        control = self._control
        orders = Orders(
            output=str(self._data.resolve()),
            events=(events.mappings(data=True),),
            pid=program.pid,
            ring_bytes=ring_bytes(each_cpu=2),
            control=(str(control.ctl), str(control.ack)),
            command=("pinprof", "record", "--cuda-calls"),
            version=f"pinprof {__version__}",
            probes=tuple(self._sites),
            probe_budget=self._budget,
            children=self._attaches,
            unwinding=unwinding_library(),
        )
        self.recorder = start(orders, control, self._log, "pinprof-calls", fork=True)

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until calls are recorded; where they cannot be, the recording goes on without them."""
        for word in ("ping", "enable"):
            for _ in self._control.asked(word, waiter):
                if self.recorder.wait_status is not None or self.recorder.had_s() > START_TIMEOUT_S:
                    self._refusal = _reason(last_word(self._log))
                    self._control.close()
                    return
        self._control.close()

    def under_way(self) -> ToolResult:
        """What is known before it ends."""
        files = len({site.path for site in self._sites})
        facts = {"name": "cuda-calls", "version": __version__, "options": {"files": files}}
        return ToolResult(facts)

    def result(self) -> ToolResult:
        """What it recorded, or why it did not."""
        said = last_word(self._log)
        answered = {name: said[name] for name in _SAID_FACTS if name in said}
        facts: dict[str, Any] = {**self.under_way().facts, "cpu_ns": self.recorder.cpu_ns, **answered}
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
        return permission.probes_refused() or "the kernel refuses uprobes"
    if number in (errno.ENODEV, errno.ENOENT):
        return "this kernel has no uprobe events"
    return str(said.get("refused") or said.get("failed") or "the collector ended early").rstrip(".")


COLLECTOR = Collector(_join, forks=True, lost="CUDA calls are not recorded")
