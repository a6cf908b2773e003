"""What a recording can have here: what the kernel permits, and what a rehearsal shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace

from pinprof.base.errors import ToolMissing
from pinprof.collect import host, kallsyms, permission, py_spy, python
from pinprof.collect.collector import SAMPLES_LOST
from pinprof.collect.cupti import candidates
from pinprof.collect.limits import max_sample_rate
from pinprof.collect.native import tracefs
from pinprof.collect.native.wakeups import SCHED_WAKING
from pinprof.collect.uvm import beside, driver
from pinprof.doctor import probe
from pinprof.doctor.check import Check, lacking
from pinprof.doctor.rehearsal import Rehearsal, unwritable
from pinprof.machine import small_files
from pinprof.machine.libraries import FRAMES, INSIDE, UNWINDING, Library

_LOOK = "Record a program; the capture's notes and its collector.log say more."
_EXECUTABLE = "Set XDG_CACHE_HOME to a folder that is not mounted with noexec."


def _unseen(name: str, found: Rehearsal, what: str, gain: str, lost: str = SAMPLES_LOST) -> Check:
    """What is permitted, and not in the rehearsal; `lost`: how that says so."""
    if found.problem:
        return Check(name, "info", "permitted, but not tried")
    problem, remedy = next((one for one in found.said if one[0].startswith(lost)), ("", ""))
    because = problem.replace(lost, "", 1)  # `: …`
    return Check(name, "warning", f"permitted, but a rehearsal has no {what}{because}", remedy or _LOOK, gain)


def _recording(found: Rehearsal) -> Check:
    if found.problem:
        return Check("recording", "problem", f"A rehearsal of a recording has failed. {found.problem}", found.remedy)
    return Check("recording", "ok", "a program was recorded as a rehearsal")


def _place_of_captures(_: Rehearsal) -> Check:
    if why := unwritable():
        fix = "Change to a writable folder, or give -o PATH to `pinprof record`."
        return Check("captures", "warning", f"the current folder can't be written: {why}", fix)
    return Check("captures", "ok", "can be written into the current folder")


def _native(found: Rehearsal) -> Check:
    name, gain = NATIVE, "exact CPU time, and page faults by function and line."
    if number := permission.sampling_errno(kernel=False):
        return lacking(name, permission.refusal(number, system_wide=False, user=True), gain)
    if found.timers:
        why = "it may not see the kernel, which timers inside the program estimate"
        if not permission.sampling_errno():
            why = "timers inside the program see Python lines as well, which may not be read from outside"
        return Check(name, "info", f"not used: {why}")
    if not found.samples:
        return _unseen(name, found, "samples", gain)
    if problem := _loadable(name, UNWINDING, found):
        return replace(problem, gain="the callers of functions without frame pointers.")
    rate = max_sample_rate()
    return Check(name, "ok", f"records CPU time{f', at most {rate:,} samples per second' if rate else ''}")


def _timers(found: Rehearsal) -> Check:
    """What samples where perf events are not permitted, or not the kernel's."""
    if found.timers and found.samples:
        return Check(TIMERS, "ok", "inside the program; they sample its CPU time, of which perf events see less here")
    return Check(TIMERS, "info", "not used: perf events do more" if found.samples else "not used")


def _kernel(found: Rehearsal) -> Check:
    name, gain = "sampling the kernel", "page faults, pinning and waits with their causes."
    if number := permission.sampling_errno():
        return lacking(name, permission.refusal(number, system_wide=False), gain)
    if found.timers and (reason := permission.forbidden()):
        text = f"permitted, but timers sample Python programs, whose memory pinprof can't read: {reason}"
        return Check(name, "warning", text, permission.allow(), gain)
    if not found.kernel or not found.waits:
        return _unseen(name, found, "waits" if found.kernel else "stacks of the kernel", gain)
    return Check(
        name, "ok", f"page faults and waits are recorded (kernel.perf_event_paranoid is {permission.paranoid()})"
    )


def _kallsyms(found: Rehearsal) -> Check:
    name, gain = "kernel symbols", "names of kernel functions, without which causes are not known."
    if error := kallsyms.hidden():
        return lacking(name, error, gain)
    if found.kernel and not found.named:
        return _unseen(name, found, "names of kernel functions", gain)
    return Check(name, "ok", f"shown (kernel.kptr_restrict is {small_files.number(permission.KPTR_RESTRICT)})")


def _system_wide(_: Rehearsal) -> Check:
    name, gain = "--system-wide", "samples of every process and kernel thread."
    if number := permission.sampling_errno(system_wide=True):
        return lacking(name, permission.refusal(number, system_wide=True), gain, "info")
    return Check(name, "ok", "permitted")


def _python_lines(found: Rehearsal) -> Check:
    name, gain = "Python lines", "Python functions and lines."
    if found.timers and found.python:
        return Check(name, "ok", "by the agent inside the program")
    if reason := permission.forbidden():
        said = f"pinprof can't read the program's memory: {reason}."
        return Check(name, "warning", said, permission.allow(), gain)
    if problem := _loadable(name, FRAMES, found):
        return problem
    if not found.samples and permission.sampling_errno(kernel=False):
        return Check(name, "info", "pinprof can read them, but without samples only CUDA calls have lines")
    if not found.python:
        return _unseen(name, found, "Python lines", gain, python.COLLECTOR.lost)
    path = py_spy.find_py_spy()
    if path is None:
        return Check(name, "ok", "CPython 3.11 to 3.15; older versions need py-spy", py_spy.INSTALL)
    return Check(name, "ok", f"CPython 3.11 to 3.15; older versions through py-spy {py_spy.version_of(path)}, {path}")


def _cuda_calls(found: Rehearsal) -> Check:
    name, gain = "CUDA calls", "each call with its line, size and time."
    if found.inside:
        return Check(name, "ok", "by the agent inside the program")
    try:
        library = INSIDE.find()
    except ToolMissing as error:
        return lacking(name, error, gain)
    if found.problem:
        return _unseen(name, found, "", gain)
    return Check(name, "warning", f"The agent was not loaded into a program: {library}.", _EXECUTABLE, gain)


def _probes(_: Rehearsal) -> Check:
    """CUDA calls of programs into which the agent does not come."""
    name, without = "probes", "CUDA calls of running, static and setuid programs are not recorded"
    if not tracefs.supported():
        return Check(name, "info", f"not on this architecture; {without}")
    if tracefs.kernel_crashed():
        found = f"The kernel has crashed since it started, and may not survive probes; {without}."
        return Check(name, "warning", found, "Restart the machine.")
    reason = permission.probes_refused()
    if not reason and (number := probe.refusal()):
        reason = f"the kernel refuses uprobes ({os.strerror(number)})"
    if reason:
        return Check(name, "info", f"{without}, because {reason}")
    return Check(name, "ok", "CUDA calls of running programs are recorded by uprobes")


def _wakeups(found: Rehearsal) -> Check:
    """Who ends a wait: a tracepoint of the scheduler tells."""
    name = "wake-ups"
    if found.wakeups:
        return Check(name, "ok", "recorded, by the scheduler's tracepoint sched_waking")
    reason = permission.probes_refused().replace("uprobes need", "recording them needs")
    return Check(name, "info", f"inferred: {reason or f'this kernel does not show the tracepoint {SCHED_WAKING}'}")


def _nvtx(found: Rehearsal) -> Check:
    return _loadable("NVTX ranges", INSIDE, found) or Check("NVTX ranges", "ok", f"without nsys, through {INSIDE.name}")


def _gpu_work(found: Rehearsal) -> Check:
    if problem := _loadable("GPU work", INSIDE, found):
        return problem
    files = candidates(sys.executable, os.environ)
    if not files:
        return Check("GPU work", "info", "without nsys, only in programs that bring CUPTI, such as those with PyTorch")
    return Check("GPU work", "ok", f"without nsys, through {INSIDE.name} and {files[0]}")


def _loadable(name: str, library: Library, found: Rehearsal) -> Check | None:
    """Why a library is of no use; None where it was loaded into a program, or there was no program."""
    try:
        path = library.find()
    except ToolMissing as error:
        return lacking(name, error)
    if found.problem or str(path) in found.loaded:
        return None
    return Check(name, "warning", f"The {library.title} can't be loaded into a program: {path}.", _EXECUTABLE)


def _managed_memory(_: Rehearsal) -> Check:
    text, remedy = beside.problem()
    if text:
        return Check("managed memory", "info", text, remedy if host.gpus() else "")
    return Check("managed memory", "ok", f"by the driver's events, through {driver.DEVICE}")


TIMERS, NATIVE = "timers", "native collector"
GIVES = {
    NATIVE: "CPU time",
    "sampling the kernel": "time in the kernel (page faults, waits)",
    "kernel symbols": "names of kernel functions",
    "Python lines": "Python lines",
    "CUDA calls": "CUDA calls",
    "NVTX ranges": "NVTX ranges",
}
"""What a recording has by each check, for the verdict."""
GIVEN_BY_TIMERS = {
    NATIVE: "CPU time with an estimate of the kernel's part",
    "sampling the kernel": "stacks in the kernel (exact page faults, all waits)",
}
"""The same where timers sample: they need no names of kernel functions."""

CHECKS: tuple[Callable[[Rehearsal], Check], ...] = (
    _recording,
    _place_of_captures,
    _native,
    _timers,
    _kernel,
    _kallsyms,
    _system_wide,
    _python_lines,
    _cuda_calls,
    _nvtx,
    _gpu_work,
    _managed_memory,
    _wakeups,
    _probes,
)
