"""Recording: runs a program under one collector or several and writes what they saw into a capture directory.

    request.py      RecordRequest, Outcome
    collector.py    Collector, Tool: the shape of everything that takes part; Setup, Waiter
    run.py          one run, start to end
    trouble.py      what pinprof cannot do, which never keeps the program from running
    within.py       the same of this process, by itself
    program.py      the program behind its gate; timed.py: for a part of its run; attach.py: one that runs already
    recorder.py     a tool's process
    own_processes.py  those of pinprof's own code
    session.py      signals (signals.py), and waiting for all processes; idle.py: what is prepared meanwhile
    proc.py         what /proc says of processes
    control.py      perf's control FIFOs, which the native collector obeys too
    native/         pinprof's own collector; calls.py: CUDA calls beside any sampler
    perf.py         Linux perf; perf_host_name.py: its file without the machine's name
    timers.py       CPU time by timers inside the program
    nsys.py         Nsight Systems
    nsys_launch.py  the program as nsys launches it: its own streams, status and place
    nsys_shim.py    what nsys starts, and what becomes the program
    nsys_keeper.py  ends what nsys leaves behind
    nsys_export.py  the export without what is private
    inside.py       CUDA calls seen from inside the program; late.py: from inside this one
    nvtx.py         NVTX ranges without nsys
    cupti.py        what the GPU did without nsys
    uvm/            managed memory by the driver's own events
    python.py       Python functions and lines: whose work each interpreter's are
    python_frames/  the process that reads frames of CPython 3.11 to 3.15 from outside
    py_spy.py       py-spy beside the program, for older ones
    py_spy_keeper.py, py_spy_trace.py  the process that runs it; what it writes
    memory.py       memory over time; mappings.py: what it is of; placement.py: on which nodes it lies
    pace.py         how much may be written
    process_notes.py  processes that outlive the program, or have another clock
    kallsyms.py     the kernel's symbols
    limits.py       what no recorder of samples can record, and what the system leaves to recorders
    permission.py   what the kernel lets us do, and what to change where it does not
    cuda_libraries.py  where a program finds CUDA's functions
    counters.py     exact counters around a run
    host.py         machine facts for the manifest; clocks.py: the time of day

What it leaves behind is the capture directory (store.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pinprof.base.errors import PinprofError, UsageError
from pinprof.collect.request import Outcome, RecordRequest

if TYPE_CHECKING:
    from pinprof.collect.collector import Collector
    from pinprof.collect.trouble import Trouble

COLLECTORS = {
    "native": "CPU stacks, page faults and waits, by pinprof itself",
    "perf": "the same, by Linux perf",
    "timers": "CPU stacks, by timers inside the program, where the others are not permitted",
    "nsys": "CUDA calls, copies, migrations, kernels and NVTX ranges, by Nsight Systems",
}
"""Collector name → what it records. Each is `COLLECTOR` in `pinprof.collect.NAME`, imported when asked for."""

BESIDE = ("inside", "native.calls", "python", "nvtx", "cupti", "uvm.beside", "memory", "process_notes")
"""What joins every recording of a program where it has something to do: each is declared as a collector is."""

AUTO = "auto"


def load(name: str) -> Collector:
    """What the module of that name declares."""
    collector: Collector = importlib.import_module(f"pinprof.collect.{name}").COLLECTOR
    return collector


def chosen(request: RecordRequest) -> tuple[Collector, ...]:
    """The collectors of a request; the one that launches the program comes first."""
    return tuple(sorted(map(load, request.collectors), key=lambda collector: not collector.launches))


def cuda_traced(request: RecordRequest) -> bool:
    """Whether a collector records CUDA calls, NVTX ranges and the GPU's work by itself."""
    return any(part.traces_cuda for part in chosen(request))


def parse_names(text: str) -> tuple[str, ...]:
    """The collectors of a comma list, each once, `auto` among them; UsageError when they cannot be meant."""
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    known = (AUTO, *COLLECTORS)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"There is no collector {unknown[0]!r}." if unknown else f"{text!r} is not a collector."
        raise UsageError(
            problem, f"Choose from: {', '.join(known)}. Separate several by a comma: native,nsys.", "collector"
        )
    if sum(name == AUTO or load(name).samples for name in names) > 1:
        problem = f"{text!r} names two collectors of the same samples."
        raise UsageError(problem, "Choose native or perf, or let auto choose.", "collector")
    if sum(name != AUTO and load(name).launches for name in names) > 1:
        problem = f"{text!r} names two collectors that start the program."
        raise UsageError(problem, "Choose one of them.", "collector")
    return names


def resolve(request: RecordRequest) -> RecordRequest:
    """The request with `auto` replaced: by the native collector where it sees the kernel, else by perf where that
    does, else by timers inside the program, which estimate it. They alone see the lines of a Python program whose
    memory may not be read from outside.

    Raises nothing: when neither can record, `check` of the native collector says why.
    """
    names = tuple(_sampler(request) if name == AUTO else name for name in request.collectors)
    return replace(request, collectors=names)


def _sampler(request: RecordRequest) -> str:
    from pinprof.collect import native, perf, python, timers

    if python.unreadable(request) and timers.serves(request):
        return "timers"
    try:
        # Copied stacks and branch records are perf's alone. A perf with capabilities of its own sees the kernel where
        # this process may not.
        if request.call_graph != "fp":
            return "perf"
        if native.samples_kernel(request):
            return "native"
    except (PinprofError, OSError):
        pass
    try:
        perf.check(request)
    except (PinprofError, OSError):
        return "timers" if timers.serves(request) else "native"
    return "perf"


def level(request: RecordRequest) -> str:
    """One sentence about how CPU time is recorded, where that is not all that there is."""
    if "timers" in request.collectors:
        from pinprof.collect import permission, python

        why = (
            "Perf events are not permitted here: " if permission.sampling_errno(kernel=False)
            else "Perf events may not see the kernel here: " if permission.sampling_errno()
            else "Python lines may not be read from outside the program here: " if python.unreadable(request)
            else ""
        )  # fmt: skip
        timers = "timers" if why else "Timers"
        return f"{why}{timers} inside the program sample its CPU time, and what the kernel does is estimated."
    return ""


def check(request: RecordRequest) -> None:
    """Raise when this request cannot be recorded here; writes nothing."""
    _check_launch(request)
    for part in (*chosen(request), *map(load, BESIDE)):
        part.check(request)


def _check_launch(request: RecordRequest) -> None:
    for name in request.collectors:
        if (request.delay_s or request.duration_s) and not request.pid and load(name).launches:
            problem = f"{name} starts the program itself, and records it from its start to its end."
            raise UsageError(problem, "Leave out --delay and --duration, or record with auto.", "delay")
        if request.pid and load(name).launches:
            problem = f"{name} starts the program itself, so it cannot record a running program."
            raise UsageError(problem, "Record it with auto, or start it with pinprof.", "pid")


def possible(request: RecordRequest, trouble: Trouble) -> RecordRequest:
    """The request without what cannot be recorded here, which is said; UsageError as `check` raises it."""
    _check_launch(request)
    collectors = [name for name in request.collectors if _recordable(name, request, trouble)]
    request = replace(request, collectors=tuple(collectors))
    refused = {name for name in BESIDE if name not in request.left_out and not _recordable(name, request, trouble)}
    return replace(request, left_out=request.left_out | refused)


def _recordable(name: str, request: RecordRequest, trouble: Trouble) -> bool:
    part = load(name)
    with trouble.kept(part.lost):
        part.check(request)
        return True
    return False


def leaves(request: RecordRequest) -> Sequence[str]:
    """Patterns of the capture's files that hold what the request's collectors record."""
    return [name for collector in chosen(request) for name in collector.leaves]


__all__ = ["AUTO", "COLLECTORS", "Outcome", "RecordRequest", "check", "parse_names", "possible", "resolve"]
