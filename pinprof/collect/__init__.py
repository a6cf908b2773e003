"""Recording: runs a program under one recorder or several and writes what they saw into a capture directory.

    base.py         RecordRequest, Outcome; the program, the recorders beside it, signals, clean-up
    recording.py    one run, start to end
    control.py      perf's control FIFOs
    native/         pinprof's own collector
    perf.py         Linux perf
    nsys.py         Nsight Systems
    nsys_launch.py  the program as nsys launches it: its own streams, status and place
    nsys_shim.py    what nsys starts, and what becomes the program
    nsys_keeper.py  ends what nsys leaves behind
    nsys_export.py  the export without what is private
    python.py       Python functions and lines: CPython's perf trampoline, frames read from outside
    python_frames/  the process that reads them
    limits.py       values that no recorder of samples can mean
    permission.py   whether the kernel lets us sample
    kallsyms.py     the kernel's symbols
    attach.py       a program that runs already
    memory.py       memory over time
    counters.py     exact counters around a run
    host.py         machine facts for the manifest
    checks.py       what `pinprof doctor` looks at

Only `pinprof.cli` imports this; what it leaves behind is the capture directory (store.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from pinprof.collect.base import Outcome, RecordRequest
from pinprof.errors import PinprofError, UsageError
from pinprof.store import CaptureWriter

COLLECTORS = {
    "native": "CPU stacks, page faults and waits, by pinprof itself",
    "perf": "the same by Linux perf",
    "nsys": "CUDA calls, copies, migrations, kernels and NVTX ranges, by Nsight Systems",
}
"""Collector name → what it records; each lives in `pinprof.collect.NAME` and is imported when asked for."""

AUTO = "auto"
SAMPLERS = ("native", "perf")
"""Those that sample the program; one of them at a time."""


class Collector(Protocol):
    """What a collector's module provides besides its tool."""

    def check(self, request: RecordRequest) -> None:
        """Raise ToolMissing, CollectError or UsageError when this request cannot be recorded; writes nothing."""


def parse_names(text: str) -> tuple[str, ...]:
    """The collectors of a comma list, each once, `auto` among them; UsageError when they cannot be meant."""
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    known = (AUTO, *COLLECTORS)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"There is no collector {unknown[0]!r}." if unknown else f"{text!r} names no collector."
        raise UsageError(problem, f"Choose from: {', '.join(known)}; several as native,nsys.", "collector")
    if len({AUTO, *SAMPLERS} & set(names)) > 1:
        problem = f"{text!r} names two collectors of the same samples."
        raise UsageError(problem, "Choose one of native and perf; auto chooses by itself.", "collector")
    return names


def resolve(names: Sequence[str], request: RecordRequest) -> tuple[str, ...]:
    """The same names with `auto` replaced: the native collector where it can do it, else perf where that can do more.

    Raises nothing: when neither can record, `check` of the native collector says why.
    """
    return tuple(_sampler(request) if name == AUTO else name for name in names)


def _sampler(request: RecordRequest) -> str:
    from pinprof.collect import native, perf

    try:
        # Copied stacks and branch records are perf's alone. A perf with capabilities of its own sees the kernel where
        # this process may not.
        if request.call_graph != "fp":
            return "perf"
        if native.samples_kernel(request):
            return "native"
    except PinprofError:
        pass
    try:
        perf.check(request)
    except PinprofError:
        return "native"
    return "perf"


def check(names: Sequence[str], request: RecordRequest) -> None:
    """Raise when one of the collectors cannot record this request here; writes nothing."""
    from pinprof.collect import python

    for name in names:
        module: Collector = importlib.import_module(f"pinprof.collect.{name}")
        module.check(request)
    python.plan(names, request)


def record(names: Sequence[str], request: RecordRequest, writer: CaptureWriter) -> Outcome:
    """Run the program to its end and leave what was recorded in `writer.path`."""
    from pinprof.collect import recording

    return recording.record(names, request, writer)


__all__ = ["AUTO", "COLLECTORS", "Collector", "Outcome", "RecordRequest", "check", "parse_names", "record", "resolve"]
