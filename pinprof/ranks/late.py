"""Which ranks the others wait for: who comes last to the meetings, how often, and what that costs.

A meeting is over when the last rank has come, so it is earlier by as much as the last one comes after the next. Where
several come late together, it is they that are awaited: those behind the widest gap between arrivals. Ranks are found
one choice after the other, the most expensive first; what the next ones cost is counted without those before.

What happened is measured. Whether it is these ranks' doing or the turn that chance gave them is tested: of the meetings
that lose notable time, as many may be theirs by chance as their number gives (binomial, corrected for all choices of as
many ranks), and their losses must exceed those by the others in blocks of neighbouring meetings (Student's t), since
neighbours share what the machine does meanwhile.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.evidence import worth_telling
from pinprof.base.columns import Bool, Float64, Int64
from pinprof.base.distributions import binomial_above
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import LEVEL, MeanDifference
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.results import How

MOST = 3
"""The choices of ranks that are looked for."""
NOTABLE_NS, NOTABLE = 1_000_000, 0.05
"""A meeting's loss is notable from here on, and from this part of the typical time between meetings on."""
ALWAYS, OFTEN = 0.8, 0.2
"""The part of the meetings at which ranks are awaited always, and often."""
OUTLIER = 5
"""A loss is far out above this many times the usual one (the third quartile)."""
COMPARABLE = 0.25
"""Losses count for or against a rank from this part on of the loss that splits the time lost into halves."""
LIKE_IT = 0.1
"""What is far out is so large a part of the largest loss, at least."""
REGULAR = 0.2
"""Distances are equal up to this part of them."""
_BLOCKS = 20
_MAJORITY = 0.8


@dataclass(frozen=True)
class Late:
    """A choice of ranks that the others wait for."""

    ranks: tuple[int, ...]
    """Columns of the meetings."""
    rows: Int64
    """Meetings of theirs."""
    release_ns: Int64
    """When each of them was."""
    losses: Float64
    """What the job loses at each, in ns."""
    held: Int64
    """Which of `rows` lose notable time by them, as positions."""
    how: How
    every: int
    chance: float | None
    tested: str

    @property
    def cost_ns(self) -> float:
        """All losses."""
        return float(self.losses.sum())

    def interval_ns(self) -> tuple[float, float]:
        """The interval of the cost that the scatter over meetings gives; blocks of neighbours count as one."""
        blocks = _blocks(self.losses)
        if len(blocks) < 2 or self.how == "once":
            return self.cost_ns, self.cost_ns
        error = float(blocks.std(ddof=1)) / math.sqrt(len(blocks))
        low, high = MeanDifference(float(blocks.mean()), error, len(blocks) - 1).interval()
        return max(low, 0.0) * len(blocks), high * len(blocks)


def latecomers(meetings: Meetings, work_ns: int) -> tuple[Late, ...]:
    """The ranks that the others wait for, the most expensive first; empty where nobody is."""
    found: list[Late] = []
    recorded, least = meetings, _notable_ns(meetings)
    while len(found) < MOST:
        choice = _choice(meetings)
        # What the ranks found before cost still speaks against those found after them.
        by_others = None if choice is None else _by_others(recorded, choice)
        late = None if choice is None or by_others is None else _late(meetings, choice, by_others, least, work_ns)
        if choice is None or late is None or not _fits(late, found):
            break
        found.append(late)
        meetings = _cured(meetings, choice, late)
    return tuple(found)


def _fits(late: Late, found: Sequence[Late]) -> bool:
    """Whether it says something beside what was found: other ranks, and no more than one event or less than chance."""
    if any(set(late.ranks) & set(other.ranks) for other in found):
        return False
    return not found or late.chance is None or late.chance <= LEVEL


def _cured(meetings: Meetings, choice: Bool, late: Late) -> Meetings:
    """As if those ranks had come with the middle one of the others wherever these waited for them."""
    rows = late.rows[late.held]
    changed = {}
    for name in ("wait_ns", "lost_ns"):
        column = getattr(meetings, name).copy()
        part = column[rows]
        others = np.where(choice[None, :], np.nan, part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            middle = np.nanmedian(others, axis=1)
        part[:, choice] = np.where(np.isnan(part[:, choice]), np.nan, np.fmax(part[:, choice], middle[:, None]))
        column[rows] = part
        changed[name] = column
    # The one that came next is now the last: nobody waits longer than for it.
    first = np.nanmin(changed["wait_ns"], axis=1)[:, None]
    return replace(meetings, wait_ns=changed["wait_ns"] - first, lost_ns=np.maximum(changed["lost_ns"] - first, 0))


def uneven_ns(meetings: Meetings) -> float:
    """What would be saved if every meeting came when the middle rank does."""
    if not len(meetings):
        return 0.0
    # The middle one waits as long as the last comes after it; of two ranks that is half of what one waits.
    middle = np.nanmedian(meetings.lost_ns, axis=1) - np.nanmin(meetings.wait_ns, axis=1)
    return float(np.maximum(middle, 0).sum())


def together_ns(meetings: Meetings) -> float:
    """How long all of them wait at once: for nobody among them."""
    return float(np.nanmin(meetings.wait_ns, axis=1).sum()) if len(meetings) else 0.0


def lasts(meetings: Meetings) -> tuple[Int64, Float64]:
    """Per meeting the rank that came last, and how much later than the next."""
    if not len(meetings):
        return np.zeros(0, np.int64), np.zeros(0, np.float64)
    last = np.where(meetings.present, meetings.wait_ns, np.inf).argmin(axis=1)
    chosen = np.zeros(meetings.wait_ns.shape, np.bool_)
    chosen[np.arange(len(last)), last] = True
    lost = np.where(meetings.present & ~chosen, meetings.lost_ns, np.inf).min(axis=1)
    own = meetings.wait_ns[np.arange(len(last)), last]
    return last.astype(np.int64), np.maximum(np.where(np.isfinite(lost), lost, 0) - own, 0)


def _notable_ns(meetings: Meetings) -> float:
    between = np.diff(meetings.release_ns)
    return max(NOTABLE_NS, NOTABLE * float(np.median(between)) if len(between) else 0.0)


def _losses(meetings: Meetings, choice: Bool) -> Float64:
    """Per meeting how much earlier it had been if the chosen ranks had come with the next; NaN without both."""
    own = np.where(meetings.present & choice, meetings.wait_ns, np.inf).min(axis=1)
    rest = meetings.present & ~choice
    others = np.where(rest, meetings.wait_ns, np.inf).min(axis=1)
    lost = np.where(rest, meetings.lost_ns, np.inf).min(axis=1)
    both = np.isfinite(own) & np.isfinite(others)
    with np.errstate(invalid="ignore"):
        return np.where(both, np.clip(np.minimum(others - own, lost), 0, None), np.nan)


def _choice(meetings: Meetings) -> Bool | None:
    """The ranks behind the widest gap, those whose meetings lose most together."""
    wait = meetings.wait_ns
    rows = np.flatnonzero((~np.isnan(wait)).sum(axis=1) > 1)
    if not len(rows):
        return None
    wait = wait[rows]
    order = np.argsort(wait, axis=1)  # The last first; who takes no part comes at the end.
    ordered = np.take_along_axis(wait, order, axis=1)
    gap = np.diff(ordered, axis=1)
    count = (~np.isnan(wait)).sum(axis=1)
    # The awaited are the fewer: else it is the others that come early.
    allowed = np.arange(1, wait.shape[1])[None, :] <= np.maximum(count // 2, 1)[:, None]
    gap = np.where(allowed & ~np.isnan(gap), gap, -1.0)
    split = gap.argmax(axis=1)
    late = np.zeros(wait.shape, np.bool_)
    np.put_along_axis(late, order, np.arange(wait.shape[1])[None, :] <= split[:, None], axis=1)
    weight = np.maximum(gap[np.arange(len(gap)), split], 0)
    sets, of = np.unique(late, axis=0, return_inverse=True)
    total = np.bincount(of.reshape(-1), weight, len(sets))
    return np.asarray(sets[int(total.argmax())]) if total.max() > 0 else None


def _late(meetings: Meetings, choice: Bool, by_others: Float64, least: float, work_ns: int) -> Late | None:
    """The choice with its figures; None where it costs too little, or chance explains it."""
    losses = _losses(meetings, choice)
    rows = np.flatnonzero(~np.isnan(losses))
    losses, release_ns = losses[rows], meetings.release_ns[rows]
    if not worth_telling(float(losses.sum()), work_ns):
        return None
    by_others = by_others[rows]
    bar = _comparable(np.concatenate([losses, by_others]), least)
    held = np.flatnonzero(losses > bar)
    theirs, rest = len(held), int((by_others > bar).sum())
    ranks, size = int(meetings.present.any(axis=0).sum()), int(choice.sum())
    chance = _chance(theirs, theirs + rest, size, ranks)
    net = _net(losses, by_others, size, ranks, len(rows))
    steady = chance <= LEVEL and net.p <= LEVEL and net.value > 0
    if steady and worth_telling(net.value * len(_blocks(losses)), work_ns):
        how, every = pattern(held, release_ns)
        tested = (
            f"{'It delays' if size == 1 else 'They delay'} {theirs} of the {theirs + rest} meetings that lose notable"
            f" time. That is not due to chance (p {_p(max(chance, net.p))}, corrected for every choice of ranks)."
        )
        return Late(_numbers(choice), rows, release_ns, losses, held, how, every, max(chance, net.p), tested)
    return _outliers(losses, by_others, choice, rows, release_ns, ranks, work_ns)


def _comparable(losses: Float64, least: float) -> float:
    """What a loss has to exceed to be counted: small ones, as every reply to a message has them, are none of the large.

    It depends on all losses alike, whoever caused them, so that chance stays what it is.
    """
    notable = np.sort(losses[losses > least])
    sums = np.cumsum(notable)
    return max(least, COMPARABLE * float(notable[np.searchsorted(sums, sums[-1] / 2)])) if len(notable) else least


def _outliers(
    losses: Float64, by_others: Float64, choice: Bool, rows: Int64, release_ns: Int64, ranks: int, work_ns: int
) -> Late | None:
    """Few losses that are far out: facts of this run, of which nothing tells whether they come again."""
    usual = float(np.percentile(np.maximum(losses, by_others), 75))
    bar = max(OUTLIER * usual, NOTABLE_NS, LIKE_IT * float(losses.max(initial=0.0)))
    held = np.flatnonzero(losses > bar)
    theirs, rest = len(held), int((by_others > bar).sum())
    cost = float(losses[held].sum())
    if not theirs or theirs < _MAJORITY * (theirs + rest) or not worth_telling(cost, work_ns):
        return None
    if 2 * cost < float(losses.sum()):
        return None
    how, every = pattern(held, release_ns)
    if theirs == 1:
        tested = "It happened once in this run. One event does not show whether it will recur."
        return Late(_numbers(choice), rows, release_ns, losses, held, "once", 0, None, tested)
    chance = _chance(theirs, theirs + rest, int(choice.sum()), ranks)
    if chance > LEVEL and not every:
        return None
    tested = f"{theirs} of the {theirs + rest} longest waits are for {'it' if choice.sum() == 1 else 'them'}"
    tested += ", at equal distances" if every else ""
    tested += f"; this may be due to chance (p {_p(chance)})." if chance > LEVEL else f" (p {_p(chance)})."
    return Late(_numbers(choice), rows, release_ns, losses, held, how, every, chance, tested)


def _by_others(meetings: Meetings, choice: Bool) -> Float64:
    """Per meeting what is lost by whoever else came last."""
    last, lost = lasts(meetings)
    return np.where(choice[last], 0.0, lost)


def _chance(theirs: int, whole: int, size: int, ranks: int) -> float:
    """P of `theirs` among `whole` meetings by one choice of `size` among `ranks` alike, for all choices together."""
    if not theirs:
        return 1.0
    return min(1.0, binomial_above(theirs - 1, whole, size / ranks) * math.comb(ranks, size))


def _net(losses: Float64, by_others: Float64, size: int, ranks: int, count: int) -> MeanDifference:
    """What they cost beyond what as many of the others do, per block of neighbouring meetings."""
    share = size / max(ranks - size, 1)
    blocks = _blocks(losses - share * by_others)
    if len(blocks) < 2 or not count:
        return MeanDifference(float(blocks.sum()), math.inf, 1)
    return MeanDifference(float(blocks.mean()), float(blocks.std(ddof=1)) / math.sqrt(len(blocks)), len(blocks) - 1)


def _blocks(values: Float64) -> Float64:
    """The sums of runs of neighbours, scaled to one length, at most `_BLOCKS` of them."""
    parts = np.array_split(values, min(_BLOCKS, len(values))) if len(values) else []
    typical = len(values) / max(len(parts), 1)
    return np.array([part.mean() * typical for part in parts], np.float64)


def pattern(held: Int64, release_ns: Int64) -> tuple[How, int]:
    """How often, and at every which of the meetings (or steps) where those held are about equally far from each other.

    `release_ns` has all of them; `held` are positions in it.
    """
    meetings = len(release_ns)
    if len(held) >= ALWAYS * meetings:
        return "always", 1
    if len(held) == 1:
        return "once", 0
    apart, distance = np.diff(release_ns[held]), np.diff(held)
    alike = len(held) >= 3 and (np.ptp(distance) == 0 or np.ptp(apart) <= REGULAR * float(np.median(apart)))
    if alike and distance.min() > 1:
        # Meetings at which nobody waits for long are not seen: the longest distance lacks fewest.
        return "every", int(distance.max())
    return ("often" if len(held) >= OFTEN * meetings else "some"), 0


def _numbers(choice: Bool) -> tuple[int, ...]:
    return tuple(np.flatnonzero(choice).tolist())


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"
