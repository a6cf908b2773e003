"""One run seen by two recorders, on one clock: perf's samples joined with what Nsight Systems recorded.

nsys counts nanoseconds from the start of its session. What moves its times onto the samples' clock is, in this order:

1. Ranges that both recordings have (NVTX in nsys, `ranges.jsonl` beside perf): the median of their starts' distances.
   Both recorders note a start within microseconds of each other, the end less so.
2. UTC: nsys knows that of its time 0 (TARGET_INFO_SESSION_START_TIME.utcEpochNs), perf that of an instant of its clock
   (header feature CLOCK_DATA, written for `-k CLOCK_MONOTONIC` since perf 5.10, to a microsecond). Measured on an
   H200: 2.4 µs off the shared ranges.
3. The system clock at nsys's time 0 (systemClockNs, schema 3.24.7 and later), where it places the activity inside the
   sampled time.

The second works for a program without NVTX.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pinprof.analyze.ranges.membership import sample_events
from pinprof.base.columns import ascending
from pinprof.base.errors import CaptureError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count
from pinprof.data.model import Capture, ClockSync, Int32, Int64, RangeTable, SampleTable

AGREEMENT_NS = 100_000
"""Starts of one range lie no further apart than this once the clocks are aligned; the rest does not match."""
MIN_MATCHES = 2
MIN_AGREEING = 0.5
"""The share of the ranges that could match that must."""
NEAR_NS = 1_000_000
"""How far UTC may be off before ranges are matched without it."""
INSTANCES = 256
"""Ranges of one name that are compared with each other."""
NAMES = 64
UTC_UNCERTAINTY_NS = 20_000
"""perf reads its two clocks one after the other, to a microsecond; nsys does not say how it reads its own."""
SYSTEM_UNCERTAINTY_NS = 1_000_000


@dataclass(frozen=True)
class Match:
    """How far nsys's times must move, by what, and how sure that is."""

    offset_ns: int
    uncertainty_ns: int
    by: str
    """`35 shared ranges`, `UTC`, `the system clock`."""


def join(perf: Capture, nsys: Capture) -> Capture:
    """The samples of perf with the activity and ranges of nsys, on the samples' clock; CaptureError if none is shared.

    `clock` tells the offset added to nsys's times and its uncertainty. Samples of processes that nsys did not trace,
    among them its own, are left out and counted. nsys's CPU samples stay behind: perf's say more.
    """
    if nsys.activity is None:
        raise CaptureError(
            f"{nsys.path} has no CUDA activity to join with the samples.",
            "Give an export of Nsight Systems.",
            "clock-join",
        )
    match = match_clocks(perf, nsys)
    if match is None:
        raise CaptureError(
            f"{perf.path} and {nsys.path} have no common clock, or are not from the same run.",
            "Record both at once with `perf record -k CLOCK_MONOTONIC`, preferably with NVTX ranges and ranges.jsonl.",
            "clock-join",
        )
    samples, left_out = _of_traced(perf, nsys)
    notes = [*perf.losses.notes, *nsys.losses.notes]
    if len(nsys.samples):
        notes.append(f"{format_count(len(nsys.samples))} CPU samples of nsys were left out: perf sampled the same run.")
    present = set(ascending(samples.tid).tolist())
    return replace(
        perf,
        manifest=replace(
            perf.manifest,
            command=perf.manifest.command if perf.manifest.scenario else nsys.manifest.command or perf.manifest.command,
            host={**nsys.manifest.host, **_known(perf.manifest.host)},
            collectors=(*perf.manifest.collectors, *nsys.manifest.collectors),
        ),
        samples=samples,
        ranges=_ranges(perf, nsys, match.offset_ns),
        threads={key: name for key, name in {**nsys.threads, **perf.threads}.items() if key[1] in present},
        clock=ClockSync(f"{perf.clock.source}, nsys joined by {match.by}", match.offset_ns, match.uncertainty_ns),
        losses=replace(
            perf.losses, other_processes=perf.losses.other_processes + left_out, notes=tuple(dict.fromkeys(notes))
        ),
        activity=nsys.activity.each(lambda table: table.moved(match.offset_ns)),
    )


def match_clocks(perf: Capture, nsys: Capture) -> Match | None:
    """The best match there is; None when there is none, or when it places all activity outside the sampled time."""
    activity = nsys.activity
    candidates = []
    if activity and activity.start_utc_ns is not None and perf.utc_offset_ns is not None:
        utc = Match(activity.start_utc_ns - perf.utc_offset_ns, UTC_UNCERTAINTY_NS, "UTC")
        # Where one recorder missed iterations of a regular program, only UTC tells which ones are the same.
        candidates += [
            match_ranges(perf.ranges, nsys.ranges, utc.offset_ns),
            match_ranges(perf.ranges, nsys.ranges),
            utc,
        ]
    else:
        candidates.append(match_ranges(perf.ranges, nsys.ranges))
    if activity and activity.start_system_ns is not None:
        candidates.append(Match(activity.start_system_ns, SYSTEM_UNCERTAINTY_NS, "the system clock"))
    return next((match for match in candidates if match and _overlaps(perf, nsys, match)), None)


def match_ranges(reference: RangeTable, moved: RangeTable, near_ns: int | None = None) -> Match | None:
    """The offset that brings most ranges of one name to their namesakes; None when too few agree.

    With `near_ns`, the offset is looked for within `NEAR_NS` of it.

    Every distance between ranges of one name is a vote; the densest `AGREEMENT_NS` of votes wins, so that missing
    ranges and repeated ones do no harm. The uncertainty spans nine tenths of the agreeing starts, and the distance of
    the ends where that is more.
    """
    starts, ends, possible = [], [], 0
    of_reference, of_moved = _instances(reference), _instances(moved)
    for name in [name for name in of_reference if name in of_moved][:NAMES]:
        ours, theirs = of_reference[name], of_moved[name]
        possible += min(len(ours), len(theirs))
        starts.append((reference.start_ns[ours][:, None] - moved.start_ns[theirs]).ravel())
        ends.append((reference.end_ns[ours][:, None] - moved.end_ns[theirs]).ravel())
    if not possible:
        return None
    distance = np.concatenate(starts)
    votes = np.sort(distance if near_ns is None else distance[np.abs(distance - near_ns) <= NEAR_NS])
    if len(votes) < MIN_MATCHES:
        return None
    support = np.searchsorted(votes, votes + AGREEMENT_NS, "right") - np.arange(len(votes))
    first = int(np.argmax(support))
    agreeing = votes[first : first + int(support[first])]
    offset = int(np.median(agreeing))
    near = np.abs(distance - offset) <= AGREEMENT_NS
    # Around a known offset a few that agree are enough, wherever one recorder missed the others.
    if len(agreeing) < max(MIN_MATCHES, MIN_AGREEING * possible if near_ns is None else 0):
        return None
    low, high = np.percentile(distance[near], (5, 95))
    apart = abs(float(np.median(np.concatenate(ends)[near])) - offset)
    uncertainty = round(max(float(high) - offset, offset - float(low), min(apart, float(AGREEMENT_NS)), 1.0))
    return Match(offset, uncertainty, f"{len(agreeing)} shared ranges")


def _instances(table: RangeTable) -> dict[str, Int64]:
    """Rows of each name, the first `INSTANCES` of them."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.name):
        named = rows.setdefault(name, [])
        if len(named) < INSTANCES:
            named.append(row)
    return {name: np.array(named, np.int64) for name, named in rows.items()}


def _overlaps(perf: Capture, nsys: Capture, match: Match) -> bool:
    assert nsys.activity is not None
    times = [table.start_ns for table in (nsys.activity.calls, nsys.activity.gpu_ops, nsys.ranges) if len(table)]
    if not len(perf.samples) or not times:
        return True
    first, last = (
        int(pick(column)) for pick, column in ((np.min, np.concatenate(times)), (np.max, np.concatenate(times)))
    )
    sampled = perf.samples.time_ns
    return first + match.offset_ns <= int(sampled.max()) and last + match.offset_ns >= int(sampled.min())


def _of_traced(perf: Capture, nsys: Capture) -> tuple[SampleTable, int]:
    """Samples of the processes that nsys traced and of kernel threads, and how many others there were."""
    sampled = np.intersect1d(_traced(nsys), perf.samples.pid).tolist()
    if not sampled:
        # Another PID namespace: nothing tells whose samples they are.
        return perf.samples, 0
    events = sample_events(perf)
    mine = np.any([events.counted(pid) for pid in sampled], axis=0)
    return perf.samples.take(mine), int(np.count_nonzero(~mine))


def _traced(nsys: Capture) -> Int32:
    activity = nsys.activity
    assert activity is not None
    tables = (activity.calls, activity.gpu_ops, activity.faults, activity.os_calls, nsys.ranges, nsys.samples)
    pids = ascending(np.concatenate([table.pid for table in tables]))
    return pids[pids > 0]


def _ranges(perf: Capture, nsys: Capture, offset_ns: int) -> RangeTable:
    """The ranges of nsys, which name process and thread; those beside perf where they are more.

    Some versions of nsys miss ranges of some NVTX clients: 2022.4 those of the Python package since 0.2.17.
    """
    if len(perf.ranges) > len(nsys.ranges):
        return perf.ranges
    return nsys.ranges.moved(offset_ns)


def _known(facts: Any) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value not in (None, [], ())}
