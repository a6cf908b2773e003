"""Samples in steps of time, so that a page is bounded however long a recording is.

Samples of one step that agree in stack, event, thread, cause and ranges become one row, with the sum of their weights:
every sum over a range, a thread or whole steps stays exact. Waits across edges of ranges stay as they are. The step is
the finest with which the page is small enough.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.groups import codes
from pinprof.analyze.intervals import numbers
from pinprof.base.columns import ascending, is_uniform, narrowed, slices, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64
from pinprof.report.flame import NO_ACROSS, NO_RANGES, FlameData, RangeRows

MOST_ROWS = 1_000_000
MOST_RUNS = 300_000
"""Runs of samples in ranges."""
MOST_BYTES = 3_500_000
"""Bytes of the packed columns, stacks included."""

STEPS_NS = tuple(factor * 10**power for power in range(3, 15) for factor in (1, 2, 5))
"""Lengths of steps, from the page's unit of time to a week."""


def in_steps(data: FlameData, rows: int = MOST_ROWS, runs: int = MOST_RUNS, size: int = MOST_BYTES) -> FlameData:
    """The samples within these limits: as they are, in steps of time, or without times where no step is enough.

    Where no step has few enough runs of ranges, ranges are left out. Samples without times come back as they are.
    """
    if not data.timed or (len(data.node) <= rows and len(data.ranges.path) <= runs and len(data.packed[1]) <= size):
        return data
    alike = _Alike.of(data)
    # The longest one is longer than the recording: all rows are of one step then.
    steps = STEPS_NS[: bisect_right(STEPS_NS, int(data.time_ns.max())) + 1]
    number = bisect_left(steps, True, key=lambda step: alike.fit(step, rows, runs))
    for step in steps[number:]:
        made = alike.merged(step)
        if len(made.packed[1]) <= size:
            return made
    bare = replace(data, ranges=NO_RANGES, across=NO_ACROSS)
    return in_steps(bare, rows, runs, size) if len(data.ranges.path) else bare.merged()


@dataclass(frozen=True)
class Moments:
    """Rows of several kinds over time; of one kind, those of one step become one."""

    order: Int32
    """Row numbers, by kind and then by time; columns with the next two."""
    first: Bool
    """Where a kind begins."""
    time_ns: Int64

    @classmethod
    def of(cls, kind: NDArray[np.signedinteger], time_ns: Int64) -> Self:
        """Of rows in the order of time."""
        first = np.zeros(len(kind), np.bool_)
        first[:1] = True
        if is_uniform(kind):
            return cls(np.arange(len(kind), dtype=np.int32), first, time_ns)
        # A kind and a row are one number: to sort these in their place takes no more memory.
        bits = len(kind).bit_length()
        if int(kind.max()).bit_length() + bits > 63:
            kind = np.unique(kind, return_inverse=True)[1].reshape(-1)
        keys = np.empty(len(kind), np.int64)
        for part in slices(len(kind), kind):
            keys[part] = kind[part].astype(np.int64) << bits | np.arange(part.start, part.stop)
        keys.sort()
        order = np.empty(len(kind), np.int32)
        for part in slices(len(kind)):
            first[part.start + 1 : part.stop + 1] = np.diff(keys[part.start : part.stop + 1] >> bits) != 0
            order[part] = keys[part] & (1 << bits) - 1
        del keys
        return cls(order, first, taken(time_ns, order))

    def begins(self, step_ns: int) -> Int64:
        """The places in `order` where a step of a kind begins, ascending."""
        found = [np.arange(min(len(self.order), 1))]
        for part in slices(len(self.order), self.time_ns):
            rows = slice(max(part.start - 1, 0), part.stop)
            fresh = (np.diff(self.time_ns[rows] // step_ns) != 0) | self.first[rows][1:]
            found.append(np.flatnonzero(fresh) + rows.start + 1)
        return np.concatenate(found)


@dataclass(frozen=True)
class _Alike:
    """Samples by what they have in common beside their time."""

    data: FlameData
    ranges: NDArray[np.signedinteger]
    """Per sample, which ranges it is in: equal numbers, equal ranges."""
    nested: NDArray[np.signedinteger]
    """Per sample, in how many paths of ranges."""
    alone: Int32
    """Per sample, which of `FlameData.across` it is, -1 for others."""
    bundles: Moments
    """A kind is what agrees in everything but time and weight; kinds ascend by `ranges`."""
    inside: Moments
    """A kind is what agrees in `ranges`; the same where there are none."""

    @classmethod
    def of(cls, data: FlameData) -> Self:
        ranges, nested = _inside(data)
        # A wait that reaches across edges of ranges stays one row, for where it ends matters.
        alone = np.full(len(data.node), -1, np.int32)
        alone[data.across.sample] = np.arange(len(data.across.sample))
        bundle = codes(ranges, data.event, data.thread, data.node, data.cause, data.likely, alone)
        bundles = Moments.of(bundle, data.time_ns)
        inside = Moments.of(ranges, data.time_ns) if len(data.ranges.path) else bundles
        return cls(data, ranges, nested, alone, bundles, inside)

    def fit(self, step: int, rows: int, runs: int) -> bool:
        """Whether there are at most `rows` rows, and surely no more runs of them in ranges."""
        if len(self.bundles.begins(step)) > rows:
            return False
        if not len(self.data.ranges.path):
            return True
        inside = self.inside
        return int(self.nested[inside.order[inside.begins(step)]].sum()) <= runs

    def merged(self, step: int) -> FlameData:
        """One row for each step and bundle, step by step; rows of a step stand by their ranges."""
        data, order = self.data, self.bundles.order
        begin = self.bundles.begins(step)
        moment = self.bundles.time_ns[begin] // step
        again = np.argsort(moment, kind="stable")
        row = order[begin][again]
        columns = {name: getattr(data, name)[row] for name in ("node", "event", "cause", "likely", "thread")}
        weight = np.add.reduceat(taken(data.weight, order), begin)[again]
        ranges, across = _runs(data, self.ranges, row), data.across.moved(self.alone[row])
        time_ns = moment[again] * step
        return replace(data, **columns, weight=weight, time_ns=time_ns, ranges=ranges, across=across, step_ns=step)


def _inside(data: FlameData) -> tuple[NDArray[np.signedinteger], NDArray[np.signedinteger]]:
    """Per sample a number for the set of ranges that it is in, and in how many it is.

    Sets differ by sums of one random number for each path; two of them are taken for one another with a chance
    of one in 10^13 where there are a million.
    """
    if not len(data.ranges.path):
        nothing = uniform(0, len(data.node), np.int8)
        return nothing, nothing
    chance, size = np.random.default_rng(0), len(data.node) + 1
    paths = int(data.ranges.path.max(initial=-1)) + 1
    sums = []
    for number in (chance.integers(1 << 62, size=paths), np.ones(paths, np.int64)):
        change = np.zeros(size, np.int64)
        np.add.at(change, data.ranges.first, number[data.ranges.path])
        np.add.at(change, data.ranges.last, -number[data.ranges.path])
        sums.append(np.cumsum(change)[:-1])
    return narrowed(np.unique(sums[0], return_inverse=True)[1].reshape(-1)), narrowed(sums[1])


def _runs(data: FlameData, inside: NDArray[np.signedinteger], row: Int32) -> RangeRows:
    """The ranges of merged rows, each of which is in the ranges of its sample `row`."""
    ranges = data.ranges
    if not len(ranges.path):
        return NO_RANGES
    example = np.unique(inside, return_index=True)[1]
    block = np.flatnonzero(np.diff(inside[row], prepend=-1))
    end = np.append(block[1:], len(row))
    # Per path the kinds that are in it, as their examples show; then the blocks of each of these kinds.
    ordered = np.argsort(example)
    run, place = numbers(*np.searchsorted(example[ordered], (ranges.first, ranges.last)))
    pairs = ascending(ranges.path[run].astype(np.int64) * len(example) + ordered[place])
    kind = inside[row][block]
    of_kind = np.argsort(kind, kind="stable")
    kind_of_pair = pairs % len(example)
    pair, place = numbers(*(np.searchsorted(kind[of_kind], kind_of_pair, side) for side in ("left", "right")))
    path, chosen = np.divmod(np.sort(pairs[pair] // len(example) * len(block) + of_kind[place]), len(block))
    joins = np.append(len(chosen) > 0, (np.diff(chosen) != 1) | (np.diff(path) != 0))[: len(chosen)]
    first = np.flatnonzero(joins)
    last = np.append(first[1:], len(chosen))[: len(first)] - 1
    columns = path[first], block[chosen[first]], end[chosen[last]]
    return RangeRows(*(column.astype(np.int32) for column in columns))
