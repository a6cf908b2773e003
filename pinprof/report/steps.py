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
from pinprof.base.columns import ascending, in_parts, narrowed, repeated, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64
from pinprof.report.flame import NO_ACROSS, NO_RANGES, FlameData, RangeRows
from pinprof.report.moments import Moments

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
    alike = _Alike.of(data, rows, runs)
    if alike is not None:
        # The longest one is longer than the recording: all rows are of one step then.
        steps = STEPS_NS[: bisect_right(STEPS_NS, int(data.time_ns[-1])) + 1]
        number = bisect_left(steps, True, key=lambda step: alike.fit(step, rows, runs))
        for step in steps[number:]:
            made = alike.merged(step)
            if len(made.packed[1]) <= size:
                return made
    bare = replace(data, ranges=NO_RANGES, across=NO_ACROSS)
    return in_steps(bare, rows, runs, size) if len(data.ranges.path) else bare.merged()


@dataclass(frozen=True)
class _Alike:
    """Samples by what they have in common beside their time."""

    data: FlameData
    sets: _Sets
    alone: Int32
    """Per sample, which of `FlameData.across` it is, -1 for others."""
    bundles: Moments
    """A kind is what agrees in everything but time and weight; kinds ascend by `sets`."""
    inside: Moments
    """A kind is a set of ranges; the same where there are none."""

    @classmethod
    def of(cls, data: FlameData, rows: int, runs: int) -> Self | None:
        """None where no step makes few enough rows, or runs of them in ranges."""
        sets = _Sets.of(data)
        # A wait that reaches across edges of ranges stays one row, for where it ends matters.
        alone = _places(data.across.sample, len(data.node))
        kind = codes(sets.of_sample, data.event, data.thread, data.node, data.cause, data.likely, alone)
        bundles = Moments.of(kind, data.time_ns, rows)
        # Each set but that of no range is a run at least.
        inside = Moments.of(sets.of_sample, data.time_ns, runs + 1) if len(data.ranges.path) else bundles
        return cls(data, sets, alone, bundles, inside) if bundles and inside else None

    def fit(self, step: int, rows: int, runs: int) -> bool:
        """Whether there are at most `rows` rows, and surely no more runs of them in ranges."""
        if not self.bundles.are_at_most(rows, step):
            return False
        if not len(self.data.ranges.path):
            return True
        nested, inside = self.sets.nested, self.inside
        return sum(int(nested[inside.kind[first]].sum()) for first in inside.begins(step)) <= runs

    def merged(self, step: int) -> FlameData:
        """One row for each step and bundle, step by step; rows of a step stand by their ranges."""
        data = self.data
        sums = self.bundles.added_up(step, data.weight)
        ranges, across = _runs(data, self.sets, sums.row), data.across.moved(taken(self.alone, sums.row))
        stepped = replace(data, ranges=ranges, across=across, step_ns=step)
        return stepped.with_sums(sums, sums.moment * step)


def _places(sample: Int32, count: int) -> Int32:
    """Per sample of `count` its place among some ascending ones, -1 for others."""
    if not len(sample):
        return uniform(-1, count, np.int32)

    def places(part: slice) -> Int32:
        first, last = np.searchsorted(sample, (part.start, part.stop))
        found = np.full(part.stop - part.start, -1, np.int32)
        found[sample[first:last] - part.start] = np.arange(first, last)
        return found

    return in_parts(places, count, np.int32)


@dataclass(frozen=True)
class _Sets:
    """Which ranges samples are in: equal sets have one number."""

    of_sample: NDArray[np.signedinteger]
    nested: Int64
    """Per set, how many paths of ranges it has; columns with the next."""
    example: Int64
    """The first sample that is in it."""

    @classmethod
    def of(cls, data: FlameData) -> Self:
        """Sets differ by sums of one random number for each path; two of them are taken for one another with a chance
        of one in 10^13 where there are a million.
        """
        ranges, count = data.ranges, len(data.node)
        if not len(ranges.path):
            return cls(uniform(0, count, np.int8), np.zeros(1, np.int64), np.zeros(1, np.int64))
        chance, paths = np.random.default_rng(0), int(ranges.path.max(initial=-1)) + 1
        # Between edges all samples are in the same ranges.
        edge = np.unique(np.concatenate([[0], ranges.first, ranges.last, [count]]))
        first, last = np.searchsorted(edge, ranges.first), np.searchsorted(edge, ranges.last)
        sums = []
        for number in (chance.integers(1 << 62, size=paths), np.ones(paths, np.int64)):
            change = np.zeros(len(edge), np.int64)
            np.add.at(change, first, number[ranges.path])
            np.add.at(change, last, -number[ranges.path])
            sums.append(np.cumsum(change)[:-1])
        _, example, place = np.unique(sums[0], return_index=True, return_inverse=True)
        return cls(repeated(narrowed(place.reshape(-1)), edge), sums[1][example], edge[example])


def _runs(data: FlameData, sets: _Sets, row: Int64) -> RangeRows:
    """The ranges of merged rows, each of which is in the ranges of its sample `row`."""
    ranges = data.ranges
    if not len(ranges.path):
        return NO_RANGES
    inside, example = taken(sets.of_sample, row), sets.example
    block = np.flatnonzero(np.diff(inside, prepend=-1))
    end = np.append(block[1:], len(row))
    # Per path the kinds that are in it, as their examples show; then the blocks of each of these kinds.
    ordered = np.argsort(example)
    run, place = numbers(*np.searchsorted(example[ordered], (ranges.first, ranges.last)))
    pairs = ascending(ranges.path[run].astype(np.int64) * len(example) + ordered[place])
    kind = inside[block]
    of_kind = np.argsort(kind, kind="stable")
    kind_of_pair = pairs % len(example)
    pair, place = numbers(*(np.searchsorted(kind[of_kind], kind_of_pair, side) for side in ("left", "right")))
    path, chosen = np.divmod(np.sort(pairs[pair] // len(example) * len(block) + of_kind[place]), len(block))
    joins = np.append(len(chosen) > 0, (np.diff(chosen) != 1) | (np.diff(path) != 0))[: len(chosen)]
    first = np.flatnonzero(joins)
    last = np.append(first[1:], len(chosen))[: len(first)] - 1
    columns = path[first], block[chosen[first]], end[chosen[last]]
    return RangeRows(*(column.astype(np.int32) for column in columns))
