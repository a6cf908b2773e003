"""In which mapping the addresses of page faults lie, by lists of what processes had mapped before and after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.base.columns import Int64, UInt8, UInt64, ascending
from pinprof.data.mapped import Mapped
from pinprof.data.memory_log import MappingTable
from pinprof.data.model import SampleTable
from pinprof.read.perf.places import Places


def with_mappings(samples: SampleTable, lists: MappingTable) -> SampleTable:
    """The samples with what their data addresses lie in: known where the list before a sample and the one after it,
    if there is one, say the same. What was mapped and given back between two lists is in none.
    """
    addressed = np.flatnonzero(samples.address > 0)
    if not len(lists) or not len(addressed):
        return samples
    mapped = np.full(len(samples), Mapped.UNKNOWN, np.uint8)
    for pid in ascending(lists.pid).tolist():
        rows, mine = addressed[samples.pid[addressed] == pid], lists.take(lists.pid == pid)
        mapped[rows] = _at(samples.time_ns[rows], samples.address[rows], mine)
    return replace(samples, mapped=mapped)


def _at(time: Int64, address: UInt64, lists: MappingTable) -> UInt8:
    """`time` ascends."""
    times, rows = np.unique(lists.time_ns, return_index=True)
    bounds = [*np.searchsorted(time, times, side="left").tolist(), len(time)]
    ends = [*rows[1:].tolist(), len(lists)]
    first, then = np.zeros((2, len(time)), np.int64)
    for number, (begin, end) in enumerate(zip(rows.tolist(), ends, strict=True)):
        part, places = lists.take(slice(begin, end)), Places()
        for start, stop, kind in zip(part.start.tolist(), part.end.tolist(), part.kind.tolist(), strict=True):
            places.put(start, stop, kind)
        before = slice(bounds[number - 1] if number else 0, bounds[number])
        behind = slice(bounds[number], bounds[number + 1])
        then[before] = np.maximum(places.at(address[before]), Mapped.UNKNOWN)
        first[behind] = np.maximum(places.at(address[behind]), Mapped.UNKNOWN)
    then[bounds[-2] :] = first[bounds[-2] :]
    return np.where(first == then, first, np.int64(Mapped.UNKNOWN)).astype(np.uint8)
