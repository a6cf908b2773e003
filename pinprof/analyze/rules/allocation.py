"""The rule about allocating and freeing repeatedly: by CUDA calls, and by the names of ranges."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pinprof.analyze.ranges.iterations import ITERATION, measured_iterations
from pinprof.analyze.rules.rule import Stake, Verdict, View, clear, fired, lacks
from pinprof.base.units import format_bytes, format_count, format_ns, format_share
from pinprof.data.model import RangeTable

ALLOC_PAIRS = 3


def by_calls(view: View) -> Verdict:
    """1: memory of one kind and size is allocated and freed repeatedly."""
    wall = view.wall_ns
    missing = ""
    if any(loop.up_to_bytes is None for loop in view.activity.loops):
        missing = "Sizes of some allocations: pairs of different sizes count together."
    # Launches are not among the calls that uprobes record: there, work begins with the first copy.
    began = "the first kernel" if view.activity.whole.kernels else "the first launch or copy"
    repeated = [loop for loop in view.activity.loops if loop.pairs >= ALLOC_PAIRS]
    if not repeated:
        return clear(
            "The program does not allocate and free memory repeatedly.",
            f"Fewer than {ALLOC_PAIRS} pairs of one kind and size after {began}.",
            missing=missing,
        )
    cost = sum(loop.cost_ns for loop in repeated)
    evidence = [
        f"{format_count(loop.pairs)} pairs of {loop.what} memory"
        + (f" up to {format_bytes(loop.up_to_bytes)}" if loop.up_to_bytes else "")
        + f" take {format_ns(loop.cost_ns)} (threshold {ALLOC_PAIRS} pairs after {began})."
        for loop in repeated[:4]
    ]
    evidence.append(f"Together {_states(cost, wall)}")
    return _fired(cost, wall, *evidence, missing=missing)


def by_ranges(view: View) -> Verdict:
    """1: allocating and freeing, or registering and unregistering, repeatedly."""
    measured = measured_iterations(view.capture)
    pairs = []
    for opening, closing in (("alloc", "free"), ("register", "unregister")):
        again = _again(view.capture.ranges, opening, closing)
        twins = {entry.path.parent: entry for entry in reversed(view.ranges) if entry.name == closing}
        for entry in view.ranges:
            twin = twins.get(entry.path.parent)
            if entry.name == opening and twin:
                count = min(entry.count, twin.count, 2 * again)
                if measured and entry.path.names[0] == ITERATION:
                    # Measuring a program several times repeats what it does once.
                    count //= measured
                pairs.append((count, entry.wall_ns + twin.wall_ns, entry))
    missing = "Buffer sizes and the time of the first kernel; pairs are counted only by range names."
    if not pairs:
        return lacks("Ranges named alloc and free (or register and unregister) around the calls.")
    count, cost, entry = max(pairs, key=lambda pair: (pair[0] >= ALLOC_PAIRS, pair[1]))
    parent = next((other for other in view.ranges if other.path is entry.path.parent), None)
    starts, ends = view.capture.ranges.start_ns, view.capture.ranges.end_ns
    whole = parent.wall_ns if parent else int(ends.max() - starts.min())
    evidence = (
        f"Pairs{' in each measured iteration' if measured else ''}: {format_count(count)} (threshold {ALLOC_PAIRS}); "
        f"together they take {_states(cost, whole)}"
    )
    if count < ALLOC_PAIRS:
        return clear("The program does not repeat allocations.", evidence, missing=missing)
    return _fired(cost, whole, evidence, missing=missing)


def _again(ranges: RangeTable, opening: str, closing: str) -> int:
    """How many ranges of the opening name take the place of one that their process has closed."""
    rows = np.flatnonzero(np.array([name in (opening, closing) for name in ranges.name], np.bool_))
    closed: Counter[int] = Counter()
    again = 0
    for row, pid in zip(rows.tolist(), ranges.pid[rows].tolist(), strict=True):
        if ranges.name[row] == closing:
            closed[pid] += 1
        elif closed[pid]:
            closed[pid] -= 1
            again += 1
    return again


def _states(cost: int, whole: int) -> str:
    of = f", {format_share(cost, whole)} of {format_ns(whole)}" if whole > 0 else ""
    return f"{format_ns(cost)}{of}."


def _fired(cost: int, whole: int, *evidence: str, missing: str) -> Verdict:
    return fired(
        "The program allocates and frees the same buffers repeatedly.",
        *evidence,
        advice="Allocate once and reuse, or take buffers from a pool.",
        stake=Stake(cost, whole),
        missing=missing,
    )
