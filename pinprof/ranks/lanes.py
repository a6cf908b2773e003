"""What ranks did over time, each as one lane, coarse enough to draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.base.columns import Int16, Int64, ascending
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.rank_run import RankRun
from pinprof.ranks.results import UNSEEN, WAITS, RankLane

BINS, MOST_PIECES = 600, 12_000
"""Pieces of time in a lane, and in all lanes together."""


def lane_of(run: RankRun, rank: int, meetings: Meetings, begin: int, end: int, ranks: int) -> RankLane:
    """One rank between two instants: what most of each piece of time went to, equal neighbours as one."""
    bins = max(60, min(BINS, MOST_PIECES // max(ranks, 1)))
    width = max((end - begin) / bins, 1.0)
    start, stop, what = _pieces(run, rank, meetings)
    weight = np.zeros((bins, len(_codes := ascending(what))), np.float64)
    code = np.searchsorted(_codes, what)
    first = np.clip(((start - begin) / width).astype(np.int64), 0, bins - 1)
    last = np.clip(((stop - begin) / width).astype(np.int64), 0, bins - 1)
    inside = (stop > begin) & (start < end)
    start, stop, code, first, last = (column[inside] for column in (start, stop, code, first, last))
    # Both ends by their parts, whole pieces between them by their number.
    edge = begin + (first + 1) * width
    np.add.at(weight, (first, code), np.minimum(stop, edge) - np.maximum(start, begin + first * width))
    long = last > first
    np.add.at(weight, (last[long], code[long]), stop[long] - (begin + last[long] * width))
    for row in np.flatnonzero(last > first + 1).tolist():
        weight[first[row] + 1 : last[row], code[row]] += width
    most = weight.argmax(axis=1) if weight.shape[1] else np.zeros(bins, np.int64)
    known = weight.sum(axis=1) > 0
    chosen = np.where(known, _codes[most] if len(_codes) else UNSEEN, UNSEEN).astype(np.int16)
    change = np.flatnonzero(np.diff(chosen.astype(np.int64), prepend=99_999))
    edges = begin + (np.append(change, bins) * width).astype(np.int64)
    lane = RankLane(edges[:-1], edges[1:], chosen[change])
    return lane.take(lane.cause != UNSEEN)


def _pieces(run: RankRun, rank: int, meetings: Meetings) -> tuple[Int64, Int64, Int16]:
    """(start, end, cause or WAITS) of what the thread did, and when its GPU waited for others."""
    spent = run.spent
    mine = np.flatnonzero(meetings.gpu & meetings.present[:, rank] & (meetings.wait_ns[:, rank] > 0))
    arrival = meetings.arrival_ns[mine, rank].astype(np.int64)
    start = np.concatenate([spent.start_ns, arrival])
    stop = np.concatenate([spent.end_ns, meetings.release_ns[mine]])
    what = np.concatenate([np.where(spent.outside, WAITS, spent.cause), np.full(len(mine), WAITS)])
    return start, stop, what.astype(np.int16)


def lanes_of(
    runs: Sequence[RankRun], meetings: Meetings, begin: int, end: int, shown: Sequence[int]
) -> dict[int, RankLane]:
    """Rank's number → its lane, of the columns in `shown`."""
    return {runs[rank].number: lane_of(runs[rank], rank, meetings, begin, end, len(shown)) for rank in shown}
