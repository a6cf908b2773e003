"""Which measures at which sizes, and how often, within the time that is allowed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pinprof.base.errors import ScenarioError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted
from pinprof.bench.measures import TRIALS, names, trial_of
from pinprof.data import rates

SMALLEST_BYTES, LARGEST_BYTES = 64 << 10, 4 << 30
_STEP = 4
_QUICK_BYTES = (1 << 20, 16 << 20, 256 << 20)
_SAFE = 0.5
"""Share of the free memory that everything a measure holds may take, unless larger sizes are asked for."""
_USABLE = 0.9
"""Share that it may take when asked for: the same as for scenarios."""
_LONG_S = 5.0
"""A value that takes longer gets no warm-up."""
_MOST_AT_ONCE = 3
"""Buffers of its size that the greediest measure holds in host memory; with the host backend, the device's too."""


@dataclass(frozen=True)
class BenchRequest:
    """What was asked for on the command line; UsageError for values that cannot be meant."""

    backend: str = "auto"
    device: int = 0
    only: tuple[str, ...] = ()
    """Names or families (`pin`) of measures; empty is all."""
    size_min: int | None = None
    size_max: int | None = None
    quick: bool = False
    time_s: float | None = None
    """How long it may take; None is the default of quick or thorough."""

    def __post_init__(self) -> None:
        page_bytes = os.sysconf("SC_PAGESIZE")
        for option, size in (("--size-min", self.size_min), ("--size-max", self.size_max)):
            if size is not None and size < page_bytes:
                given = format_counted(size, "byte", "bytes")
                problem = f"{option} {given} is less than a page of {format_bytes(page_bytes)}."
                raise UsageError(problem, f"Give at least a page, for example {option} 64KiB.", "size")
        if self.size_min is not None and self.size_max is not None and self.size_min > self.size_max:
            problem = f"--size-min {format_bytes(self.size_min)} is above --size-max {format_bytes(self.size_max)}."
            raise UsageError(problem, "Give the smaller one to --size-min.", "size")
        if self.time_s is not None and self.time_s < 1:
            raise UsageError("--time is less than a second.", "Give --time 5s or more.", "duration")
        chosen(self.only)

    @property
    def budget_s(self) -> float:
        """Seconds until the last process shall have started to come to an end."""
        return self.time_s or (100.0 if self.quick else 600.0)


@dataclass(frozen=True)
class LeftOut:
    """What was not measured, and why."""

    measure: str
    size_bytes: int | None
    """None for all sizes."""
    reason: str


@dataclass
class Job:
    """One measure at one size, and how often it is called."""

    measure: str
    size_bytes: int
    loops: int = 0
    """Calls for each value; 0 until it is calibrated."""
    prepare_s: float = 0.0
    call_s: float = 0.0
    """Seconds for a call with everything around it that is not timed."""
    values: int = 1
    warmups: int = 1
    runs: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the benchmark."""
        return f"{self.measure} {format_bytes(self.size_bytes).replace(' ', '')}" if self.size_bytes else self.measure

    @property
    def cost_s(self) -> float:
        """Seconds that it takes in one process."""
        return self.prepare_s + (self.warmups + self.values) * self.loops * self.call_s


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The measures of this machine that have these names or belong to these families; UsageError for unknown ones."""
    known = names()
    if not only:
        return known
    wanted: dict[str, None] = {}
    for name in only:
        matches = [measure for measure in known if name in (measure, measure.split(".")[0])]
        if not matches and rates.is_measure(name):
            matches = [name]
        if not matches:
            near = difflib.get_close_matches(name, [*known, *TRIALS], 1)
            families = ", ".join(dict.fromkeys(known.split(".")[0] for known in TRIALS))
            hint = f"Did you mean {near[0]}?" if near else f"The families are {families}."
            raise UsageError(f"There is no measure {name!r}.", hint, "measure")
        wanted.update(dict.fromkeys(matches))
    # Another number of threads than this machine suggests is as good.
    return (
        *(measure for measure in known if measure in wanted),
        *(measure for measure in wanted if measure not in known),
    )


def plan(request: BenchRequest, facts: Mapping[str, Any]) -> tuple[list[Job], list[LeftOut]]:
    """The jobs, small sizes first, and what is left out; ScenarioError when nothing remains."""
    left_out: list[LeftOut] = []
    wanted = []
    for measure in chosen(request.only):
        if facts["emulated"] and trial_of(measure)[0].emulation is None:
            left_out.append(LeftOut(measure, None, "only a GPU can do it"))
        else:
            wanted.append(measure)
    if not wanted:
        problem = f"None of these can be measured without a GPU: {', '.join(request.only)}."
        raise ScenarioError(problem, "Run it on a machine with a GPU, or choose other measures.", "no-gpu")
    jobs = []
    sizes = _sizes(request, facts, left_out)
    for size in sizes:
        for measure in wanted:
            trial, _ = trial_of(measure)
            if trial.one_size:
                continue
            if size < trial.smallest_bytes:
                left_out.append(LeftOut(measure, size, "smaller than a huge page"))
                continue
            jobs.append(Job(measure, size))
    jobs = [*(Job(measure, 0) for measure in wanted if trial_of(measure)[0].one_size), *jobs]
    if not jobs:
        problem = "None of these can be measured at these sizes."
        raise ScenarioError(problem, "Give a larger --size-max: a huge page has 2 MiB.", "size")
    return jobs, left_out


def _sizes(request: BenchRequest, facts: Mapping[str, Any], left_out: list[LeftOut]) -> list[int]:
    """Bytes, ascending; ScenarioError for a --size-max or --size-min that no measure could have."""
    room = [("host memory", int(facts["free_host_bytes"]), _MOST_AT_ONCE)]
    if facts["free_device_bytes"] is not None:
        room.append((f"memory of {facts['device_name']}", int(facts["free_device_bytes"]), 1))
    for option, size in (("--size-min", request.size_min), ("--size-max", request.size_max)):
        for what, free, _ in room:
            if size is not None and size > _USABLE * free:
                problem = f"{option} is {format_bytes(size)}, and {format_bytes(free)} of {what} are free."
                raise ScenarioError(problem, "Give a smaller size, or free memory.", "size")
    smallest = request.size_min or min(
        _QUICK_BYTES[0] if request.quick else SMALLEST_BYTES, request.size_max or 1 << 62
    )
    largest = request.size_max or max(_QUICK_BYTES[-1] if request.quick else LARGEST_BYTES, smallest)
    sizes = _ladder(smallest, largest, 16 if request.quick else _STEP)
    share = _USABLE if request.size_max else _SAFE
    safe = min(share * free / copies for _, free, copies in room)
    for size in sizes:
        if size > safe:
            figures = "; ".join(f"{format_bytes(free)} of {what} are free" for what, free, _ in room)
            left_out.append(LeftOut("", size, f"above what is safe: {figures}"))
    fitting = [size for size in sizes if size <= safe]
    if not fitting:
        raise ScenarioError(
            f"There is too little memory to measure even {format_bytes(sizes[0])}: "
            f"{left_out[-1].reason.partition(': ')[2]}.",
            "Free memory, or give a smaller --size-min.",
            "size",
        )
    return fitting


def _ladder(smallest: int, largest: int, step: int) -> list[int]:
    """Sizes in equal ratios, whole pages, both ends included."""
    page_bytes = os.sysconf("SC_PAGESIZE")
    sizes = []
    size = smallest
    while size < largest:
        sizes.append(size // page_bytes * page_bytes)
        size *= step
    return sorted({*sizes, largest // page_bytes * page_bytes})


def set_values(jobs: Sequence[Job], left_s: float, *, quick: bool) -> tuple[list[Job], int]:
    """Give each job its number of values; returns who finds no room in the seconds left, and processes that do.

    Cheap jobs get all values and a warm-up; dear ones fewer. Two processes are better than more values in one; the
    largest sizes go when not even one value in one process fits.
    """
    most, slot_s = (3, 0.4) if quick else (5, 4.0)
    wanted = []
    for job in jobs:
        value_s = max(job.loops * job.call_s, 1e-9)
        # The first call of a process may find memory that nobody had before it, and costs more than all others.
        job.warmups = int(value_s <= _LONG_S)
        wanted.append(min(max(int(slot_s / value_s) - job.warmups, 1), most))
    for processes, fewer, warm in ((2, most, 1), (2, 2, 1), (2, 1, 1), (1, 2, 1), (1, 1, 1), (1, 1, 0)):
        for job, values in zip(jobs, wanted, strict=True):
            job.values, job.warmups = min(values, fewer), min(job.warmups, warm)
        if processes * sum(job.cost_s for job in jobs) <= left_s:
            return [], processes
    remaining = sorted(jobs, key=lambda job: job.size_bytes)
    dropped = []
    while len(remaining) > 1 and sum(job.cost_s for job in remaining) > left_s:
        dropped.append(remaining.pop())
    return dropped, 1
