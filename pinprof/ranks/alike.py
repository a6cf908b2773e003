"""Groups of ranks as one row: by what their threads spend the job's work on, waits for each other left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinprof.base.units import format_share
from pinprof.ranks.results import Excess, Group, Hold, RankFacts
from pinprof.ranks.why import RUNNABLE

APART = 0.1
"""Ranks are apart that spend this part of the work, or more, on something that the others do not."""
TOLD = 0.03
"""A difference in one cause counts from this part of the work on."""


def groups_of(ranks: Sequence[RankFacts], holds: Sequence[Hold], work_ns: int) -> tuple[Group, ...]:
    """Groups of ranks, awaited ones last, else the largest first; awaited ones are never in one group with others."""
    held_by = {rank: number for number, hold in enumerate(holds) for rank in hold.ranks}
    shares = {rank.number: _shares(rank, work_ns) for rank in ranks}
    parts: list[list[RankFacts]] = []
    for rank in ranks:
        fitting = (
            part for part in parts
            if held_by.get(part[0].number) == held_by.get(rank.number)
            and _distance(shares[part[0].number], shares[rank.number]) < APART
        )  # fmt: skip
        home = next(fitting, None)
        if home is None:
            parts.append([rank])
        else:
            home.append(rank)
    parts.sort(key=lambda part: (part[0].number in held_by, -len(part), part[0].number))
    usual = _mean([shares[rank.number] for rank in parts[0]]) if parts else {}
    return tuple(_group(part, shares, usual, holds, first=part is parts[0]) for part in parts)


def _group(
    part: Sequence[RankFacts],
    shares: Mapping[int, Mapping[str, float]],
    usual: Mapping[str, float],
    holds: Sequence[Hold],
    *,
    first: bool,
) -> Group:
    numbers = tuple(rank.number for rank in part)
    causes = _mean([shares[number] for number in numbers])
    awaited = next((hold for hold in holds if set(numbers) <= set(hold.ranks)), None)
    return Group(
        ranks=numbers,
        own_ns=round(sum(rank.own_ns for rank in part) / len(part)),
        waits_ns=round(sum(rank.waits_ns for rank in part) / len(part)),
        causes=causes,
        differs="" if first and awaited is None else _differs(causes, usual, awaited.lines if awaited else ()),
        awaited=awaited is not None,
    )


def _shares(rank: RankFacts, work_ns: int) -> dict[str, float]:
    # Who waits for a processor is the machine's doing.
    return {cause: ns / max(work_ns, 1) for cause, ns in rank.causes.items() if cause != RUNNABLE}


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The larger of what the one spends more on, and the other."""
    more = [one.get(cause, 0.0) - other.get(cause, 0.0) for cause in {*one, *other}]
    return max(sum(part for part in more if part > 0), -sum(part for part in more if part < 0))


def _mean(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    causes = dict.fromkeys(cause for share in shares for cause in share)
    mean = {cause: sum(share.get(cause, 0.0) for share in shares) / len(shares) for cause in causes}
    return dict(sorted(mean.items(), key=lambda item: -item[1]))


def _differs(causes: Mapping[str, float], usual: Mapping[str, float], lines: Sequence[Excess]) -> str:
    """`28 % fault.anon.huge instead of 2 %, at load.py:31`."""
    more = {cause: share - usual.get(cause, 0.0) for cause, share in causes.items()}
    notable = sorted((cause for cause in more if more[cause] >= TOLD), key=lambda cause: -more[cause])[:3]
    words = [
        f"{format_share(causes[cause], 1)} {cause} instead of {format_share(usual.get(cause, 0), 1)}"
        for cause in notable
    ]
    place = next((line.place.text for line in lines if line.place), "")
    if place:
        words.append(f"at {place}")
    return ", ".join(words) or "no cause stands out"
