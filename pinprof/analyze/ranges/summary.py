"""Weights by cause, over everything and inside ranges: vectorised sums for all ranges at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinprof.analyze.attribution.attribute import GROUPS, Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
from pinprof.analyze.groups import group
from pinprof.analyze.ranges.membership import WHOLE, Membership
from pinprof.analyze.ranges.own_samples import own_samples
from pinprof.analyze.ranges.spans import across
from pinprof.analyze.ranges.sums import overlapping, summed
from pinprof.analyze.ranges.wall import range_walls
from pinprof.analyze.results import EventResult, RangeResult
from pinprof.data.model import Capture, Event, Int64, clock_event


class _Tally:
    """Samples reduced to few distinct outcomes: (event, leaf, work, groups, heuristic) as one code."""

    def __init__(self, capture: Capture, attribution: Attribution) -> None:
        self.events = capture.events
        self.steps = [_step(capture, number) for number in range(len(capture.events))]
        columns = (
            capture.samples.event,
            attribution.leaf,
            attribution.work,
            attribution.groups,
            attribution.heuristic.view(np.int8),
        )
        outcomes = group(*columns)
        self.code = outcomes.of
        self.outcome = [column.tolist() for column in outcomes.keys]
        self.size = len(outcomes)
        self.nothing = [
            _result(event, step, 0, {}, dict.fromkeys(GROUPS, 0), 0)
            for event, step in zip(self.events, self.steps, strict=True)
        ]

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
            for bit, name in enumerate(GROUPS):
                if groups[code] >> bit & 1:
                    inclusive[event][name] += weight
        return tuple(
            _result(self.events[event], self.steps[event], samples[event], works, inclusive[event], heuristic[event])
            if works
            else self.nothing[event]
            for event, works in enumerate(by_work)
        )


def _step(capture: Capture, number: int) -> int:
    """What all weights of an event are multiples of, where stacks were merged and no period is known; else 0."""
    event, samples = capture.events[number], capture.samples
    if not event.merged or event.period:
        return 0
    return int(np.gcd.reduce(samples.weight[samples.event == number], initial=0))


def _descending(weights: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(weights.items(), key=lambda item: (-item[1], item[0])))


def _result(
    event: Event, step: int, samples: int, by_work: dict[str, dict[str, int]], inclusive: dict[str, int], heuristic: int
) -> EventResult:
    by_leaf = _descending({leaf: sum(work.values()) for leaf, work in by_work.items()})
    by_level: dict[str, int] = {}
    for leaf, weight in by_leaf.items():
        by_level[CATEGORIES[LEAF[leaf]].level] = by_level.get(CATEGORIES[LEAF[leaf]].level, 0) + weight
    return EventResult(
        event=event,
        samples=samples,
        total=sum(by_leaf.values()),
        by_leaf=by_leaf,
        by_work={leaf: _descending(by_work[leaf]) for leaf in by_leaf},
        by_level=dict(sorted(by_level.items(), key=lambda item: -item[1])),
        inclusive=inclusive,
        heuristic=heuristic,
        step=step,
    )


def summarise(
    capture: Capture, attribution: Attribution, members: Membership
) -> tuple[tuple[EventResult, ...], tuple[RangeResult, ...]]:
    """Totals of the whole capture and of every range, as `membership` counts them."""
    tally = _Tally(capture, attribution)
    weights = _weights(capture, tally, members)
    return tally.results(weights[WHOLE]), _ranges(capture, attribution, members, tally, weights)


def _weights(capture: Capture, tally: _Tally, members: Membership) -> list[dict[int, tuple[int, int]]]:
    """Per scope, code → (weight, samples)."""
    samples, scopes = capture.samples, members.of_samples
    # An interval off the CPU that was cut counts as a sample once, where it began.
    begun = samples.begun
    weights: list[dict[int, tuple[int, int]]] = [{} for _ in range(len(scopes))]
    # Waits across the edges of ranges are in each for as long as they overlap it.
    whole = across(capture)
    shared = np.where(whole, 0, samples.weight) if whole.any() else samples.weight
    for cells in (
        *summed(scopes, members.samples, tally.code, (shared, begun)),
        *overlapping(scopes, members.samples, np.flatnonzero(whole), samples.weight, tally.code),
    ):
        columns = (cells.scope, cells.code, *cells.amounts)
        for where, code, weight, count in zip(*(column.tolist() for column in columns), strict=True):
            known = weights[where].get(code, (0, 0))
            weights[where][code] = (known[0] + weight, known[1] + count)
    return weights


def _ranges(
    capture: Capture,
    attribution: Attribution,
    members: Membership,
    tally: _Tally,
    weights: list[dict[int, tuple[int, int]]],
) -> tuple[RangeResult, ...]:
    if not members.paths:
        return ()
    clock = capture.ranges.end_ns - capture.ranges.start_ns
    instances, median = group(members.path), _median(clock, members).tolist()
    total, least, most = (of(clock).tolist() for of in (instances.sum, instances.min, instances.max))
    own_thread_ns, walls = _own_thread_ns(capture, members), range_walls(capture, attribution, members)
    return tuple(
        RangeResult(
            path=path,
            count=int(instances.count[number]),
            wall_ns=total[number],
            wall_min_ns=least[number],
            wall_median_ns=median[number],
            wall_max_ns=most[number],
            events=tally.results(weights[WHOLE + 1 + number]),
            own_thread_ns=own_thread_ns[number],
            wall=walls[number] if walls else None,
        )
        for number, path in enumerate(members.paths)
    )


def _median(clock: Int64, members: Membership) -> Int64:
    """Per path the median of its instances' clocks, between the two middle ones of an even number."""
    ordered = clock[np.lexsort((clock, members.path))]
    count = np.bincount(members.path)
    first = np.cumsum(count) - count
    low, high = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(low + (high - low) // 2)


def _own_thread_ns(capture: Capture, members: Membership) -> list[int | None]:
    """On-CPU time of the threads that opened the ranges, by path; None where a thread or the time is unknown."""
    samples, path, clock = capture.samples, members.path, clock_event(capture.events)
    if clock is None:
        return [None] * len(members.paths)
    own = own_samples(capture, np.ones(len(samples), np.bool_))
    total = np.zeros(len(members.paths), np.int64)
    known = np.ones(len(members.paths), np.bool_)
    running = np.append(0, np.cumsum(np.where(samples.event == clock, samples.weight, 0)[own.row]))
    np.add.at(total, path, running[own.last] - running[own.first])
    known[path[~own.known]] = False
    return [int(total[number]) if known[number] else None for number in range(len(members.paths))]
