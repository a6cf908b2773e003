"""Which things to change went away, came, and stayed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pinprof.analyze.opportunities.results import Opportunity
from pinprof.compare.frames import function_key
from pinprof.compare.lines import Moves
from pinprof.compare.results import Fate, OpportunityChange
from pinprof.compare.runs import ComparedRun

_ORDER: tuple[Fate, ...] = ("gone", "new", "stayed")
_Key = tuple[str, ...]


def opportunity_changes(
    before: Sequence[ComparedRun], after: Sequence[ComparedRun], moved: Moves
) -> tuple[OpportunityChange, ...]:
    """What more than half of the runs of a side show; the same place with the same cure is the same opportunity."""
    old = _by_key(before, Moves({}))
    new = _by_key(after, moved)
    found = [_change(old.get(key, []), new.get(key, []), len(before), len(after)) for key in {**old, **new}]
    known = [one for one in found if one is not None]
    return tuple(sorted(known, key=lambda one: (_ORDER.index(one.fate), -max(one.before_cost_ns, one.after_cost_ns))))


def _by_key(side: Sequence[ComparedRun], moved: Moves) -> dict[_Key, list[Opportunity]]:
    found: dict[_Key, list[Opportunity]] = {}
    for run in side:
        for key, one in {_key(one, moved): one for one in reversed(run.found)}.items():
            found.setdefault(key, []).append(one)
    return found


def _key(one: Opportunity, moved: Moves) -> _Key:
    site = one.site
    file, function, line = moved.before((site.file, function_key(site.function) if site.function else "", site.line))
    place = (file, str(line)) if line else (file or site.range, function)
    return *place, one.cure.id, one.phase


def _change(
    old: Sequence[Opportunity], new: Sequence[Opportunity], runs_before: int, runs_after: int
) -> OpportunityChange | None:
    had, has = 2 * len(old) > runs_before, 2 * len(new) > runs_after
    if not had and not has:
        return None
    shown = old[0] if had else new[0]
    before, after = (old if had else []), (new if has else [])
    return OpportunityChange(
        fate="stayed" if had and has else "gone" if had else "new",
        title=shown.title,
        place=shown.site.place,
        cure=shown.cure.id,
        phase=shown.phase,
        before_cost_ns=_mean([one.cost_ns for one in before]),
        after_cost_ns=_mean([one.cost_ns for one in after]),
        before_saving_ns=_mean([one.saving.likely_ns for one in before]),
        after_saving_ns=_mean([one.saving.likely_ns for one in after]),
        before_runs=len(old),
        after_runs=len(new),
    )


def _mean(values: Sequence[int]) -> float:
    return fmean(values) if values else 0.0
