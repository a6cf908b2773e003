"""Weights by cause, over everything and inside ranges: one vectorised sum for all ranges at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.attribution.attribute import GROUPS, Attribution
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
from pinprof.analyze.ranges.own_samples import own_samples, sample_numbers
from pinprof.analyze.results import EventResult, RangeResult
from pinprof.model import CONTINUED, KERNEL, NO_NODE, Bool, Capture, Event, Int32, Int64, RangeTable, clock_event

_IDLE_PID = 0
_KERNEL_THREAD_ROOTS = ("ret_from_fork", "ret_from_fork_asm", "kthread", "ret_from_kernel_thread")


class _Tally:
    """Samples reduced to few distinct outcomes: (event, leaf, work, groups, heuristic) as one code."""

    def __init__(self, capture: Capture, attribution: Attribution) -> None:
        self.events = capture.events
        columns = (
            capture.samples.event,
            attribution.leaf,
            attribution.work,
            attribution.groups,
            attribution.heuristic,
        )
        sizes = (max(1, len(self.events)), len(CATEGORIES), len(WORK_ATTRIBUTES), 1 << len(GROUPS), 2)
        raw = np.ravel_multi_index(tuple(column.astype(np.int64) for column in columns), sizes)
        distinct, code = np.unique(raw, return_inverse=True)
        self.code: Int64 = code.reshape(-1).astype(np.int64)
        self.outcome = [column.tolist() for column in np.unravel_index(distinct, sizes)]
        self.size = len(distinct)

    def results(self, weights: Mapping[int, tuple[int, int]]) -> tuple[EventResult, ...]:
        """One result per event from code → (weight, samples)."""
        events, leaves, works, groups, heuristics = self.outcome
        by_work: list[dict[str, dict[str, int]]] = [{} for _ in self.events]
        inclusive = [dict.fromkeys(GROUPS, 0) for _ in self.events]
        samples, heuristic = [0] * len(self.events), [0] * len(self.events)
        for code, (weight, count) in weights.items():
            event = events[code]
            work = by_work[event].setdefault(CATEGORIES[leaves[code]].name, {})
            attribute = WORK_ATTRIBUTES[works[code]]
            work[attribute] = work.get(attribute, 0) + weight
            samples[event] += count
            heuristic[event] += weight if heuristics[code] else 0
            for bit, group in enumerate(GROUPS):
                if groups[code] >> bit & 1:
                    inclusive[event][group] += weight
        return tuple(
            _result(self.events[event], samples[event], by_work[event], inclusive[event], heuristic[event])
            for event in range(len(self.events))
        )


_LEVEL = {category.name: category.level for category in CATEGORIES}


def _descending(weights: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0])))


def _result(
    event: Event, samples: int, by_work: dict[str, dict[str, int]], inclusive: dict[str, int], heuristic: int
) -> EventResult:
    by_leaf = _descending({leaf: sum(work.values()) for leaf, work in by_work.items()})
    by_level: dict[str, int] = {}
    for leaf, weight in by_leaf.items():
        by_level[_LEVEL[leaf]] = by_level.get(_LEVEL[leaf], 0) + weight
    return EventResult(
        event=event,
        samples=samples,
        total=sum(by_leaf.values()),
        by_leaf=by_leaf,
        by_work={leaf: _descending(by_work[leaf]) for leaf in by_leaf},
        by_level=_descending(by_level),
        inclusive=inclusive,
        heuristic=heuristic,
    )


def summarise(capture: Capture, attribution: Attribution) -> tuple[tuple[EventResult, ...], tuple[RangeResult, ...]]:
    """Totals of the whole capture and of every range.

    A range counts the samples of its process, every thread of it, inside [start, end), and kernel threads that worked
    meanwhile (system-wide captures). A range whose process is unknown, or never sampled (another PID namespace),
    counts all samples inside but those of idle CPUs. Instances that overlap count a sample once.
    """
    tally = _Tally(capture, attribution)
    whole = np.zeros(tally.size, np.int64)
    np.add.at(whole, tally.code, capture.samples.weight)
    count = np.bincount(tally.code[_begun(capture)], minlength=tally.size)
    events = tally.results({code: (int(whole[code]), int(count[code])) for code in range(tally.size)})
    return events, _summarise_ranges(capture, tally)


def _begun(capture: Capture) -> Bool:
    """Samples that count: an interval off the processors that was cut counts once, where it began."""
    wait = capture.samples.wait
    return np.ones(len(capture.samples), np.bool_) if wait is None else np.asarray(wait & CONTINUED == 0)


def _summarise_ranges(capture: Capture, tally: _Tally) -> tuple[RangeResult, ...]:
    ranges, samples = capture.ranges, capture.samples
    if not len(ranges):
        return ()
    path, paths = range_paths(ranges)
    inside, row = rows_inside(capture, path)

    cell, position = np.unique(inside * tally.size + tally.code[row], return_inverse=True)
    weight = np.zeros(len(cell), np.int64)
    np.add.at(weight, position.reshape(-1), samples.weight[row])
    count = np.bincount(position.reshape(-1)[_begun(capture)[row]], minlength=len(cell))
    cells: list[dict[int, tuple[int, int]]] = [{} for _ in paths]
    for where, code, amount, number in zip(
        (cell // max(1, tally.size)).tolist(), (cell % max(1, tally.size)).tolist(), weight.tolist(), count.tolist(),
        strict=True,
    ):  # fmt: skip
        cells[where][code] = (amount, number)

    on_cpu = _own_thread_ns(capture, path, len(paths))
    wall = ranges.end_ns - ranges.start_ns
    order = np.argsort(path, kind="stable")
    bounds = np.searchsorted(path[order], np.arange(len(paths) + 1)).tolist()
    results = []
    for number, names in enumerate(paths):
        instances = order[bounds[number] : bounds[number + 1]]
        clock, leader = wall[instances], int(instances[0])
        results.append(
            RangeResult(
                name=names[-1],
                domain=ranges.domain[leader],
                depth=len(names) - 1,
                path=names,
                count=len(instances),
                wall_ns=int(clock.sum()),
                wall_min_ns=int(clock.min()),
                wall_median_ns=int(np.median(clock)),
                wall_max_ns=int(clock.max()),
                events=tally.results(cells[number]),
                own_thread_ns=on_cpu[number],
            )
        )
    return tuple(results)


def rows_inside(capture: Capture, path: Int64) -> tuple[Int64, Int64]:
    """(path, sample number) of every sample inside ranges of a path, each pair once, ascending.

    `path` numbers the paths per range (`range_paths`).
    """
    samples = capture.samples
    low, high = sample_numbers(capture)
    pids, owner = np.unique(capture.ranges.pid, return_inverse=True)
    owner = owner.reshape(-1)
    key, first, last = _union(path * len(pids) + owner, low, high, len(samples))
    segment, row = _expand(first, last)
    key = key[segment]
    mine = _belongs(capture, pids, key % len(pids), row)
    row, inside = row[mine], key[mine] // len(pids)
    if len(pids) > 1:
        inside, row = np.divmod(np.unique(inside * (len(samples) + 1) + row), len(samples) + 1)
    return inside, row


def range_paths(ranges: RangeTable) -> tuple[Int64, list[tuple[str, ...]]]:
    """Per range the number of its path, and the paths in the order of their first start.

    Paths are told apart by the domains and names of the enclosing ranges in the same thread.
    """
    count = len(ranges)
    keys = {key: number for number, key in enumerate(dict.fromkeys(zip(ranges.domain, ranges.name, strict=True)))}
    label = np.array([keys[key] for key in zip(ranges.domain, ranges.name, strict=True)], np.int64)
    thread = np.unique(np.stack([ranges.pid, ranges.tid]), axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((ranges.depth, ranges.start_ns, thread))
    depth = ranges.depth[order]
    path = np.zeros(count, np.int64)
    parents: list[int] = []
    labels: list[int] = []
    above, above_path = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for level in range(int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        rows = order[here]
        parent = np.full(len(here), -1, np.int64)
        if level and len(above):
            enclosing = np.searchsorted(above, here) - 1
            found = enclosing >= 0
            candidate = order[above[enclosing]]
            found &= thread[candidate] == thread[rows]
            found &= ranges.end_ns[candidate] >= ranges.start_ns[rows]
            parent[found] = above_path[enclosing[found]]
        pair, inverse = np.unique(np.stack([parent, label[rows]]), axis=1, return_inverse=True)
        path[rows] = len(parents) + inverse.reshape(-1)
        parents += pair[0].tolist()
        labels += pair[1].tolist()
        above, above_path = here, path[rows]
    names = [name for _, name in keys]
    spelled: list[tuple[str, ...]] = []
    for parent_path, text in zip(parents, labels, strict=True):
        prefix = spelled[parent_path] if parent_path >= 0 else ()
        spelled.append((*prefix, names[text]))
    first = np.full(len(spelled), np.iinfo(np.int64).max)
    np.minimum.at(first, path, ranges.start_ns)
    by_start = np.lexsort((np.array([len(names) for names in spelled]), first))
    rank = np.empty(len(spelled), np.int64)
    rank[by_start] = np.arange(len(spelled))
    return rank[path], [spelled[number] for number in by_start.tolist()]


def _union(key: Int64, low: Int64, high: Int64, samples: int) -> tuple[Int64, Int64, Int64]:
    """Merge overlapping intervals of the same key: (key, first, one past last) of what remains."""
    span = samples + 1
    start, end = key * span + low, key * span + high
    order = np.argsort(start, kind="stable")
    start, end, key = start[order], np.maximum.accumulate(end[order]), key[order]
    fresh = np.ones(len(start), np.bool_)
    fresh[1:] = start[1:] > end[:-1]
    leaders = np.flatnonzero(fresh)
    tails = np.append(leaders[1:], len(start)) - 1
    key = key[leaders]
    return key, start[leaders] - key * span, end[tails] - key * span


def _expand(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """All numbers of the intervals [first, last), with the interval each comes from."""
    length = last - first
    segment = np.repeat(np.arange(len(first)), length)
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    return segment, first[segment] + offset


def belongs(capture: Capture, pid: int) -> Bool:
    """Per sample, whether a range of this process would count it."""
    rows = np.arange(len(capture.samples))
    return _belongs(capture, np.array([pid], np.int32), np.zeros(len(rows), np.int64), rows)


def _belongs(capture: Capture, pids: Int32, owner: Int64, row: Int64) -> Bool:
    # A process that has no samples at all cannot be told from the others. Pid 0 is the idle task; kernel threads
    # have it too where they live outside the recorder's PID namespace.
    samples, kernel_threads = capture.samples, _kernel_threads(capture)
    known = np.isin(pids, samples.pid) & (pids > _IDLE_PID)
    meant = np.where(known[owner], samples.pid[row] == pids[owner], samples.pid[row] != _IDLE_PID)
    return np.asarray(meant | kernel_threads[row])


def _kernel_threads(capture: Capture) -> Bool:
    """Samples of kernel threads, told by the outermost frame of their stacks."""
    stacks = capture.stacks
    symbols = stacks.frames.symbol
    started = np.array([symbol in _KERNEL_THREAD_ROOTS for symbol in symbols], np.bool_) & (
        stacks.frames.mode == KERNEL
    )
    rooted = np.append((stacks.parent == NO_NODE) & started[stacks.frame], False)
    if rooted.any():
        for nodes in stacks.levels():
            rooted[nodes] |= rooted[stacks.parent[nodes]]
    return np.asarray(rooted[capture.samples.stack])


def _own_thread_ns(capture: Capture, path: Int64, paths: int) -> list[int | None]:
    """On-CPU time of the threads that opened the ranges, by path; None where a thread or the time is unknown."""
    samples, clock = capture.samples, clock_event(capture.events)
    if clock is None:
        return [None] * paths
    own = own_samples(capture, np.ones(len(samples), np.bool_))
    total = np.zeros(paths, np.int64)
    known = np.ones(paths, np.bool_)
    running = np.append(0, np.cumsum(np.where(samples.event == clock, samples.weight, 0)[own.row]))
    np.add.at(total, path, running[own.last] - running[own.first])
    known[path[~own.known]] = False
    return [int(total[number]) if known[number] else None for number in range(paths)]
