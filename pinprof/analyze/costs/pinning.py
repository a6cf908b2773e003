"""What it took to get pinned memory: the curve by threads, and the sentence of scenarios that show it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pinprof.analyze.costs.results import GIB, PinningCurve, PinningTime, threads_text
from pinprof.analyze.ranges.iterations import iteration_phases
from pinprof.analyze.results import EventResult, RangeResult, judged_event
from pinprof.base.units import format_ns, format_share
from pinprof.data.model import Capture

BASELINE = "malloc_host"
"""The phase that asks CUDA for as much pinned memory in one call."""
_THREADS = re.compile(r"([1-9][0-9]{0,5}) threads?")
NOTHING = 0.005
"""The sentence says `none` of shares of a call below this."""
_CREATING = ("fault.*", "uffd.*")


def pinning_curve(capture: Capture, ranges: tuple[RangeResult, ...]) -> PinningCurve | None:
    """The curve of a scenario that shows prefaulting by threads; None for any other capture."""
    phases, size = iteration_phases(ranges), _size(capture)
    if capture.manifest.scenario_shows != "prefaulting" or BASELINE not in phases or not size:
        return None
    by_threads = {int(match[1]): entry for name, entry in phases.items() if (match := _THREADS.fullmatch(name))}
    if not by_threads:
        return None
    points = tuple(_time(threads, entry) for threads, entry in sorted(by_threads.items()))
    return PinningCurve(size, points, _time(0, phases[BASELINE]), _call(capture, BASELINE))


def pinning_headline(
    capture: Capture,
    events: tuple[EventResult, ...],
    ranges: tuple[RangeResult, ...],
    curve: PinningCurve | None,
    *,
    sees_kernel: bool = True,
) -> str | None:
    """The sentence of scenarios that show how to get pinned memory; None for any other capture.

    The sentence says what a call spends its time on only where samples see the kernel.
    """
    shows, size, phases = capture.manifest.scenario_shows, _size(capture), iteration_phases(ranges)
    if curve:
        return curve.sentence()
    if not size:
        return None
    if shows == "prefaulting" and {"alloc", "touch", "register"} <= set(phases):
        return _prefault_sentence(capture, phases, size)
    main = judged_event(events)
    registers = shows == "registering" and {"init", "register"} <= set(phases)
    if registers and sees_kernel and main and main.event.unit == "ns" and not main.too_few:
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
        f"prefault{by} on {pages} pages: {format_ns(whole)}/GiB from the first call to usable pinned memory, of which "
        f"{_call(capture, 'register')} is {format_ns(register)}."
    )


def _register_sentence(capture: Capture, phases: Mapping[str, RangeResult], main: EventResult, size: int) -> str:
    """Why registering costs what it costs: whether the pages were there."""
    call, register, init = _call(capture, "register"), phases["register"], phases["init"]
    per_gib = _each(register) / size * GIB
    created = register.event(main.event).share("pin.faultin")
    cost = f"{call} takes {format_ns(per_gib)}/GiB"
    if created >= 0.5:
        return f"{cost}, and {format_share(created, 1)} of it is for creating the pages. Only the rest is for pinning."
    before = _each(init) * init.event(main.event).share(*_CREATING) / size * GIB
    if before <= 0:
        return f"{cost} for pages that already exist; creating pages is {format_share(created, 1)} of it."
    return (
        f"{cost} because the pages already exist. Creating them took {format_ns(before)}/GiB in init and is "
        f"{'none' if created < NOTHING else format_share(created, 1)} of the call, so page creation makes pinned "
        "memory "
        "slow, not pinning."
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
