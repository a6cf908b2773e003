"""What a saving in some ranks saves the job: the ranks' way through their meetings, walked again without that time.

Between two meetings a rank does its own work, and a meeting is over when the last rank has come. So the job is as long
as its longest way. A saving shortens the way of its rank; what the job gains is known only at the end of all, since
the next rank decides where the first one comes earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinprof.analyze.opportunities.results import Opportunity
from pinprof.base.columns import Float64
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.rank_run import RankRun, Savings
from pinprof.ranks.results import JobOpportunity

MOST_MEETINGS, MOST_CELLS, MOST_OPPORTUNITIES = 20_000, 1 << 21, 16
"""Meetings that are walked through, and these times ranks: others cost so little that they change no way."""


def job_opportunities(runs: Sequence[RankRun], meetings: Meetings) -> tuple[JobOpportunity, ...]:
    """The opportunities of all ranks by what they save the job; one that several ranks have at one line is one."""
    if not len(meetings):
        return ()
    same: dict[tuple[str, str, int, str], list[tuple[int, Opportunity, Savings]]] = {}
    for rank, run in enumerate(runs):
        for one, savings in zip(run.found, run.savings, strict=True):
            key = (one.cure.id, one.site.file.rpartition("/")[2], one.site.line, one.site.function)
            same.setdefault(key, []).append((rank, one, savings))
    heaviest = sorted(same.values(), key=lambda those: -sum(one.saving.likely_ns for _, one, _ in those))
    heaviest = heaviest[:MOST_OPPORTUNITIES]
    most = min(MOST_MEETINGS, max(MOST_CELLS // len(runs), 1))
    longest = np.nanmax(meetings.wait_ns, axis=1)
    kept = meetings.take(np.sort(np.argsort(-longest, kind="stable")[:most]))
    gains = job_gains(runs, kept, [{rank: savings for rank, _, savings in those} for those in heaviest])
    found = [
        JobOpportunity(
            ranks=tuple(runs[rank].number for rank, _, _ in those),
            title=those[0][1].title,
            place=those[0][1].site.place,
            file=those[0][1].site.file,
            line=those[0][1].site.line,
            saves_ns=round(gain),
            rank_saves_ns=sum(one.saving.likely_ns for _, one, _ in those) // len(those),
            cure=those[0][1].cure.text,
        )
        for those, gain in zip(heaviest, gains, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-one.saves_ns, -one.rank_saves_ns, one.ranks)))


def job_gains(runs: Sequence[RankRun], meetings: Meetings, saved: Sequence[Mapping[int, Savings]]) -> list[float]:
    """By how much the job ends earlier with each choice of savings, column of a rank → what it saves."""
    less = np.zeros((len(saved) + 1, len(meetings) + 1, len(runs)), np.float32)
    own, ahead, after = _ways(runs, meetings)
    for number, of_ranks in enumerate(saved, 1):
        for rank, one in of_ranks.items():
            rows = np.flatnonzero(meetings.present[:, rank])
            segment = np.searchsorted(meetings.release_ns[rows], (one.start_ns + one.end_ns) // 2)
            less[number, :, rank] = np.bincount(np.append(rows, len(meetings))[segment], one.ns, len(meetings) + 1)
    now = np.repeat(np.array([[run.start_ns for run in runs]], np.float64), len(less), axis=0)
    for row in range(len(meetings)):
        here = np.flatnonzero(~np.isnan(ahead[row]))
        ready = now[:, here] + np.maximum(own[row, here] - less[:, row, here], 0)
        now[:, here] = np.maximum(ready, (ready - ahead[row, here]).max(axis=1)[:, None])
    end = (now + np.maximum(after - less[:, -1], 0)).max(axis=1)
    return [float(gain) for gain in np.maximum(end[0] - end[1:], 0)]


def _ways(runs: Sequence[RankRun], meetings: Meetings) -> tuple[Float64, Float64, Float64]:
    """The ranks' ways through all meetings, in ns.

    ([meeting, rank] its own time since the one before, less what it loses at this one; [meeting, rank] how much it came
    earlier, while it did something else, NaN where it takes no part; [rank] its time after its last one).
    """
    own, ahead = np.zeros(meetings.wait_ns.shape), np.full(meetings.wait_ns.shape, np.nan)
    after = np.zeros(len(runs))
    for rank, run in enumerate(runs):
        rows = np.flatnonzero(meetings.present[:, rank])
        release = np.maximum(meetings.release_ns[rows], run.start_ns)
        between = np.diff(release, prepend=run.start_ns)
        lost = np.clip(meetings.lost_ns[rows, rank], 0, between)
        own[rows, rank] = between - lost
        ahead[rows, rank] = np.clip(meetings.wait_ns[rows, rank] - lost, 0, None)
        after[rank] = max(run.end_ns - int(release[-1]), 0) if len(rows) else run.end_ns - run.start_ns
    return own, ahead, after
