"""What it took to get pinned memory: the curve of `prefault` by threads, and what `prefault` and `register` show."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pinprof.analyze.costs.results import GIB, PinningCurve, PinningTime, threads_text
from pinprof.analyze.ranges.iterations import ITERATION
from pinprof.analyze.results import EventResult, RangeResult, main_event
from pinprof.model import Capture
from pinprof.units import format_ns, format_share

BASELINE = "malloc_host"
"""The phase that asks CUDA for as much pinned memory in one call."""
_THREADS = re.compile(r"([1-9][0-9]{0,5}) threads?")
NOTHING = 0.005
"""Shares of a call below this are told as none of it."""
_CREATING = ("fault.*", "uffd.*")


def pinning_curve(capture: Capture, ranges: tuple[RangeResult, ...]) -> PinningCurve | None:
    """The curve of a capture of `prefault --variant curve`; None for any other."""
    scenario, size = capture.manifest.scenario, _size(capture)
    baseline = next((entry for entry in ranges if entry.path == (ITERATION, BASELINE)), None)
    if scenario.get("name") != "prefault" or baseline is None or not size:
        return None
    found = [
        (int(match[1]), entry)
        for entry in ranges
        if len(entry.path) == 2 and entry.path[0] == ITERATION and (match := _THREADS.fullmatch(entry.name))
    ]
    if not found:
        return None
    points = tuple(_time(threads, entry) for threads, entry in sorted(found, key=lambda item: item[0]))
    return PinningCurve(size, points, _time(0, baseline), _call(capture, BASELINE))


def pinning_headline(
    capture: Capture,
    events: tuple[EventResult, ...],
    ranges: tuple[RangeResult, ...],
    curve: PinningCurve | None,
    *,
    sees_kernel: bool = True,
) -> str | None:
    """The sentence of the scenarios `prefault` and `register`, which are about getting pinned memory; None else.

    What a call spends its time on is told only where samples see the kernel.
    """
    name, size = capture.manifest.scenario.get("name"), _size(capture)
    phases = {entry.name: entry for entry in ranges if len(entry.path) == 2 and entry.path[0] == ITERATION}
    if curve:
        return curve.sentence()
    if not size:
        return None
    if name == "prefault" and {"alloc", "touch", "register"} <= set(phases):
        return _prefault_sentence(capture, phases, size)
    main = main_event(events)
    if sees_kernel and name == "register" and main and main.event.unit == "ns" and {"init", "register"} <= set(phases):
        return _register_sentence(capture, phases, main, size)
    return None


def _prefault_sentence(capture: Capture, phases: Mapping[str, RangeResult], size: int) -> str:
    touch, register = (_each(phases[name]) / size * GIB for name in ("touch", "register"))
    whole = touch + register + _each(phases["alloc"]) / size * GIB
    parameters = capture.manifest.scenario.get("parameters")
    threads = parameters.get("threads") if isinstance(parameters, Mapping) else None
    variant = parameters.get("variant") if isinstance(parameters, Mapping) else None
    by = f" with {threads_text(threads)}" if isinstance(threads, int) else ""
    pages = "small" if variant == "small" else "huge"
    return (
        f"prefault{by} on {pages} pages: {format_ns(whole)}/GiB from first call to usable pinned memory, of which "
        f"{_call(capture, 'register')} is {format_ns(register)}."
    )


def _register_sentence(capture: Capture, phases: Mapping[str, RangeResult], main: EventResult, size: int) -> str:
    """Why registering costs what it costs: whether the pages were there."""
    call, register, init = _call(capture, "register"), phases["register"], phases["init"]
    per_gib = _each(register) / size * GIB
    created = register.event(main.event).share("pin.faultin")
    told = f"{call} takes {format_ns(per_gib)}/GiB"
    if created >= 0.5:
        return (
            f"{told}, {format_share(created, 1)} of it for creating the pages: pinning alone, of pages that are there, "
            "is what remains."
        )
    before = _each(init) * init.event(main.event).share(*_CREATING) / size * GIB
    if before <= 0:
        return f"{told} for pages that are there already; creating pages is {format_share(created, 1)} of it."
    return (
        f"{told} because the pages are there already: creating them cost {format_ns(before)}/GiB in init and is "
        f"{'none' if created < NOTHING else format_share(created, 1)} of the call, so what makes pinned memory slow is "
        "page creation, not pinning."
    )


def _time(threads: int, entry: RangeResult) -> PinningTime:
    return PinningTime(threads, entry.count, entry.wall_median_ns, entry.wall_min_ns, entry.wall_max_ns)


def _each(entry: RangeResult) -> float:
    return entry.wall_ns / entry.count


def _size(capture: Capture) -> int:
    parameters = capture.manifest.scenario.get("parameters")
    size = parameters.get("size_bytes") if isinstance(parameters, Mapping) else None
    return size if isinstance(size, int) and size > 0 else 0


def _call(capture: Capture, phase: str) -> str:
    scenario = capture.manifest.scenario
    calls = scenario.get("calls")
    call = str(calls.get(phase) or phase) if isinstance(calls, Mapping) else phase
    return f"{call} (host emulation)" if scenario.get("backend") == "host" else call
