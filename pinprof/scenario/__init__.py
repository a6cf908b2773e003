"""What a scenario is and how one runs; the only part of pinprof that scenarios import.

    spec.py        ScenarioSpec, Variant
    catalog.py     finding and loading scenarios
    backend.py     what a scenario asks of the machine: kinds of memory, copies, the kernel
    ranges.py      phase(): an NVTX range and, at the same instants, a line of ranges.jsonl
    recorder.py    measured(): tells the recorder which part of the run to sample
    context.py     Options; RunContext, what an iteration works with
    session.py     run() → RunResult: set-up, warm-up, measured iterations, clean-up
    __main__.py    `python -m pinprof.scenario NAME …`, the process that gets recorded

Any Python program recorded with pinprof can mark its own phases:

    from pinprof.scenario import phase

    with phase("load batch"):
        ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinprof.scenario.backend import (
        Advice,
        Backend,
        Comparable,
        DeviceMemory,
        Gpu,
        HostFlag,
        HostMemory,
        MemoryKind,
        Place,
        Stream,
        StreamEvent,
    )
    from pinprof.scenario.catalog import Scenario, load, names, resolve, specs
    from pinprof.scenario.context import BACKENDS, Options, RunContext
    from pinprof.scenario.ranges import DOMAIN, RANGES_VARIABLE, OpenPhase, phase
    from pinprof.scenario.recorder import CONTROL_VARIABLE, SCENARIO_VARIABLE, measured
    from pinprof.scenario.session import RunResult, run
    from pinprof.scenario.spec import ScenarioSpec, Variant, paragraphs

_PLACES = {
    "backend": "Advice Backend Comparable DeviceMemory Gpu HostFlag HostMemory MemoryKind Place Stream StreamEvent",
    "catalog": "Scenario load names resolve specs",
    "context": "BACKENDS Options RunContext",
    "ranges": "DOMAIN OpenPhase RANGES_VARIABLE phase",
    "recorder": "CONTROL_VARIABLE SCENARIO_VARIABLE measured",
    "session": "RunResult run",
    "spec": "ScenarioSpec Variant paragraphs",
}
"""Module → what of it is offered here. It is imported when it is asked for: who marks phases needs no scenarios."""
_MODULE = {name: module for module, offered in _PLACES.items() for name in offered.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


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
    "Gpu",
    "HostFlag",
    "HostMemory",
    "MemoryKind",
    "OpenPhase",
    "Options",
    "Place",
    "RunContext",
    "RunResult",
    "Scenario",
    "ScenarioSpec",
    "Stream",
    "StreamEvent",
    "Variant",
    "load",
    "measured",
    "names",
    "paragraphs",
    "phase",
    "resolve",
    "run",
    "specs",
]
