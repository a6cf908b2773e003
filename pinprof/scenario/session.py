"""Runs a scenario: set-up, warm-up, measured iterations, verification and clean-up, in one place for all scenarios."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from statistics import median
from typing import Any

from pinprof.base import files
from pinprof.base.errors import ScenarioError, ToolMissing, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import say
from pinprof.base.units import format_bytes, format_counted, format_ns, format_rate
from pinprof.scenario.backend import Backend
from pinprof.scenario.catalog import Scenario, load, resolve
from pinprof.scenario.context import Options, RunContext
from pinprof.scenario.recorder import SCENARIO_VARIABLE, measured
from pinprof.scenario.spec import ScenarioSpec


@dataclass(frozen=True)
class RunResult:
    """What a run of a scenario measured itself, with no tool attached."""

    spec: ScenarioSpec
    backend: str
    emulation: str
    """Empty with a GPU; else starts with `host emulation`."""
    device_name: str
    size_bytes: int
    iterations: int
    times_ns: Mapping[str, tuple[int, ...]]
    """Phase → nanoseconds in each iteration; `iteration` is the whole."""
    verified: int
    """Iterations whose every element was compared and right."""
    variant: str = ""
    """Empty when the scenario runs in one way only."""
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """What a framework said of its memory, the most of each kind."""

    @property
    def title(self) -> str:
        """Name of the scenario, with its variant."""
        return f"{self.spec.name} ({self.variant})" if self.variant else self.spec.name

    def to_text(self) -> str:
        """The result for a terminal: medians for each phase, and the call that did the work."""
        where = self.emulation or self.device_name
        iterations = format_counted(self.iterations, "iteration", "iterations")
        lines = [
            f"{self.title}: {format_bytes(self.size_bytes)} × {self.iterations} on {where}",
            f"every element verified in {self.verified} of {iterations}{'; medians:' if self.iterations > 1 else ''}",
        ]
        calls = self.spec.calls.get(self.backend, {})
        last = ("verify", "iteration")
        # A scenario may open phases that depend on its options, beside those that its spec names.
        order = dict.fromkeys([*self.spec.phases, *(name for name in self.times_ns if name not in last), *last])
        names = [name for name in order if name in self.times_ns]
        width = max(map(len, names), default=0)
        for name in names:
            middle = median(self.times_ns[name])
            times = len(self.times_ns[name]) // self.iterations
            rate = format_rate(self.size_bytes, middle) if name in ("h2d", "d2h") and times == 1 else ""
            duration = (f"{times} × " if times > 1 else "") + format_ns(middle)
            lines.append(f"  {name:<{width}}  {duration:>13}  {rate:>10}  {calls.get(name, '')}".rstrip())
        lines += [f"  {what}: {format_bytes(size_bytes)}" for what, size_bytes in self.memory_bytes.items()]
        return "\n".join(lines)


def run(name: str, options: Options) -> RunResult:
    """Run a scenario to its end; every allocation is freed and every mechanism closed also when it fails."""
    name, chosen = resolve(name, options.variant)
    scenario = load(name)
    spec, variant = scenario.spec.chosen(chosen)
    if options.threads is not None and not spec.threaded:
        raise UsageError(f"{name} has no threads of its own.", "Leave --threads out.", "threads")
    with contextlib.closing(_open_backend(spec, options)) as backend:
        ctx = RunContext(spec, options, backend, variant=variant)
        _import_needed(spec)
        with _explained(ctx):
            backend.prepare(spec.memory, ctx.size_bytes)
        with _explained(ctx), scenario.prepare(ctx) as ctx.prepared:
            _hand_over(_facts(ctx))
            for _ in range(options.warmup):
                _iterate(scenario, ctx)
            ctx.recording = True
            with measured():
                for _ in range(options.iterations):
                    _iterate(scenario, ctx)
        if ctx.memory_bytes:
            _hand_over(_facts(ctx) | {"memory_bytes": ctx.memory_bytes})
        return RunResult(
            spec=spec,
            backend=backend.name,
            emulation=_emulation(ctx),
            device_name=backend.device_name,
            size_bytes=ctx.size_bytes,
            iterations=options.iterations,
            times_ns={phase: tuple(times) for phase, times in ctx.times_ns.items()},
            verified=ctx.verified,
            variant=variant,
            memory_bytes=dict(ctx.memory_bytes),
        )


def _iterate(scenario: Scenario, ctx: RunContext) -> None:
    ctx.compared = False
    try:
        with ctx.phase("iteration"), _explained(ctx):
            scenario.iterate(ctx)
    finally:
        # What was prepared for all iterations is released with the backend.
        if ctx.prepared is None:
            ctx.backend.release()
    ctx.iteration += 1
    ctx.verified += ctx.recording and ctx.compared


@contextlib.contextmanager
def _explained(ctx: RunContext) -> Iterator[None]:
    """What the system refuses inside, as a ScenarioError."""
    try:
        yield
    except MemoryError as error:
        problem = f"{ctx.spec.name} ran out of memory at {format_bytes(ctx.size_bytes)}."
        raise ScenarioError(problem, "Give a smaller --size.", "size") from error
    except OSError as error:
        problem = f"{ctx.spec.name} could not make a system call: {error.strerror}."
        lacking = error.errno == errno.ENOSYS
        remedy = "the limits of this process (ulimit -a) and of its container."
        remedy = "Use a newer kernel, or a seccomp filter that lets it pass." if lacking else f"Check {remedy}"
        raise ScenarioError(problem, remedy, "system-call") from error


def _open_backend(spec: ScenarioSpec, options: Options) -> Backend:
    backends: Any = importlib.import_module("pinprof.workloads.backends")
    backend: Backend = backends.open_backend(options.backend, options.device)
    if backend.emulated and spec.emulation is None:
        backend.close()
        problem = f"{spec.name} needs an NVIDIA GPU: it can't run on the host backend."
        raise ScenarioError(problem, "Run it on a machine with a GPU.", "no-gpu")
    return backend


def _import_needed(spec: ScenarioSpec) -> None:
    """Import what the scenario needs, before anything is measured; ToolMissing when it is not installed."""
    if not spec.needs:
        return
    try:
        importlib.import_module(spec.needs)
    except ImportError as error:
        problem = f"{spec.name} needs the Python package {spec.needs}, which cannot be imported ({error})."
        raise ToolMissing(
            problem, f"Install it with: pip install 'pinprof[{spec.needs}]'.", "python-package"
        ) from error


def _emulation(ctx: RunContext) -> str:
    return f"host emulation: {ctx.spec.emulation}" if ctx.backend.emulated else ""


def _facts(ctx: RunContext) -> dict[str, Any]:
    """`scenario` of the capture's manifest."""
    return {
        "name": ctx.spec.name,
        "family": ctx.spec.family,
        "summary": ctx.spec.summary,
        "backend": ctx.backend.name,
        "device_name": ctx.backend.device_name,
        "emulation": _emulation(ctx),
        "parameters": {
            "size_bytes": ctx.size_bytes,
            "iterations": ctx.options.iterations,
            "warmup": ctx.options.warmup,
            "device": ctx.options.device,
            **({"variant": ctx.variant} if ctx.variant else {}),
            **({"threads": ctx.threads} if ctx.spec.threaded else {}),
        },
        "phases": list(ctx.spec.phases),
        "calls": dict(ctx.spec.calls.get(ctx.backend.name, {})),
    }


def _hand_over(facts: Mapping[str, Any]) -> bool:
    """Leave the facts where the recorder asked for them, before the first iteration: a crash keeps them.

    Whether they were written.
    """
    path = os.environ.get(SCENARIO_VARIABLE)
    if not path:
        return False
    try:
        files.written(Path(path), json.dumps(facts))
    except OSError as error:
        say(f"pinprof: the scenario's facts were not recorded: {error.strerror}: {path}", error=True)
        return False
    return True
