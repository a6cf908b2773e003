"""Slices that a trace marks at both ends, from events in any order: the format has them sorted by whoever reads them.

Begin and end of a thread's slices (`B`, `E`) nest, and so do those of asynchronous spans that share an id (`b`, `e`,
and of old traces `S`, `F`). Nothing of an event but what makes a slice is kept until its end is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pinprof.base.numbering import Numbering
from pinprof.data.model import Int64


class Slice(NamedTuple):
    """One slice."""

    what: Mapping[str, Any]
    """The event that begins it, as far as that was kept."""
    start_ns: int
    length_ns: int


class TraceMarks:
    """Collects marks and pairs them."""

    def __init__(self) -> None:
        self._time, self._track = array("q"), array("i")
        self._what = array("i")
        """The number of the event that begins a slice, -1 at an end."""
        self._tracks = Numbering[Hashable]()
        self._kept: list[Mapping[str, Any]] = []
        self._number: dict[Hashable, int] = {}
        self.unclosed = 0
        """Slices that never end; known after `slices`."""
        self.unbegun = 0
        """Ends of nothing; known after `slices`."""

    def __len__(self) -> int:
        return len(self._time)

    def begin(self, track: Hashable, time_ns: int, what: Mapping[str, Any]) -> None:
        """A slice of a track begins; events that say the same are kept once."""
        key = tuple(sorted((name, value) for name, value in what.items() if not isinstance(value, dict)))
        number = None if any(isinstance(value, dict) for value in what.values()) else self._number.get(key)
        if number is None:
            number = len(self._kept)
            self._kept.append(what)
            self._number.setdefault(key, number)
        self._put(track, time_ns, number)

    def end(self, track: Hashable, time_ns: int) -> None:
        """The innermost open slice of a track ends."""
        self._put(track, time_ns, -1)

    def _put(self, track: Hashable, time_ns: int, what: int) -> None:
        self._time.append(time_ns)
        self._track.append(self._tracks.number(track))
        self._what.append(what)

    def slices(self) -> Iterator[Slice]:
        """Those that end, by track."""
        time, track = np.array(self._time, np.int64), np.array(self._track, np.int32)
        by_track = np.argsort(track, kind="stable")
        bounds = np.flatnonzero(np.diff(track[by_track])) + 1
        for rows in np.split(by_track, bounds):
            ordered = rows
            if (np.diff(time[rows]) < 0).any():
                # Of those at one time, ends come first: what ends there has begun before.
                begins = np.array(self._what, np.int32)[rows] >= 0
                ordered = rows[np.lexsort((begins, time[rows]))]
            yield from self._paired(ordered.tolist(), time)

    def _paired(self, rows: list[int], time: Int64) -> Iterator[Slice]:
        stack: list[int] = []
        early, early_ns = 0, 0
        """Ends without a slice that is open; one may end a slice of no length that comes behind it."""
        for row in rows:
            at, what = int(time[row]), self._what[row]
            if what < 0 and stack:
                begun = stack.pop()
                yield Slice(self._kept[self._what[begun]], int(time[begun]), at - int(time[begun]))
            elif what < 0:
                self.unbegun += early_ns != at and early
                early, early_ns = (early + 1 if early_ns == at else 1), at
            elif early and early_ns == at and not stack:
                early -= 1
                yield Slice(self._kept[what], at, 0)
            else:
                stack.append(row)
        self.unclosed += len(stack)
        self.unbegun += early
