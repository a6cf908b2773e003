"""Counters that were read when an event sampled (`perf record -e '{cpu-clock,page-faults}:S'`) → samples of their own.

A reading is what a counter has counted since the recording began, so what it grew by since the reading before is the
weight of the sample: of the event that sampled, and of each other event of its group, which gets a sample of its own.
How much was counted is exact then, also where samples were lost; where it happened is known only as far as that it
lies before this sample and behind the one before.

Source: perf_event_open(2), PERF_SAMPLE_READ; `deliver_sample_group` in tools/perf/util/session.c, whose sums these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.base.columns import ascending
from pinprof.base.units import format_counted
from pinprof.data import perf_format as perf
from pinprof.data.model import Int32, Int64
from pinprof.read.perf.header import EventSource
from pinprof.read.perf.passes import Raw
from pinprof.read.perf.samples import MAX_WEIGHT, RawSamples, Readings

_NAMELESS = (
    "The counters that were read at samples have no ids, so what the other events of their groups counted is not known."
)


def weighed(raw: Raw, sources: Sequence[EventSource]) -> tuple[Raw, frozenset[int], tuple[str, ...]]:
    """The recording with samples of every counter; which events only have such; notes.

    Samples of other events than the one that sampled follow all samples that were recorded.
    """
    notes = (_NAMELESS,) if any(_is_nameless(source) for source in sources) else ()
    readings, samples = raw.readings, raw.samples
    if not len(readings):
        return raw, frozenset(), notes
    counted = _sources_of(readings, sources)
    if unknown := int((counted < 0).sum()):
        what = format_counted(unknown, "reading of a counter belongs", "readings of counters belong")
        notes = (*notes, f"{what} to no event of the file.")
    growth = _growth(readings, samples, sources)
    own = counted == samples.source[readings.row]
    period = samples.period.copy()
    period[readings.row[own]] = growth[own]
    other = np.flatnonzero(~own & (counted >= 0) & (growth > 0))
    members = replace(
        samples.take(readings.row[other]),
        source=counted[other],
        period=growth[other],
        left_out=np.zeros(len(other), np.int64),
        # It is where the event that sampled happened.
        addr=np.zeros(len(other), np.uint64),
    )
    payload = raw.payload
    if len(payload):
        payload = np.concatenate([payload, np.zeros((len(other), payload.shape[1]), np.uint64)])
    alone = frozenset(ascending(counted[~own & (counted >= 0)]).tolist()) - set(ascending(samples.source).tolist())
    return replace(raw, samples=replace(samples, period=period).joined(members), payload=payload), alone, notes


def _is_nameless(source: EventSource) -> bool:
    attr = source.attr
    reads = attr.sample_type & perf.SAMPLE_READ and attr.read_format & perf.FORMAT_GROUP
    return bool(reads) and not attr.read_at_samples


def _sources_of(readings: Readings, sources: Sequence[EventSource]) -> Int32:
    """Per reading the number of the event that it is of; -1 for an id that none has."""
    of_id = {number: index for index, source in enumerate(sources) for number in source.ids}
    ids, at = np.unique(readings.id, return_inverse=True)
    return np.array([of_id.get(number, -1) for number in ids.tolist()], np.int32)[at]


def _growth(readings: Readings, samples: RawSamples, sources: Sequence[EventSource]) -> Int64:
    """By how much each counter grew since it was read before; an inherited one counts in each thread by itself."""
    inherited = np.array([source.attr.inherits for source in sources], np.bool_)[samples.source[readings.row]]
    thread = np.where(inherited, samples.tid[readings.row].astype(np.int64), -1)
    clock = samples.clock[readings.row]
    order = np.lexsort((np.arange(len(readings)), clock, thread, readings.id))
    ids, threads = readings.id[order], thread[order]
    value = np.minimum(readings.value[order], np.uint64(1 << 62)).astype(np.int64)
    first = np.append(True, (ids[1:] != ids[:-1]) | (threads[1:] != threads[:-1]))
    growth = np.diff(value, prepend=0)
    growth[first] = value[first]
    # What runs backwards, or further than anything does, is damage.
    growth[(growth < 0) | (growth >= MAX_WEIGHT)] = 0
    found = np.empty(len(readings), np.int64)
    found[order] = growth
    return found
