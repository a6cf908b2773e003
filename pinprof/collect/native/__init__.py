"""The native collector: perf_event_open(2) from Python, records straight from the kernel's rings into perf.data.

    perf_event.py   the system call, its structure and ioctls
    events.py       which events are opened
    ring.py         reading a ring in place
    perf_file.py    the file
    existing.py     records of what existed before: processes, mappings, the kernel
    opened.py       the events, open on every CPU
    unwinding.py    complete stacks on the way there; batches.py: sizes of batched calls
    thinning.py     fewer records with the same sums; short_lived.py: of threads that end soon
    bounded.py      how many of them, so that the file keeps to its size (../pace.py)
    sampler.py      opens, reads, writes; a process of its own (`python -m pinprof.collect.native`)
    attached.py     that process as a recording tool
    tracefs.py      definitions of probes on functions
    probing.py      the events of probes while they are recorded, and what they may cost
    wakeups.py      who wakes the program's threads, and what recording that may cost
    calls.py        a second such process, which records calls of CUDA's functions, as a tool

It needs the standard library only, and no compiler. What it cannot do, copying stacks and reading branch records, is
left to perf.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.base.errors import UsageError
from pinprof.collect.collector import SAMPLES_LOST, Collector, Setup, Tool
from pinprof.collect.request import RecordRequest
from pinprof.streams.store import PERF_DATA


def check(request: RecordRequest) -> None:
    """Raise before anything is written when this request cannot be recorded here."""
    from pinprof.collect import permission
    from pinprof.collect.limits import check_request

    check_request(request)
    if request.call_graph != "fp":
        raise UsageError(
            f"The native collector does not record --call-graph {request.call_graph}.",
            "Record with perf for that (`pinprof run … --record perf`, `pinprof record --with perf`).",
            "call-graph",
        )
    kernel = samples_kernel(request)
    if request.pid and not request.system_wide:
        permission.require_process(request.pid, kernel=kernel)


def samples_kernel(request: RecordRequest) -> bool:
    """Whether the kernel's part of the program may be sampled; CollectError when not even its own code may."""
    from pinprof.collect import permission

    number = permission.sampling_errno(system_wide=request.system_wide)
    if not number:
        return True
    if request.system_wide:
        raise permission.refusal(number, system_wide=True)
    number = permission.sampling_errno(kernel=False)
    if number:
        raise permission.refusal(number, system_wide=False, user=True)
    return False


def _join(setup: Setup) -> Sequence[Tool]:
    from pinprof.collect.native.attached import AttachedNative

    return [AttachedNative(setup, kernel=samples_kernel(setup.request))]


COLLECTOR = Collector(_join, check, samples=True, leaves=(PERF_DATA,), forks=True, lost=SAMPLES_LOST)
