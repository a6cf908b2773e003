"""The rule about huge pages."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.memory import summarise_memory
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, lacks, percent
from pinprof.model import Capture
from pinprof.units import format_bytes, format_share

HUGE_PAGES_BYTES = 64 << 20
HUGE_PAGES_SHARE = 0.10
"""fault.anon + pin.faultin."""
HUGE_PAGES_OF_RESIDENT = 0.50
"""AnonHugePages, of resident memory, both at their peaks."""
BASE_PAGE_STEP = 4
"""Memory per fault, in base pages, up to which a buffer counts as mapped without huge pages."""
BASE_PAGE_BYTES = 4096


def no_huge_pages(view: View) -> Verdict:
    """13: large buffers in small pages, by the addresses of page faults, else by the memory of the processes."""
    log = summarise_memory(view.capture)
    resident, huge = (log.peak.get("rss", 0), log.peak.get("huge")) if log else (0, None)
    history = "AnonHugePages of the process over time; page-faults cannot see pages created inside a pin."
    missing = history if huge is None else ""
    scope, share = view.worst("fault.anon", "pin.faultin")
    shares = scope.states("fault.anon + pin.faultin", share)
    if share < HUGE_PAGES_SHARE:
        below = f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}."
        return clear("Creating pages costs little.", below, missing=missing)
    least = format_bytes(HUGE_PAGES_BYTES)
    step, memory = fault_step(view.capture)
    if step and memory >= HUGE_PAGES_BYTES:
        small = step <= BASE_PAGE_STEP * BASE_PAGE_BYTES
        measured = (
            f"Neighbouring faults lie {format_bytes(step)} apart, over {format_bytes(memory)} (threshold "
            f"{format_bytes(BASE_PAGE_STEP * BASE_PAGE_BYTES)} apart, {least})."
        )
    elif huge is not None and resident >= HUGE_PAGES_BYTES:
        small = huge < HUGE_PAGES_OF_RESIDENT * resident
        measured = (
            f"At their peaks, AnonHugePages are {format_bytes(huge)}, {format_share(huge, resident)} of the "
            f"{format_bytes(resident)} in memory (threshold {percent(HUGE_PAGES_OF_RESIDENT)}, {least})."
        )
    else:
        return lacks(f"A page-faults event with addresses over at least {least}, or {history}", f"{shares}.")
    evidence = (f"{shares}; threshold {percent(HUGE_PAGES_SHARE)}.", measured)
    if small:
        advice = "madvise(MADV_HUGEPAGE) before the first touch, or hugetlbfs."
        if scope.part.share("pin.faultin") > scope.part.share("fault.anon"):
            advice += " cudaMallocHost takes small pages: touch huge ones of your own, then register them."
        stake = view.sampled_stake(share * scope.part.total)
        return fired("Large buffers are made of small pages.", *evidence, advice=advice, stake=stake, missing=missing)
    return clear("Large buffers are mapped in large pieces.", *evidence, missing=missing)


def fault_step(capture: Capture) -> tuple[int, int]:
    """(bytes per fault where faults run through a buffer, bytes they cover), (0, 0) when the data cannot tell.

    Consecutive samples of a fixed period p lie p pages apart in a buffer that is touched in order.
    """
    samples = capture.samples
    for number, event in enumerate(capture.events):
        if event.unit != "faults":
            continue
        rows = np.flatnonzero((samples.event == number) & (samples.address != 0))
        if len(rows) < 2:
            continue
        gap = np.diff(samples.address[rows].astype(np.int64))
        forward = (gap > 0) & (gap < HUGE_PAGES_BYTES)
        if np.count_nonzero(forward) * 2 > len(gap):
            step = float(np.median(gap[forward] / np.maximum(samples.weight[rows][1:][forward], 1)))
            return round(step), round(step * float(samples.weight[rows].sum()))
    return 0, 0
