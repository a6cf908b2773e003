"""What a recording is asked for, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal

from pinprof.base.errors import CollectError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.pace import USUAL_LIMITS, SizeLimits

RING_VARIABLE = "PINPROF_RING"
"""Environment variable: set where the last seconds alone are kept of what the agent writes (inside/own_file.h)."""


@dataclass(frozen=True)
class RecordRequest:
    """What to record and how."""

    command: tuple[str, ...]
    collectors: tuple[str, ...] = ("native",)
    """Their names; `auto` until `resolve` has chosen."""
    pid: int = 0
    """Record this process, which runs already, instead of starting the command, which then is its command line."""
    own_process: bool = False
    """Record the process that asks, in place of the command."""
    duration_s: float = 0.0
    """How long the program is recorded; 0: until it ends or the user says so."""
    delay_s: float = 0.0
    """How long to wait before the recording begins."""
    region_only: bool = False
    """The program switches sampling on and off itself (scenario.measured); else all of it is sampled."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the program's environment; never stored."""
    frequency: int = 999
    """CPU samples per second and thread."""
    call_graph: str = "fp"
    """`fp`, `dwarf` or `lbr`."""
    fault_period: int = 64
    """Page faults for each sample."""
    off_cpu: bool = True
    """Record why threads leave the processors, and for how long."""
    cuda_calls: bool = True
    """Record when CUDA's functions are entered and left, where that can be done."""
    inside: str = "auto"
    """Whether they are recorded from inside the program (inside.py), for which no probes are opened: `auto`, where that
    can be; `on` or `off`."""
    probe_budget: float = 3.0
    """What tracing these calls may cost the program, in percent of its time; infinite: whatever it costs."""
    gpu: str = "auto"
    """What of the GPU's work is recorded where nsys does not: `auto`, as much as costs the program little; `windows`,
    beyond that a fair sample; `cupti`, all of it, whatever it costs; `uvm`, as auto and all of managed memory; or `off`
    (cupti/, uvm/)."""
    limits: SizeLimits = USUAL_LIMITS
    """How much of samples and memory over time may be written; beyond it they are thinned (pace.py)."""
    system_wide: bool = False
    python: str = "off"
    """How Python functions are seen: `auto`, `lines`, `py-spy`, `trampoline`, `both` or `off` (python.py)."""
    python_rate: int | None = None
    """Looks at Python's frames a second; None: as many as the reader is made for."""
    memory_pause_s: float = 0.1
    """Between two samples of memory over time, at least."""
    processors: float = float("inf")
    """Those of this machine for each of several recordings that go on together: these share what recorders may take."""
    left_out: frozenset[str] = frozenset()
    """What takes no part beside the collectors, because it cannot record here or is not wanted."""
    keep_report: bool = False
    """Keep nsys's own report, which holds the program's environment and the machine's process list."""

    def sampler_options(self, **decided: bool) -> dict[str, Any]:
        """`options` of a sampler in the manifest, with what it decided by itself."""
        asked = {name: getattr(self, name) for name in ("frequency", "call_graph", "fault_period")}
        return asked | decided | {"system_wide": self.system_wide, "region_only": self.region_only}


@dataclass(frozen=True)
class Outcome:
    """How a recording ended."""

    state: Literal["complete", "interrupted", "failed"]
    """`failed`: the recorder ended before the program did."""
    exit_status: int
    """The program's own, as a shell reports it: 128 + n for a program that signal n ended."""
    started_utc: str
    duration_ns: int
    """From the program's start to its end."""
    resources: Mapping[str, int]
    """getrusage(2) of the program and its children: CPU nanoseconds, peak resident bytes, faults, switches."""
    counters: Mapping[str, int]
    """What the machine's counters grew by meanwhile (counters.py)."""
    collectors: tuple[Mapping[str, Any], ...]
    """`name, version, command, options` of each tool."""
    notes: tuple[str, ...] = ()
    failure: CollectError | None = None
    """Why the recorder ended early."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """What of the program was not recorded, by kind."""
    recorded_ns: tuple[int, ...] = ()
    """From when to when, on CLOCK_MONOTONIC, where that is a part of the program's run that was asked for."""

    def to_manifest(self) -> dict[str, Any]:
        """`outcome` of the capture's manifest."""
        facts = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        del facts["collectors"], facts["failure"]
        for name in ("recorded_ns", "incomplete"):
            if not facts[name]:
                del facts[name]
        if self.incomplete:
            facts["incomplete"] = dict(self.incomplete)
        if self.failure:
            facts["notes"] = (*self.notes, str(self.failure))
        return facts
