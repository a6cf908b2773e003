"""The collector's process as a recording tool, attached to a program that still waits behind its gate."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinprof import __version__
from pinprof.base.errors import CollectError, ToolMissing
from pinprof.base.units import format_ns
from pinprof.collect import permission, process_notes
from pinprof.collect.collector import Setup, Tool, ToolResult, Waiter
from pinprof.collect.control import Control, sampler_control
from pinprof.collect.native import events, unwinding
from pinprof.collect.native.sampler import SAID, Orders
from pinprof.collect.own_processes import started
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder, unstarted
from pinprof.collect.request import RecordRequest
from pinprof.data.manifest import USER_ONLY
from pinprof.machine.libraries import UNWINDING
from pinprof.streams.store import LOG, PERF_DATA

START_TIMEOUT_S = 60.0
"""Every process of the machine is listed first with --system-wide."""

RING_VARIABLE = "PINPROF_RING_BYTES"
"""Environment variable: another size of each CPU's ring, a power of two of pages; small ones overrun."""

_PATIENCE, _SETTLE = 500, 25
"""How often to look for its answers (control.py), 10 s on a busy machine where it may have no processor for a while;
and how often after one that did not come, until one comes: who never answers costs the program so much once."""

_SAID_FACTS = ("recording_cpu_ns", "lost_records", "ring_bytes", "cpus", "stacks", "wakeups", "thinned")
SAMPLES_SHARE = 0.8
"""The part of the size that a recording may have; the rest is for memory over time (memory.py)."""
_RING_BYTES = 4 << 20
_ALL_RINGS_BYTES = 512 << 20
_UNPRIVILEGED_RING_BYTES = 512 << 10
"""What kernel.perf_event_mlock_kb grants each CPU by default, besides a page."""


class AttachedNative(Tool):
    """The native collector at work; perf.data lies in the capture directory afterwards."""

    recorder: Recorder

    def __init__(self, setup: Setup, *, kernel: bool) -> None:
        """`kernel`: its part of the program may be sampled too."""
        request = setup.request
        self._request, self._control = request, sampler_control(setup)
        self._data, self._log = setup.directory / PERF_DATA, setup.directory / LOG
        self._kernel = kernel
        # Switches happen in the kernel: without its part there are no stacks of them.
        self._off_cpu = request.off_cpu and self._kernel
        self._shown = shown_command(request)
        self._patience = _PATIENCE

    def attach(self, program: Program) -> None:
        """Start the collector's process."""
        request, control, self._pid = self._request, self._control, program.pid
        standard = events.standard(
            frequency=request.frequency,
            fault_period=request.fault_period,
            off_cpu=self._off_cpu,
            kernel=self._kernel,
        )
        orders = Orders(
            output=str(self._data),
            events=(*standard, *events.versions(standard, pausable=not request.system_wide)),
            pid=None if request.system_wide else program.pid,
            ring_bytes=ring_bytes(),
            control=(str(control.ctl), str(control.ack)),
            command=self._shown,
            version=f"pinprof {__version__}",
            wakeups=self._off_cpu,
            unwinding=unwinding_library(),
            limits=request.limits.share(SAMPLES_SHARE),
            children=bool(request.pid),
        )
        try:
            self.recorder = start(orders, control, self._log, "pinprof-native", fork=not request.own_process)
        except OSError as error:
            raise _failed(*unstarted("The collector", error)) from error

    def await_ready(self, waiter: Waiter) -> None:
        """Wait until all events are open, and unless the program does so itself, switch them on."""
        self._switched_on_ns = time.monotonic_ns()
        for word in ("ping",) if self._request.region_only else ("ping", "enable"):
            for _ in self._control.asked(word, waiter):
                self._still_starting()
        self._control.close()

    def left_out(self) -> None:
        """Let go of the FIFOs as well, by which the program notices."""
        super().left_out()
        self._control.close()

    def flush(self) -> None:
        """Have it empty the rings: it answers, looks at all of them, and only then describes its events and answers."""
        self._ask("ping", "describe")

    def pause(self) -> None:
        """The same with the events off, but for those that tell who maps what."""
        self._ask("disable", "describe")

    def resume(self) -> None:
        """Switch them on."""
        self._ask("enable")

    def _ask(self, *commands: str) -> None:
        """Send commands one after another, and wait for the answers as long as may be."""
        answered = self._control.ask(*commands, looks=self._patience, gone=self.recorder.reap)
        self._patience = _PATIENCE if answered else _SETTLE

    def under_way(self) -> ToolResult:
        """What is known before it ends."""
        facts: dict[str, Any] = {
            "name": "native",
            "version": __version__,
            "command": list(self._shown),
            "pid": self._pid,
            "options": self._request.sampler_options(off_cpu=self._off_cpu, kernel=self._kernel),
        }
        return ToolResult(facts, () if self._kernel else (user_only_note(),))

    def result(self) -> ToolResult:
        """What it recorded with, and why that is not whole."""
        said, known = last_word(self._log), self.under_way()
        answered = {name: said[name] for name in _SAID_FACTS if name in said}
        notes = [str(note) for note in said.get("notes", ())]
        if "thinned" in said:
            notes.append(thinned_note(said["thinned"], self._switched_on_ns))
        facts = {**known.facts, "cpu_ns": self.recorder.cpu_ns, **answered}
        missed = process_notes.not_recorded(said.get("left_out", ()))
        incomplete = {"children": missed} if missed else {}
        return ToolResult(facts, (*notes, *known.notes), failure=self._failure(said), incomplete=incomplete)

    def _still_starting(self) -> None:
        """Raise when the collector has ended before the program began, or takes too long."""
        if self.recorder.wait_status is not None:
            raise self._start_failure()
        if self.recorder.had_s() > START_TIMEOUT_S:
            problem = f"The collector was not ready after {START_TIMEOUT_S:.0f} s."
            raise _failed(problem, "Try again when the machine is less busy, or leave out --system-wide.")

    def _start_failure(self) -> CollectError:
        """Why the collector ended before the program began."""
        said = last_word(self._log)
        number = int(said.get("errno") or 0)
        if number == errno.EMFILE or (not said and self.recorder.wait_status == errno.EMFILE << 8):
            problem = "pinprof can't open enough files: it needs a few for each CPU."
            return CollectError(problem, "Raise the limit: `ulimit -n 65536`.", "limits")
        if "refused" not in said:
            reason = str(said.get("failed") or "see collector.log").rstrip(".")
            problem = f"The collector did not start recording: {reason}."
            return _failed(problem, "`pinprof doctor` checks what it needs.")
        what = str(said["refused"])
        if what == "the ring" and number in (errno.EPERM, errno.ENOMEM):
            return permission.buffers_refused("pinprof")
        if number in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            return permission.refusal(number, system_wide=self._request.system_wide, user=not self._kernel)
        return _failed(
            f"The kernel does not record {what}: {os.strerror(number)}.", "Try --record perf, or --no-off-cpu."
        )

    def _failure(self, said: Mapping[str, Any]) -> CollectError | None:
        """Why the recording is not whole."""
        recorder = self.recorder
        assert recorder.wait_status is not None
        finished = "lost_records" in said
        if not recorder.died_first and recorder.ended_well and (finished or not recorder.status_lost):
            return None
        full = os.waitstatus_to_exitcode(recorder.wait_status) in (errno.ENOSPC, errno.EDQUOT)
        return recorder.unfinished("the collector", "native", disk_full=full, reason=str(said.get("failed", "")))


def _failed(problem: str, remedy: str) -> CollectError:
    return CollectError(problem, remedy, "native")


def unwinding_library() -> str:
    """The library that completes stacks; empty where it is not available, or does not know this machine."""
    try:
        return str(UNWINDING.find()) if unwinding.supported() else ""
    except ToolMissing:
        return ""


def shown_command(request: RecordRequest) -> tuple[str, ...]:
    """For people and the file: how this recording was asked for, without the program."""
    return (
        "pinprof",
        "record",
        "--with=native",
        f"--frequency={request.frequency}",
        f"--fault-period={request.fault_period}",
        *(() if request.off_cpu else ("--no-off-cpu",)),
        *(("--system-wide",) if request.system_wide else ()),
    )


def thinned_note(thinned: Mapping[str, Any], began_ns: int) -> str:
    """What was left out to keep to the size that was asked for, and since when."""
    since = format_ns(max(thinned["since_ns"] - began_ns, 0))
    text = (
        f"The recording was thinned to stay within its size limit: from {since} on, it keeps one in "
        f"{thinned['one_in']:,} samples of CPU time and of page faults, and joins waits shorter than "
        f"{format_ns(thinned['joined_ns'])}. Totals stay complete."
    )
    if thinned["full_ns"]:
        until = format_ns(max(thinned["full_ns"] - began_ns, 0))
        text += f" At {until}, it reached the limit; the last samples have the weight of everything after them."
    return text


def user_only_note() -> str:
    """What is missing where the kernel's part may not be sampled, and the remedy."""
    error = permission.refusal(permission.sampling_errno() or errno.EACCES, system_wide=False)
    return f"The recording has {USER_ONLY}, without time in the kernel (page faults, pinning) and off the CPU: {error}"


def ring_bytes(each_cpu: int = 1) -> int:
    """The size of a ring: room for seconds between two readings, and a bound on all together, `each_cpu` on a CPU."""
    chosen = os.environ.get(RING_VARIABLE, "")
    if chosen.isdecimal():
        return 1 << max(int(chosen), 1).bit_length() - 1
    size = _RING_BYTES if os.geteuid() == 0 else _UNPRIVILEGED_RING_BYTES
    while size > 256 << 10 and size * each_cpu * (os.cpu_count() or 1) > _ALL_RINGS_BYTES:
        size //= 2
    return size


def start(orders: Orders, control: Control, log: Path, name: str, *, fork: bool) -> Recorder:
    """The collector's process, which keeps its orders beside its FIFOs."""
    place = control.ctl.with_name("orders.json")
    orders.save(place)
    return started("pinprof.collect.native", name, [str(place)], log, fork=fork)


def last_word(log: Path) -> dict[str, Any]:
    """The last thing the collector said."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        if line.startswith(SAID):
            try:
                said = json.loads(line.removeprefix(SAID))
            except ValueError:
                continue
            return said if isinstance(said, dict) else {}
    return {}
