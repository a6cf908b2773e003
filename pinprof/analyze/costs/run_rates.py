"""What memory operations cost in this very run: page faults and pins, as the recording saw them.

They hold near the sizes that the run had; `rate_book.RateBook` asks them there alone. A call that waits for other work
first costs more than its own: a group of sizes therefore counts by its median, with the 10th and 90th percentile, and
one of few calls is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.results import EventResult
from pinprof.base.columns import ascending
from pinprof.data.activity import ApiCallTable
from pinprof.data.gpu_functions import allocates
from pinprof.data.model import Capture
from pinprof.data.rates import Rate

_FAULTS = "page-faults"
_OTHER = ("fault.file", "fault.cow", "fault.swap", "fault.numa", "fault.reclaim", "fault.compact", "fault.uffd")
"""Leaves of faults that create no page of malloc."""
_MOST_OTHER = 0.1
"""The share of the time in faults that may be spent in these: what each kind's number is, no event says."""
_MOST_HUGE = 0.01
"""The share of all faults that may create huge pages: one of those costs a hundred times as much."""
_SPREAD = 1.28
"""Standard errors between the median and the 10th or 90th percentile of a normal distribution."""
_LEAST_CALLS = 5


def run_rates(capture: Capture, events: Sequence[EventResult], call_overhead_ns: float = 0.0) -> tuple[Rate, ...]:
    """The rates of a run, from the events of its whole capture and its pins; a copy's call also waits for the GPU.

    `call_overhead_ns` is what recording adds to each call that was traced. Empty where nothing was frequent enough.
    """
    calls = capture.activity.calls if capture.activity else None
    return (
        *_fault_rates(capture.manifest.outcome.get("counters"), events),
        *(_pin_rates(calls, call_overhead_ns) if calls is not None else ()),
    )


def _fault_rates(counters: object, events: Sequence[EventResult]) -> Iterator[Rate]:
    """What a 4 KiB page costs: CPU time in all faults, by their number, where nearly all of them create pages."""
    time = next((event for event in events if event.event.clocks and event.total), None)
    faults = next((event for event in events if event.name.startswith(_FAULTS) and event.total), None)
    if time is None or faults is None or _huge_share(counters) > _MOST_HUGE:
        return
    ns = sum(weight for leaf, weight in time.by_leaf.items() if leaf.startswith("fault."))
    other = sum(time.by_leaf.get(leaf, 0) for leaf in _OTHER)
    samples = min(ns / time.total * time.samples, faults.samples)
    if samples < MIN_SAMPLES or other > _MOST_OTHER * ns:
        return
    error = _SPREAD / samples**0.5
    # The price of a page holds from one page to all that were created.
    for pages in sorted({1, faults.total}):
        price = ns / faults.total * pages
        yield Rate("touch.first", 4096 * pages, price, price * (1 - error), price * (1 + error))


def _huge_share(counters: object) -> float:
    """Huge pages created in the run, by its page faults; 1 where the machine's counters were not recorded."""
    if not isinstance(counters, Mapping):
        return 1.0
    huge, faults = counters.get("thp_fault_alloc"), counters.get("pgfault")
    if not isinstance(faults, int) or faults <= 0:
        return 1.0
    return huge / faults if isinstance(huge, int) else 0.0


def _pin_rates(calls: ApiCallTable, overhead_ns: float) -> Iterator[Rate]:
    """Pinned allocations by size, without the first call of each process, which may create the context."""
    if calls.size_bytes is None or not len(calls):
        return
    wanted = [number for number, name in enumerate(calls.names) if allocates(name) == "pinned"]
    _, first = np.unique(calls.pid, return_index=True)
    mask = np.isin(calls.name, wanted) & (calls.status == 0) & (calls.size_bytes > 0)
    mask[first] = False
    yield from _by_size("pin.alloc", calls.size_bytes[mask], (calls.end_ns - calls.start_ns)[mask] - overhead_ns)


def _by_size(measure: str, sizes: NDArray[np.int64], ns: NDArray[np.float64]) -> Iterator[Rate]:
    """A rate for each power of two of the sizes, at the middle size of those calls; ascending."""
    if not len(sizes):
        return
    powers = np.frexp(sizes.astype(np.float64))[1]
    seen = set()
    for power in ascending(powers):
        group = powers == power
        size = int(np.median(sizes[group]))
        if group.sum() < _LEAST_CALLS or size in seen:
            continue
        seen.add(size)
        low, median, high = (max(float(value), 1.0) for value in np.percentile(ns[group], (10, 50, 90)))
        yield Rate(measure, size, median, low, high)
