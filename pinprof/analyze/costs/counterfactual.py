"""What a scenario's iteration would have cost with its data in another kind of memory, from this machine's own rates.

    predicted = measured − what the present mode decides, as measured − … + what another mode costs, by the rates

Decided by the mode are the phases that make memory, move data and give memory back, page faults in the first write,
and the kernel where it works in host or managed memory. The rest (the program's own writing and checking, kernels in
the GPU's memory) stays as it was measured, but for one thing: a write that creates its page finds it in the cache,
where the kernel has just zeroed it; elsewhere the same write waits for memory. `WRITE_GROWTH` says by how much.

What a page costs to create depends on the machine's state: on how scattered its free memory is, on who else works. All
kinds of memory need their pages, so the rates of making and freeing memory are scaled by what this run took of what
they say for its own kind.

The error comes from the spread of the rates (10th to 90th percentile), from the growth of writes, and from how far the
arithmetic without that scale is off for the kind that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.costs.memory_modes import MODES, Mode, mode_of
from pinprof.analyze.costs.results import Counterfactual, Estimate, threads_text
from pinprof.analyze.ranges.iterations import ITERATION, iteration_phases, measured_iterations
from pinprof.analyze.results import EventResult, RangeResult, main_event
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture
from pinprof.data.rates import Rate, Rates, prefault_threads

WRITE_GROWTH = (1.0, 2.0, 3.0)
"""Least, likely, most: a write to pages that exist already, of one to pages that it creates. In captures of an H200's
host (Sapphire Rapids) filling 256 MiB takes 12.5 ms beside its page faults, and 30.4 ms where the pages are there.
"""

LEAST_SCALE, MOST_SCALE = 0.5, 2.0
"""A run that differs more from the rates than this was not made under the same circumstances."""

_IMPOSSIBLE = 1 << 62

MAKING = ("alloc", "ring", "touch", "register", "pin", "advise", "prefetch")
"""Phases by which memory gets ready for the device."""
MOVING = ("h2d", "d2h", "prefetch_back", "cpu_read")
ENDING = ("unregister", "free")
KEPT = ("init", "kernel", "verify")
_FAULT_LEVELS = ("fault", "uvm", "uffd")

_DEVICE_KERNEL = "uvm.prefetched-kernel"
"""The kernel of all scenarios, in memory of the GPU."""


@dataclass(frozen=True)
class Traffic:
    """What an iteration allocates and copies: (bytes, count) each, of the memory on the host's side."""

    buffers: tuple[tuple[int, float], ...]
    to_device: tuple[tuple[int, float], ...]
    to_host: tuple[tuple[int, float], ...]
    kernels: tuple[tuple[int, float], ...]


_Cost = NDArray[np.float64]
"""Low, likely and high; sums of it have errors in the same direction."""


def counterfactual(
    capture: Capture,
    events: tuple[EventResult, ...],
    ranges: tuple[RangeResult, ...],
    rates: Rates | None,
    *,
    sees_kernel: bool = True,
) -> Counterfactual | None:
    """The run in all other modes; None for programs whose phases do not say what they are.

    Where samples do not see the kernel, the page faults of the first write are taken from the rates.
    """
    scenario = capture.manifest.scenario
    count, mode = measured_iterations(capture), mode_of(scenario)
    phases = iteration_phases(ranges)
    whole = next((entry for entry in ranges if entry.name == ITERATION and not entry.depth), None)
    if mode is None or whole is None or not count or not set(phases) <= {*MAKING, *MOVING, *ENDING, *KEPT}:
        return None
    measured = whole.wall_ns / count
    rates = rates if rates and rates.backend == scenario.get("backend") else None
    traffic = traffic_of(scenario, phases, count, mode)
    if rates is None or traffic is None:
        return Counterfactual(mode.key, mode.title, measured, None, (), (), 1.0, "")
    main = main_event(events) if sees_kernel else None
    run = _Run(main, phases, count, mode, measured, traffic, rates)
    estimates, lacking, modelled = [], [], None
    for other in MODES:
        missing = run.missing(other)
        if missing and other is not mode:
            lacking.append((run.title(other), missing))
        elif not missing and other is mode:
            modelled = run.estimate(other, 1.0)
        elif not missing:
            estimates.append(run.estimate(other, run.scale))
    if modelled:
        estimates = [run.widened(estimate, modelled) for estimate in estimates]
    estimates.sort(key=lambda estimate: estimate.ns)
    return Counterfactual(
        mode.key, run.title(mode), measured, modelled, tuple(estimates), tuple(lacking), run.scale, rates.measured_utc
    )


def traffic_of(
    scenario: Mapping[str, Any], phases: Mapping[str, RangeResult], count: int, mode: Mode
) -> Traffic | None:
    """What an iteration moves: as counted in the warm-up, else one buffer of the scenario's size where phases allow it.

    None when it is not known.
    """
    kernels = phases["kernel"].count / count if "kernel" in phases else 0.0
    parameters, rows = scenario.get("parameters"), scenario.get("traffic")
    size = parameters.get("size_bytes") if isinstance(parameters, Mapping) else None
    if not _possible(size):
        return None
    assert isinstance(size, int)
    if isinstance(rows, list) and rows:
        return _counted(rows, size, kernels, mode)
    each = {name: phases[name].count / count for name in ("alloc", "h2d", "d2h", "cpu_read") if name in phases}
    if set(each.values()) != {1.0}:
        return None
    # Without copies the device has worked in the memory: then a copy there and one back would take their place.
    one = ((size, 1.0),)
    return Traffic(one, one, one, ((size, kernels),))


def _possible(number: object) -> bool:
    """Whether a number from a manifest, which anybody may have written, is one of bytes or of times."""
    return isinstance(number, int) and 0 < number < _IMPOSSIBLE


def _counted(rows: list[Any], size: int, kernels: float, mode: Mode) -> Traffic | None:
    kinds: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if not isinstance(row, Mapping) or not all(_possible(row.get(key)) for key in ("size_bytes", "count")):
            return None
        kinds.setdefault(str(row.get("what")), []).append((row["size_bytes"], float(row["count"])))
    own = {"managed": "managed", "prefetch": "managed", "zerocopy": "mapped", "pinned": "pinned"}
    kind = own.get(mode.key, "pageable")
    # The host backend has one kind of pinned memory.
    buffers = kinds.get(kind) or (kinds.get("pinned") if kind == "mapped" else None)
    if not buffers:
        return None
    largest = max(bytes_each for bytes_each, _ in buffers)
    if mode.key == "staged":
        # Pieces that pass through a ring; any other mode copies the buffer as a whole.
        to_device, to_host = (
            [(size, sum(bytes_each * times for bytes_each, times in kinds.get(way, [])) / size)]
            for way in ("h2d", "d2h")
        )
    elif "h2d" in kinds or "d2h" in kinds:
        to_device, to_host = kinds.get("h2d", []), kinds.get("d2h", [])
    else:
        to_device = to_host = list(buffers)
    return Traffic(tuple(buffers), tuple(to_device), tuple(to_host), ((largest, kernels),))


class _Run:
    """A measured run, ready to be priced in other modes."""

    def __init__(
        self,
        main: EventResult | None,
        phases: Mapping[str, RangeResult],
        count: int,
        mode: Mode,
        measured_ns: float,
        traffic: Traffic,
        rates: Rates,
    ) -> None:
        self.traffic, self.rates, self.mode = traffic, rates, mode
        self._measured, self._iterations = measured_ns, count
        self._threads = max((prefault_threads(rate.measure) for rate in rates.rates), default=0)
        each = {name: entry.wall_ns / count for name, entry in phases.items()}
        self._faults = sum(self._fault_ns(main, entry) for entry in phases.values() if entry.name == "init")
        self._faults = min(self._faults / count, each.get("init", 0.0))
        self._write = each.get("init", 0.0) - self._faults
        making = sum(each.get(name, 0.0) for name in MAKING) + sum(each.get(name, 0.0) for name in ENDING)
        self._making = making - each.get("prefetch", 0.0) + self._faults
        self._using = sum(each.get(name, 0.0) for name in (*MOVING, "prefetch"))
        kernel = each.get("kernel", 0.0)
        self._device_kernel = 0.0 if mode.kernel else kernel
        """Time of kernels in the GPU's own memory, which other modes may not have."""
        self._rest = measured_ns - self._making - self._using - kernel - self._write
        rated = sum(
            self._likely(measure, size) * times
            for measure in mode.buffer
            if self._of(measure)
            for size, times in traffic.buffers
        )
        self._rescaled = 0.0
        """By how much the scale changes what the present kind of memory costs."""
        complete = rated > 0 and all(self._of(measure) for measure in mode.buffer)
        self.scale = min(max(self._making / rated, LEAST_SCALE), MOST_SCALE) if complete else 1.0
        if complete:
            self._rescaled = abs(1 - self.scale) * rated

    def _fault_ns(self, main: EventResult | None, init: RangeResult) -> float:
        """Page faults inside the first write, of all iterations: by samples, else by the rate of a first touch."""
        part = init.event(main.event) if main and main.event.unit == "ns" else None
        if part and part.total:
            return init.wall_ns * sum(part.by_level.get(level, 0) for level in _FAULT_LEVELS) / part.total
        touch = "uvm.first-touch" if self.mode.managed else "touch.first" if self.mode.creates_on_write else ""
        if not self._of(touch):
            return 0.0
        # Of all iterations: `init` is one phase of each, or several on parts of the memory.
        return self._iterations * sum(self._likely(touch, size) * times for size, times in self.traffic.buffers)

    def title(self, mode: Mode) -> str:
        """The mode in words, with the number of threads that its rate was measured with."""
        return mode.title.format(threads=threads_text(self._threads))

    def missing(self, mode: Mode) -> tuple[str, ...]:
        """Measures that the mode needs and that were not taken."""
        names = [] if self._buffers_stay(mode) else [*mode.buffer]
        names += [*mode.once, mode.to_device, mode.to_host, mode.kernel if self.traffic.kernels[0][1] else ""]
        if self.mode.kernel and not mode.kernel:
            names.append(_DEVICE_KERNEL)
        return tuple(name for name in dict.fromkeys(names) if name and not self._of(name))

    def estimate(self, mode: Mode, scale: float) -> Estimate:
        """One iteration in a mode, the rates of making and freeing memory scaled."""
        total = self._rest + self._written(mode)
        if self._buffers_stay(mode):
            total = total + self._making
        else:
            making = np.zeros(3)
            for measure in mode.buffer:
                making = self._add(making, measure, self.traffic.buffers)
            total = total + scale * making
        total = self._add(total, mode.to_device, self.traffic.to_device)
        total = self._add(total, mode.to_host, self.traffic.to_host)
        if mode.kernel or self.mode.kernel:
            # A kernel that worked over the link or on demand would run in the GPU's memory in the other modes.
            total = self._add(total, mode.kernel or _DEVICE_KERNEL, self.traffic.kernels)
        else:
            total = total + self._device_kernel
        largest = max(size for size, _ in self.traffic.buffers)
        once = scale * sum(self._likely(name, largest) for name in mode.once)
        low, likely, high = total.tolist()
        return Estimate(mode.key, self.title(mode), low, likely, high, once, mode.assumes)

    def widened(self, estimate: Estimate, modelled: Estimate) -> Estimate:
        """With the error that the model has in the measured mode, in proportion to what it prices here."""
        kept = self._rest + self._device_kernel
        priced = max(estimate.ns - kept, 0.0) / max(modelled.ns - kept, 1.0)
        off = max(abs(modelled.ns - self._measured), self._rescaled) * priced
        return replace(estimate, low_ns=max(estimate.low_ns - off, 0.0), high_ns=estimate.high_ns + off)

    def _buffers_stay(self, mode: Mode) -> bool:
        """Whether the present allocation and first touch are those of the mode too."""
        return self.mode.managed and mode.managed

    def _written(self, mode: Mode) -> _Cost:
        """The program's own writing."""
        growth = np.array(WRITE_GROWTH)
        if mode.creates_on_write == self.mode.creates_on_write:
            return np.full(3, self._write)
        return self._write * growth if self.mode.creates_on_write else self._write / growth[::-1]

    def _add(self, total: _Cost, measure: str, quantities: tuple[tuple[int, float], ...]) -> _Cost:
        for size, times in quantities:
            if measure and times:
                total = total + times * self._at(measure, size)
        return total

    def _of(self, measure: str) -> tuple[Rate, ...]:
        return self.rates.of(measure.replace("tN", f"t{self._threads}"))

    def _at(self, measure: str, size_bytes: int) -> _Cost:
        return np.array(_interpolated(self._of(measure), size_bytes))

    def _likely(self, measure: str, size_bytes: int) -> float:
        return _interpolated(self._of(measure), size_bytes)[1]


def _interpolated(rates: tuple[Rate, ...], size_bytes: int) -> list[float]:
    """The cost of a call at a size, low, likely and high: between two sizes along a straight line of logarithms, beyond
    them by proportion. Below the smallest size a call costs what it costs there: it is mostly the call itself.
    """
    first, last = rates[0], rates[-1]
    if size_bytes <= first.size_bytes:
        return _spread(first)
    if size_bytes >= last.size_bytes:
        scale = size_bytes / last.size_bytes if last.size_bytes else 1.0
        return [ns * scale for ns in _spread(last)]
    above = next(number for number, rate in enumerate(rates) if rate.size_bytes >= size_bytes)
    one, two = rates[above - 1], rates[above]
    part = log(size_bytes / max(one.size_bytes, 1)) / log(two.size_bytes / max(one.size_bytes, 1))

    def between(low: float, high: float) -> float:
        return exp(log(low) * (1 - part) + log(high) * part) if low > 0 and high > 0 else low + (high - low) * part

    return list(map(between, _spread(one), _spread(two)))


def _spread(rate: Rate) -> list[float]:
    return [rate.low_ns, rate.median_ns, rate.high_ns]
