"""Intervals thinned for drawing: a page of a million copies stays small, and nothing long gets lost.

The longest intervals stay as they are; of the others, those of one style that begin in the same cell of time become
one, which says how many it stands for and how much of it they fill.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from pinprof.analyze.groups import Groups, group
from pinprof.base.columns import in_order, packed, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64

MERGED = -1
"""`name` of an interval that stands for several."""


@dataclass(frozen=True)
class Spans:
    """Intervals in order of their start, as columns of one length; times in nanoseconds."""

    start_ns: Int64
    end_ns: Int64
    style: Int32
    """Index into a list of styles."""
    name: Int32
    """Index into a list of names; MERGED where the interval stands for several."""
    depth: Int32
    """Nesting, 0 outermost."""
    size_bytes: Int64
    """0 where a size means nothing."""
    count: Int64
    """Intervals that this one stands for."""
    busy_ns: Int64
    """Sum of their lengths."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, rows: Int64) -> Spans:
        """The rows of an index array."""
        return Spans(**{column: taken(values, rows) for column, values in vars(self).items()})

    def columns(self) -> dict[str, list[int]]:
        """As the page's scripts read them: starts as steps from one to the next, columns without content empty."""
        merged = bool((self.count > 1).any())
        return {
            "start": np.diff(self.start_ns, prepend=0).tolist(),
            "length": (self.end_ns - self.start_ns).tolist(),
            "style": self.style.tolist(),
            "name": self.name.tolist(),
            "depth": self.depth.tolist() if self.depth.any() else [],
            "size": self.size_bytes.tolist() if self.size_bytes.any() else [],
            "count": self.count.tolist() if merged else [],
            "busy": self.busy_ns.tolist() if merged else [],
        }

    @classmethod
    def single(
        cls,
        start_ns: Int64,
        end_ns: Int64,
        style: Int32,
        name: Int32,
        depth: Int32 | None = None,
        size_bytes: Int64 | None = None,
    ) -> Self:
        """Intervals that each stand for themselves, sorted; one that ends before it starts becomes an instant."""
        order = in_order(start_ns)
        start = start_ns[order]
        end = np.maximum(end_ns[order], start)
        nothing = uniform(0, len(start), np.int64)
        return cls(
            start,
            end,
            packed(style[order].astype(np.int32, copy=False)),
            packed(name[order].astype(np.int32, copy=False)),
            uniform(0, len(start), np.int32) if depth is None else depth[order].astype(np.int32, copy=False),
            nothing if size_bytes is None else size_bytes[order],
            uniform(1, len(start), np.int64),
            end - start,
        )


@dataclass(frozen=True)
class Thinned:
    """Intervals of which some stand for several."""

    spans: Spans
    first: Int64
    """Per interval, the first row that it stands for."""
    of: Int64
    """Per row, the interval that stands for it."""


def thin(spans: Spans, limit: int, apart: Int64 | None = None) -> Thinned:
    """At most about `limit` intervals of one look from afar.

    Intervals of different style, depth or `apart` never become one.
    """
    if len(spans) <= limit:
        return Thinned(spans, np.arange(len(spans)), np.arange(len(spans)))
    kept = np.zeros(len(spans), np.bool_)
    kept[np.argpartition(-spans.busy_ns, limit // 2)[: limit // 2]] = True
    rest = np.flatnonzero(~kept)
    part = spans.take(rest)
    kinds = group(part.style, part.depth, uniform(0, len(rest), np.int64) if apart is None else apart[rest])
    # Cells of time become coarser until few enough are left; what was merged once is merged further.
    start = part.start_ns - spans.start_ns[0]
    cells = group(kinds.of, start // max(int(start[-1]) // limit, 1))
    of = cells.of
    while len(cells) > max(limit // 2, len(kinds)):
        cells = group(cells.keys[0], cells.keys[1] // 2)
        of = cells.of[of]
    merged = Groups(cells.keys, of, np.bincount(of).astype(np.int64))
    first = merged.first(rest)
    whole = spans.take(first)
    combined = replace(
        whole,
        end_ns=merged.max(part.end_ns),
        name=np.where(merged.count == 1, whole.name, MERGED).astype(np.int32),
        size_bytes=merged.sum(part.size_bytes),
        count=merged.sum(part.count),
        busy_ns=merged.sum(part.busy_ns),
    )
    both = {
        column: np.concatenate([values, getattr(combined, column)])
        for column, values in vars(spans.take(np.flatnonzero(kept))).items()
    }
    row = np.concatenate([np.flatnonzero(kept), first])
    order = np.argsort(both["start_ns"], kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    of = np.empty(len(spans), np.int64)
    of[kept] = place[: np.count_nonzero(kept)]
    of[rest] = place[np.count_nonzero(kept) + merged.of]
    return Thinned(Spans(**{column: values[order] for column, values in both.items()}), row[order], of)
