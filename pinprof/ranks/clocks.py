"""One clock for all ranks.

Ranks on one machine read one CLOCK_MONOTONIC, so their times compare as they are. They are known to be on one machine
by when it started: UTC less CLOCK_MONOTONIC is the same for all of its processes, and differs between machines that
look alike. Clocks of several machines are first joined by UTC, as well as the machines keep it, and then by what all
of them see: meetings end together everywhere, so the difference of their ends is that of the clocks. How much these
differences scatter says how well it is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.base.columns import Float64, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns
from pinprof.ranks.calls import together
from pinprof.ranks.rank_run import RankRun

SAME_BOOT_NS = 20_000_000
"""Processes of one machine, started within seconds, see its start at the same UTC up to this."""
UTC_ERROR_NS = 50_000_000
"""What NTP may leave between two machines where nothing else is known."""
_SEARCH_NS, _BIN_NS = 500_000_000, 1_000_000
_LEAST_PAIRS, _MOST_EVENTS = 8, 4_000
_AS_GOOD = 0.8
_CLEAR = 0.5
"""The least part of the meetings whose ends agree on one difference."""
_FACTS = ("kernel", "cpu", "memory_bytes", "cores")


@dataclass(frozen=True)
class RankClocks:
    """How the ranks' clocks relate."""

    machine: tuple[int, ...]
    """Per rank the number of its machine, from 0 in the order of the ranks."""
    offset_ns: tuple[int, ...]
    """Per rank what is added to its times to reach those of the first rank's machine."""
    uncertainty_ns: int
    """How far times of different machines may be off; 0 on one machine."""
    how: str
    """One sentence."""

    @property
    def machines(self) -> int:
        """How many there are."""
        return max(self.machine, default=-1) + 1


def clocks_of(runs: Sequence[RankRun]) -> RankClocks:
    """The common clock of some ranks, at least one."""
    machine = _machines(runs)
    if max(machine) == 0:
        how = "All ranks ran on one machine and share its clock (CLOCK_MONOTONIC)."
        return RankClocks(machine, (0,) * len(runs), 0, how)
    first = [machine.index(number) for number in range(max(machine) + 1)]
    found = [_offset(runs, machine, number, runs[first[0]], runs[first[number]]) for number in range(1, len(first))]
    offsets = [0, *(offset for offset, _, _ in found)]
    uncertainty = max(error for _, error, _ in found)
    met = all(by_meetings for _, _, by_meetings in found)
    how = (
        f"The ranks ran on {len(first)} machines. Meetings, which end on all ranks at once, align their clocks to"
        f" ± {format_ns(uncertainty)}."
        if met
        else f"The ranks ran on {len(first)} machines, and only UTC aligns their clocks. Times of different"
        f" machines may be off by {format_ns(uncertainty)} or more."
    )
    return RankClocks(machine, tuple(offsets[number] for number in machine), uncertainty, how)


def _machines(runs: Sequence[RankRun]) -> tuple[int, ...]:
    known: list[RankRun] = []
    result = []
    for run in runs:
        number = next((number for number, other in enumerate(known) if _same(run, other)), len(known))
        if number == len(known):
            known.append(run)
        result.append(number)
    return tuple(result)


def _same(one: RankRun, other: RankRun) -> bool:
    if any(one.manifest.host.get(fact) != other.manifest.host.get(fact) for fact in _FACTS):
        return False
    if one.utc_offset_ns is None or other.utc_offset_ns is None:
        # Nobody noted UTC: processes whose clocks overlap are taken to share one.
        return one.start_ns < other.end_ns and other.start_ns < one.end_ns
    return abs(one.utc_offset_ns - other.utc_offset_ns) < SAME_BOOT_NS


def _offset(
    runs: Sequence[RankRun], machine: Sequence[int], number: int, base: RankRun, other: RankRun
) -> tuple[int, int, bool]:
    """(what is added to the other machine's times, how far that may be off, whether meetings told it)."""
    utc = (other.utc_offset_ns or 0) - (base.utc_offset_ns or 0)
    known = other.utc_offset_ns is not None and base.utc_offset_ns is not None
    counted = _by_count(base, other)
    if counted is not None:
        return counted[0], counted[1], True
    ends = [
        np.sort(np.concatenate([run.waits.end_ns for run, of in zip(runs, machine, strict=True) if of == which]))
        for which in (0, number)
    ]
    if known and (found := _by_ends(ends[0], ends[1] + utc)) is not None:
        return utc + found[0], found[1], True
    return utc, UTC_ERROR_NS, False


def _by_count(base: RankRun, other: RankRun) -> tuple[int, int] | None:
    """By collectives: by their numbers where the calls were recorded, else the nth of one GPU is the nth of any other
    where both have as many of the same names.
    """
    mine, theirs = together(base.calls, other.calls)
    if len(mine) >= _LEAST_PAIRS:
        return _spread(base.calls.end_ns[mine] - other.calls.end_ns[theirs])
    one, two = base.collectives, other.collectives
    if len(one) < _LEAST_PAIRS or len(one) != len(two):
        return None
    names = [[run.collective_names[place] for place in run.collectives.place.tolist()] for run in (base, other)]
    return _spread(one.end_ns - two.end_ns) if names[0] == names[1] else None


def _by_ends(base: Int64, other: Int64) -> tuple[int, int] | None:
    """By the difference that most ends of waits agree on; of equally good ones the smallest."""
    base, other = base[:_MOST_EVENTS], other[:_MOST_EVENTS]
    low, high = np.searchsorted(base, other - _SEARCH_NS), np.searchsorted(base, other + _SEARCH_NS)
    pairs = [base[first:last] - at for at, first, last in zip(other, low, high, strict=True)]
    difference = np.concatenate([np.zeros(0, np.int64), *pairs])
    if len(difference) < _LEAST_PAIRS:
        return None
    bins, count = np.unique(difference // _BIN_NS, return_counts=True)
    good = bins[count >= _AS_GOOD * count.max()]
    best = int(good[np.abs(good).argmin()])
    chosen = difference[np.abs(difference - (best * _BIN_NS + _BIN_NS // 2)) <= 2 * _BIN_NS]
    if len(chosen) < max(_LEAST_PAIRS, _CLEAR * min(len(base), len(other))):
        return None
    return _spread(chosen)


def _spread(difference: Int64) -> tuple[int, int]:
    """The middle of differences, and what holds 95 % of them to either side."""
    middle = int(np.median(difference))
    away: Float64 = np.abs(difference - middle).astype(np.float64)
    return middle, max(int(np.percentile(away, 95)), 1)
