"""What differs around the program: machine, settings, how it was recorded, and how much of it was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from statistics import median
from typing import Any

import numpy as np

from pinprof.analyze.rules.needs import SEES_KERNEL
from pinprof.analyze.rules.rule import unmet
from pinprof.analyze.run import Run
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import clipped
from pinprof.base.units import format_bytes, format_share
from pinprof.compare.frames import library_key
from pinprof.compare.results import Surrounding
from pinprof.data.model import NO_NODE, Capture, clock_event
from pinprof.data.rates import Rates

_APART = 0.05
"""Shares are not compared where more of the time is in libraries that have names on one side alone."""
_NAMED_APART = 0.5
"""A library has names on one side alone where the parts of its time with names differ by more."""
SLOWER, _MEASURES = 0.10, 5
"""Costs of memory operations that differ by more are named, where as many as this were measured."""
_LONGEST = 120
"""Letters of a command."""
SYMBOLS = "functions with names"
SAMPLING = "samples per second"
RECORDERS = "recorders"


@dataclass(frozen=True)
class _Fact:
    """One thing around a program."""

    what: str
    of: Callable[[Run], str]
    """Empty where the recording does not say: what is not known differs from nothing."""
    effect: str = ""
    refuses: bool = False


def _host(key: str, shown: Callable[[Any], str] = str) -> Callable[[Run], str]:
    def value(analysis: Run) -> str:
        found = analysis.capture.manifest.host.get(key)
        return "" if found is None or found == "" else shown(found)

    return value


def _gpus(analysis: Run) -> str:
    gpus = analysis.capture.manifest.host.get("gpus")
    names = [str(gpu.get("name", "")) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    return ", ".join(names) if names or gpus is None else "none" if isinstance(gpus, list) else ""


def _option(*keys: str) -> Callable[[Run], str]:
    """The options of the collector that samples."""

    def value(analysis: Run) -> str:
        for collector in analysis.capture.manifest.collectors:
            options = collector.get("options")
            if isinstance(options, Mapping) and any(key in options for key in keys):
                return ", ".join(str(options[key]) for key in keys if options.get(key) is not None)
        return ""

    return value


def _collectors(analysis: Run) -> str:
    return ", ".join(str(one.get("name")) for one in analysis.capture.manifest.collectors if one.get("name"))


def _yes(analysis: Run, answer: bool) -> str:
    """Only samples show whether it is so."""
    return ("yes" if answer else "no") if len(analysis.capture.samples) else ""


def _sees_kernel(analysis: Run) -> str:
    return _yes(analysis, unmet(SEES_KERNEL, analysis.view) is None)


def _sees_waits(analysis: Run) -> str:
    return _yes(analysis, any(event.spans for event in analysis.capture.events))


def _sees_python(analysis: Run) -> str:
    frames = analysis.capture.stacks.frames
    interprets = any("python" in dso.name for dso in frames.dsos)
    return _yes(analysis, any(dso.kind == "python" for dso in frames.dsos)) if interprets else ""


def _sees_all(analysis: Run) -> str:
    return _option("system_wide")(analysis).replace("True", "the whole machine").replace("False", "the program")


def _rate(analysis: Run) -> str:
    """Sampling of the clock: as the event says it."""
    clock = clock_event(analysis.capture.events)
    if clock is None:
        return ""
    event = analysis.capture.events[clock]
    return str(event.freq_hz) if event.freq_hz else f"one each {event.period:,} ns" if event.period else ""


def _version(analysis: Run) -> str:
    return analysis.capture.manifest.tool_version


def _status(analysis: Run) -> str:
    status = analysis.capture.manifest.outcome.get("exit_status")
    return "" if status is None else str(status)


def _command(analysis: Run) -> str:
    """The command line without the program's folder."""
    command = analysis.capture.manifest.command
    words = " ".join((PurePath(command[0]).name, *command[1:])) if command else ""
    return clipped(words, _LONGEST)


FACTS = (
    _Fact("command", _command),
    _Fact("processor", _host("cpu"), "A different CPU takes different times for the same work."),
    _Fact("processors", _host("cores_online")),
    _Fact("memory", _host("memory_bytes", format_bytes)),
    _Fact("virtual machine", _host("virtual_machine")),
    _Fact("kernel", _host("kernel"), "The costs of faults, pins and copies may differ between kernels."),
    _Fact("huge pages", _host("thp_enabled"), "Memory in huge pages has fewer but more expensive faults."),
    _Fact("huge pages: defragmentation", _host("thp_defrag")),
    _Fact("huge pages: shared memory", _host("thp_shmem")),
    _Fact("zeroing of allocations", _host("init_on_alloc")),
    _Fact("NUMA nodes", _host("numa_nodes"), "Memory of a remote node is slower."),
    _Fact("memory limit", _host("memory_limit_bytes"), "With less memory, the kernel has to free some more often."),
    _Fact("NUMA balancing", _host("numa_balancing")),
    _Fact("GPU", _gpus, "A different GPU takes different times for the same work."),
    _Fact("GPU driver", _host("nvidia_driver"), "The costs of CUDA calls may differ between drivers."),
    _Fact("CUDA", _host("cuda_driver")),
    _Fact("pinprof", _version),
    _Fact(RECORDERS, _collectors, "Different recorders have different overhead."),
    _Fact(SAMPLING, _rate, "More samples mean more overhead: differences below 3 % may come from sampling."),
    _Fact("callers found by", _option("call_graph"), "The depth of stacks differs."),
    _Fact("samples of", _sees_all, "Only the program's own code can be compared.", refuses=True),
    _Fact("kernel seen", _sees_kernel, "On one side, time in the kernel counts for its callers.", refuses=True),
    _Fact("waits seen", _sees_waits, "One side lacks time off the CPU.", refuses=True),
    _Fact("Python's functions seen", _sees_python, "One side lacks Python lines."),
    _Fact("exit status", _status, "A failed run does different work."),
)
"""In the order in which they are shown."""


def surroundings_of(analysis: Run) -> dict[str, str]:
    """What → how it is around one run; what the recording does not say is absent."""
    return {fact.what: value for fact in FACTS if (value := fact.of(analysis))}


def named_parts(capture: Capture) -> dict[str, tuple[float, float]]:
    """Library → the part of the samples whose innermost function lies in it and has a name, and in it at all."""
    samples, stacks = capture.samples, capture.stacks
    clock = clock_event(capture.events)
    if not len(samples) or not len(stacks):
        return {}
    rows = (samples.event == (clock if clock is not None else int(samples.event[0]))) & (samples.stack != NO_NODE)
    frame, weight = stacks.frame[samples.stack[rows]], samples.weight[rows].astype(np.float64)
    frames, total = stacks.frames, max(float(weight.sum()), 1.0)
    named = np.array([not symbol.startswith(("[", "0x")) for symbol in frames.function], np.bool_)[frame]
    dso = frames.dso[frame]
    whole = np.bincount(dso, weights=weight, minlength=len(frames.dsos))
    part = np.bincount(dso[named], weights=weight[named], minlength=len(frames.dsos))
    found: dict[str, tuple[float, float]] = {}
    for number, library in enumerate(map(library_key, frames.dsos)):
        if whole[number]:
            old = found.get(library, (0.0, 0.0))
            found[library] = (old[0] + part[number] / total, old[1] + whole[number] / total)
    return found


def coverage(
    before: Sequence[Mapping[str, tuple[float, float]]], after: Sequence[Mapping[str, tuple[float, float]]]
) -> tuple[Surrounding, ...]:
    """Libraries whose functions have names on one side alone, where enough of the time is spent in them."""
    sides = [_mean(side) for side in (before, after)]
    both = sides[0].keys() & sides[1].keys()
    apart = [name for name in both if abs(_share(sides[0][name]) - _share(sides[1][name])) > _NAMED_APART]
    lost = [sum(side[name][1] for name in apart) for side in sides]
    if max(lost, default=0.0) <= _APART:
        return ()
    heaviest = max(apart, key=lambda name: max(side[name][1] for side in sides))
    shown = [format_share(_share(side[heaviest]), 1) for side in sides]
    what = f"{SYMBOLS}, of {heaviest or 'the program'}"
    return (Surrounding(what, shown[0], shown[1], "On that side, time in functions without names has no owner.", True),)


def _mean(side: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    names = {name for run in side for name in run}
    parts = {name: [run.get(name, (0.0, 0.0)) for run in side] for name in names}
    return {name: (sum(one for one, _ in rows) / len(side), sum(all_ for _, all_ in rows) / len(side))
            for name, rows in parts.items()}  # fmt: skip


def _share(part: tuple[float, float]) -> float:
    return part[0] / part[1] if part[1] else 0.0


def differing(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> tuple[Surrounding, ...]:
    """What is not the same in all runs of both sides, in the order of `FACTS`."""
    found = []
    for fact in FACTS:
        sides = [sorted({run[fact.what] for run in side if fact.what in run}) for side in (before, after)]
        if all(sides) and len(set(sides[0] + sides[1])) > 1:
            old, new = (", ".join(side) for side in sides)
            found.append(Surrounding(fact.what, old, new, fact.effect, fact.refuses and old != new))
    return tuple(found)


def slower(before: Sequence[Rates | None], after: Sequence[Rates | None]) -> tuple[Surrounding, ...]:
    """Whether memory operations in general cost more on one side, where the machine was measured beside every run.

    By the middle of all of them: single ones differ from one measurement to the next.
    """
    sides = [_costs(side) for side in (before, after)]
    both = sides[0].keys() & sides[1].keys()
    if len(both) < _MEASURES:
        return ()
    middle = math.exp(median(math.log(sides[1][key] / sides[0][key]) for key in both))
    if max(middle, 1 / middle) < 1 + SLOWER:
        return ()
    effect = f"The speed of the machine differed (median of {len(both)} measures)."
    return (Surrounding("cost of memory operations", "1 ×", f"{middle:.2f} ×", effect),)


def _costs(side: Sequence[Rates | None]) -> dict[tuple[str, int], float]:
    """(measure, size) → its cost in ns, the middle of the runs; of what was measured beside every run alone."""
    costs: dict[tuple[str, int], list[float]] = {}
    for rate in (rate for rates in side if rates for rate in rates.rates):
        if rate.median_ns > 0:
            costs.setdefault((rate.measure, rate.size_bytes), []).append(rate.median_ns)
    return {key: median(values) for key, values in costs.items() if len(values) == len(side)}
