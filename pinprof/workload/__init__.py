"""What a scenario is and how one runs; the only part of pinprof that scenarios import.

    spec.py        WorkloadSpec, Variant
    catalog.py     finding and loading scenarios
    backend.py     what a scenario asks of the machine: kinds of memory, copies, the kernel
    ranges.py      phase(): an NVTX range and, at the same instants, a line of ranges.jsonl
    recorder.py    measured(): tells the recorder which part of the run to sample
    context.py     Options; RunContext, what an iteration works with
    traffic.py     counts what an iteration allocates and copies, in the warm-up
    session.py     run() → RunResult: set-up, warm-up, measured iterations, clean-up
    __main__.py    `python -m pinprof.workload NAME …`, the process that gets recorded

Any Python program recorded with pinprof can mark its own phases:

    from pinprof.workload import phase

    with phase("load batch"):
        ...
"""

from __future__ import annotations

from pinprof.workload.backend import (
    Advice,
    Backend,
    Comparable,
    DeviceMemory,
    Event,
    Gpu,
    HostFlag,
    HostMemory,
    MemoryKind,
    Place,
    Stream,
)
from pinprof.workload.catalog import Scenario, load, names, resolve, specs
from pinprof.workload.context import BACKENDS, Options, RunContext
from pinprof.workload.ranges import DOMAIN, RANGES_VARIABLE, Phase, phase
from pinprof.workload.recorder import CONTROL_VARIABLE, measured
from pinprof.workload.session import SCENARIO_VARIABLE, RunResult, run
from pinprof.workload.spec import Variant, WorkloadSpec, paragraphs

__all__ = [
    "BACKENDS",
    "CONTROL_VARIABLE",
    "DOMAIN",
    "RANGES_VARIABLE",
    "SCENARIO_VARIABLE",
    "Advice",
    "Backend",
    "Comparable",
    "DeviceMemory",
    "Event",
    "Gpu",
    "HostFlag",
    "HostMemory",
    "MemoryKind",
    "Options",
    "Phase",
    "Place",
    "RunContext",
    "RunResult",
    "Scenario",
    "Stream",
    "Variant",
    "WorkloadSpec",
    "load",
    "measured",
    "names",
    "paragraphs",
    "phase",
    "resolve",
    "run",
    "specs",
]
