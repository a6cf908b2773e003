"""CUDA calls of each scope by name: how often, how long, for how many bytes, and where their time went."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.activity.calls import Calls, Samples
from pinprof.analyze.activity.results import CallError, CallFaults, CallResult, CallSite, CallSplit, ContextInit, Spread
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.groups import group
from pinprof.analyze.ranges.membership import Events, Scopes
from pinprof.analyze.ranges.sums import summed
from pinprof.base.columns import uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.cuda_errors import error_name
from pinprof.data.gpu_functions import purpose_of
from pinprof.data.model import Bool, Capture, Int64


def summarise_calls(
    capture: Capture, calls: Calls, samples: Samples | None, scopes: Scopes
) -> tuple[tuple[CallResult, ...], ...]:
    """Per scope, the calls by name, longest total first; calls that created a context are left out."""
    ordinary = np.flatnonzero(~calls.initial)
    events = Events(calls.table.start_ns[ordinary], calls.table.pid[ordinary])
    duration, size = calls.duration_ns[ordinary], calls.size_bytes[ordinary]
    one = uniform(1, len(ordinary), np.int64)
    amounts = (one, duration, (size >= 0).astype(np.int64), np.maximum(size, 0))
    purposes = [purpose_of(name) for name in calls.names]
    parts = _Parts(calls, ordinary, scopes)
    errors, sites, faults = _errors(parts), _sites(parts), _faults(parts)
    inside = _sampled(samples, parts)
    results: list[list[CallResult]] = [[] for _ in range(len(scopes))]
    for cells in summed(scopes, events, calls.name[ordinary], amounts, duration):
        spread = cells.spreads
        assert spread is not None
        columns = (cells.scope, cells.code, *cells.amounts, spread.least, spread.median, spread.most, spread.first)
        for scope, name, count, total, sized, amount, least, median, most, first in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            cell = scope, name
            results[scope].append(
                CallResult(
                    name=calls.names[name],
                    purpose=purposes[name],
                    count=count,
                    time_ns=Spread(total, least, median, most),
                    first_ns=first,
                    size_bytes=amount if sized else None,
                    failures=sum(error.count for error in errors.get(cell, ())),
                    split=_split(capture, samples, inside[cell], total) if samples and cell in inside else None,
                    errors=errors.get(cell, ()),
                    sites=sites.get(cell, ()),
                    faults=faults.get(cell),
                )
            )
    return tuple(tuple(sorted(entries, key=lambda entry: -entry.time_ns.total)) for entries in results)


_Cells = dict[tuple[int, int], list[tuple[int, ...]]]
"""(scope, index of a name) → rows of (another number, sums), ascending by that number."""


@dataclass(frozen=True)
class _Parts:
    """Takes the calls of each scope and name apart by another number."""

    calls: Calls
    ordinary: Int64
    """The rows of the calls that count."""
    scopes: Scopes

    def by(self, row: Int64, number: NDArray[np.integer], *amounts: Int64) -> _Cells:
        """Calls `row`, in any order and any number of times, by `number`, with the sums of `amounts`."""
        found: _Cells = {}
        if not len(row):
            return found
        kinds, table = group(self.calls.name[row], number), self.calls.table
        for cells in summed(self.scopes, Events(table.start_ns[row], table.pid[row]), kinds.of, amounts):
            name, other = (key[cells.code] for key in kinds.keys)
            columns = (cells.scope, name, other, *cells.amounts)
            for scope, named, *figures in zip(*(column.tolist() for column in columns), strict=True):
                found.setdefault((scope, named), []).append(tuple(figures))
        return found

    def where(self, chosen: Bool) -> tuple[Int64, Int64]:
        """The rows of chosen calls (a mask over all), and a column of ones."""
        row = self.ordinary[chosen[self.ordinary]]
        return row, uniform(1, len(row), np.int64)


def _faults(parts: _Parts) -> dict[tuple[int, int], CallFaults]:
    """Page faults inside calls, as far as they are known."""
    table = parts.calls.table
    if table.minor_faults is None or table.major_faults is None:
        return {}
    row, one = parts.where(table.minor_faults >= 0)
    amounts = (one, table.minor_faults[row].astype(np.int64), table.major_faults[row].astype(np.int64))
    return {
        cell: CallFaults(*figures) for cell, ((_, *figures),) in parts.by(row, np.zeros_like(row), *amounts).items()
    }


def _errors(parts: _Parts) -> dict[tuple[int, int], tuple[CallError, ...]]:
    """What failed calls returned, most frequent first."""
    row, one = parts.where(parts.calls.failed)
    names = parts.calls.names
    return {
        (scope, name): tuple(
            CallError(error_name(names[name], status), status, count)
            for status, count in sorted(found, key=lambda part: -part[1])
        )
        for (scope, name), found in parts.by(row, parts.calls.table.status[row], one).items()
    }


def _sites(parts: _Parts) -> dict[tuple[int, int], tuple[CallSite, ...]]:
    """Who made the calls, most time first."""
    table = parts.calls.table
    if table.site is None:
        return {}
    row, one = parts.where(table.site >= 0)
    found = parts.by(row, table.site[row], one, table.end_ns[row] - table.start_ns[row])
    return {
        cell: tuple(
            CallSite(table.sites[site].text, count, time)
            for site, count, time in sorted(places, key=lambda part: -part[2])
        )
        for cell, places in found.items()
    }


def _sampled(samples: Samples | None, parts: _Parts) -> _Cells:
    """Leaf, weight and samples of what was sampled inside calls."""
    if samples is None:
        return {}
    mine = ~parts.calls.initial[samples.call]
    return parts.by(samples.call[mine], samples.leaf[mine], samples.weight[mine], samples.count[mine])


def _split(capture: Capture, samples: Samples, inside: Sequence[tuple[int, ...]], total: int) -> CallSplit:
    """What was sampled inside calls that took `total`, as (leaf, weight, samples) ascending by leaf."""
    leaves = {CATEGORIES[leaf].name: weight for leaf, weight, _ in sorted(inside, key=lambda part: -part[1])}
    event, waits = capture.events[samples.event], any(other.spans for other in capture.events)
    count = sum(count for *_, count in inside)
    return CallSplit(event, count, leaves, total - sum(leaves.values()), waits)


def context_init(capture: Capture, calls: Calls, samples: Samples | None) -> tuple[ContextInit, ...]:
    """The calls that created a context, in order of time."""
    rows = np.flatnonzero(calls.initial)
    duration = calls.duration_ns[rows]
    inside: dict[int, list[tuple[int, ...]]] = {}
    if samples is not None:
        columns = (samples.call, samples.leaf, samples.weight, samples.count)
        mine = calls.initial[samples.call]
        for row, *figures in zip(*(column[mine].tolist() for column in columns), strict=True):
            inside.setdefault(row, []).append(tuple(figures))
    return tuple(
        ContextInit(
            name=calls.names[calls.name[row]],
            pid=int(calls.table.pid[row]),
            start_ns=int(calls.table.start_ns[row]),
            duration_ns=int(duration[number]),
            typical_ns=calls.typical_ns.get(row),
            split=_split(capture, samples, inside[row], int(duration[number])) if samples and row in inside else None,
        )
        for number, row in enumerate(rows.tolist())
    )
