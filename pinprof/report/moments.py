"""Rows of several kinds over time, and the sums of those of one kind in one step of time.

There may be many millions of rows, of which a part at a time is looked at: since they are in the order of time, it is
enough to know of each row when the one before of its kind was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Table, growing, slices, stable_order
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int64

_NEVER = np.iinfo(np.int64).min
_HELD = 1 << 18
"""Sums of parts that are put together in one go."""


@dataclass(frozen=True, eq=False, repr=False)
class MomentSums(Table):
    """Rows of one kind and step, added up."""

    moment: Int64
    """The number of the step, ascending."""
    kind: Int64
    """Ascending within a step."""
    row: Int64
    """The first of the rows."""
    weight: Int64

    def added(self) -> Self:
        """What agrees in step and kind as one; before, kinds need not ascend."""
        order = stable_order(self.kind)
        kind, moment = self.kind[order], self.moment[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (kind[1:] != kind[:-1]) | (moment[1:] != moment[:-1])
        begin = np.flatnonzero(fresh)
        weight = np.add.reduceat(self.weight[order], begin) if len(begin) else self.weight
        again = stable_order(moment[begin])
        begin = begin[again]
        return type(self)(moment[begin], kind[begin], self.row[order[begin]], weight[again])


def added_up(kind: NDArray[np.signedinteger], time_ns: Int64, step_ns: int, weight: Int64) -> MomentSums:
    """The sums of rows in the order of time."""
    done: list[MomentSums] = []
    held, count, room = [MomentSums.empty()], 0, _HELD
    for part in slices(len(kind), kind, time_ns, weight):
        row = np.arange(part.start, part.stop)
        held.append(MomentSums(time_ns[part] // step_ns, kind[part].astype(np.int64), row, weight[part]).added())
        count += len(held[-1])
        if count > room:
            # The last step may go on in the next part.
            whole = held[0].joined(*held[1:]).added()
            over = int(np.searchsorted(whole.moment, whole.moment[-1]))
            done.append(whole.take(slice(over)))
            held = [whole.take(slice(over, None))]
            count = len(held[0])
            room = count + _HELD
    return MomentSums.empty().joined(*done, held[0].joined(*held[1:]).added())


@dataclass(frozen=True)
class Moments:
    """Rows in the order of time; columns of one length."""

    kind: NDArray[np.signedinteger]
    """No negative numbers."""
    time_ns: Int64
    before_ns: Int64
    """When the row before of the same kind was."""

    @classmethod
    def of(cls, kind: NDArray[np.signedinteger], time_ns: Int64, most: int) -> Self | None:
        """None where rows are of more than `most` kinds, which no step makes fewer."""
        before, latest = growing(np.int64, len(kind)), _Latest()
        for part in slices(len(kind), kind, time_ns):
            before.extend(latest.before(kind[part], time_ns[part]))
            if len(latest.kinds) > most:
                break
        known = before.whole()
        return cls(kind, time_ns, known) if len(latest.kinds) <= most else None

    def begins(self, step_ns: int) -> Iterator[Int64]:
        """The rows with which a step of a kind begins, ascending, a part at a time."""
        for part in slices(len(self.kind), self.time_ns, self.before_ns):
            fresh = self.time_ns[part] // step_ns != self.before_ns[part] // step_ns
            yield np.flatnonzero(fresh) + part.start

    def are_at_most(self, most: int, step_ns: int) -> bool:
        """Whether rows of one kind and step, added up, are no more than that."""
        count = 0
        for rows in self.begins(step_ns):
            count += len(rows)
            if count > most:
                return False
        return True

    def added_up(self, step_ns: int, weight: Int64) -> MomentSums:
        """The sums of a column over rows of one kind and step."""
        return added_up(self.kind, self.time_ns, step_ns, weight)


class _Latest:
    """When the last row of each kind was."""

    def __init__(self) -> None:
        self.kinds = np.zeros(0, np.int64)
        """Ascending."""
        self._time = np.zeros(0, np.int64)

    def before(self, kind: NDArray[np.signedinteger], time_ns: Int64) -> Int64:
        """Per row, in the order of time, when the one before of its kind was; it goes on from what came before."""
        order = stable_order(kind)
        kinds, times = kind[order].astype(np.int64), time_ns[order]
        first = np.ones(len(kinds), np.bool_)
        first[1:] = kinds[1:] != kinds[:-1]
        earlier = np.empty(len(times), np.int64)
        earlier[1:] = times[:-1]
        earlier[first] = self._exchanged(kinds[first], times[np.append(first[1:], True)])
        found = np.empty(len(times), np.int64)
        found[order] = earlier
        return found

    def _exchanged(self, kinds: Int64, times: Int64) -> Int64:
        """The times of ascending kinds so far, for these new ones."""
        place = np.searchsorted(self.kinds, kinds)
        known = np.zeros(len(kinds), np.bool_)
        if len(self.kinds):
            known = self.kinds[np.minimum(place, len(self.kinds) - 1)] == kinds
        found = np.full(len(kinds), _NEVER, np.int64)
        found[known] = self._time[place[known]]
        self._time[place[known]] = times[known]
        fresh = ~known
        if fresh.any():
            self.kinds = np.insert(self.kinds, place[fresh], kinds[fresh])
            self._time = np.insert(self._time, place[fresh], times[fresh])
        return found
