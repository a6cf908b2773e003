"""What a launch's answer cannot say, and why: ranks without captures, meetings that are not seen, GPUs in windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pinprof.analyze.activity.sampled import SampledShare
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.evidence import worth_telling
from pinprof.base.units import format_ns, format_share
from pinprof.ranks.headline import rank_names
from pinprof.ranks.late import together_ns
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.rank_run import RankRun

_LEAST_APART = 0.2
"""A part of their time by which waits of ranks for GPUs differ notably."""
_WAITS_FOR_GPU = np.array([row.name.startswith("sync.") or row.name == "wait.gpu" for row in CATEGORIES])
_MUCH = 1.25
"""By so much longer GPUs are in collectives that wait there for a rank, not only work faster."""
_FIRST = 20
"""Ranks that are listed."""


def notes_of(
    runs: Sequence[RankRun], meetings: Meetings, work_ns: int, unreadable: Mapping[int, str], size: int
) -> list[str]:
    """Sentences about waits for none of the ranks, and about what of the launch's `size` ranks is not seen."""
    notes = _together(meetings, work_ns)
    notes += [f"Rank {number} is left out: {reason}" for number, reason in list(unreadable.items())[:_FIRST]]
    lost = [rank for rank in range(size) if rank not in {run.number for run in runs} and rank not in unreadable]
    if lost:
        some = rank_names(lost[:_FIRST]) + (f" and {len(lost) - _FIRST} more" if len(lost) > _FIRST else "")
        notes.append(
            f"No capture of {some}: whether the others wait for {'it' if len(lost) == 1 else 'them'} is not seen."
        )
    blind = [run.number for run in runs if not run.sampled_waits]
    if blind:
        notes.append(
            f"The waits of {rank_names(blind)} were not recorded, so meetings of their threads are not visible."
        )
    notes += _by_windows(runs)
    silent = [run for run in runs if run.uses_nccl and not len(run.collectives) and not len(run.calls)]
    short = [run.number for run in silent if run.sampled and not any(gpu.collectives for gpu in run.sampled)]
    if short:
        notes.append(
            f"{rank_names(short).capitalize()} used NCCL, but the GPUs' work was recorded only at the start, so"
            " collectives are not visible. Record with --gpu windows."
        )
    deaf = [run.number for run in silent if not run.sampled]
    if deaf:
        notes.append(
            f"{rank_names(deaf).capitalize()} used NCCL, but neither its calls nor the GPUs' work was recorded, so"
            " collectives are not visible. Record again without --inside off."
        )
    if silent:
        notes += _gpu_waits(runs)
    if not len(meetings) and not blind:
        notes.append("No wait of one rank ends when another arrives. Programs that spin while waiting look busy.")
    return notes


def _together(meetings: Meetings, work_ns: int) -> list[str]:
    waited = together_ns(meetings)
    if not worth_telling(waited, work_ns):
        return []
    for_whom = "for a rank without a capture, or for something outside the launch"
    return [f"All ranks wait at the same time for {format_ns(waited)}, {for_whom}."]


def _by_windows(runs: Sequence[RankRun]) -> list[str]:
    """What windows say of collectives: a GPU that waits for others is in one, so the rank that is awaited is least."""
    shares = {
        run.number: max((part for gpu in run.sampled if (part := gpu.collectives)), key=lambda part: part.share)
        for run in runs
        if any(gpu.collectives and gpu.collectives.share for gpu in run.sampled)
    }
    if not shares:
        return []
    ordered = sorted(shares, key=lambda number: shares[number].share)
    some = ordered if len(ordered) <= _FIRST else [*ordered[: _FIRST - 1], ordered[-1]]
    said = ", ".join(
        f"rank {number} {format_share(shares[number].share, 1)} "
        f"({format_share(shares[number].low, 1)} to {format_share(shares[number].high, 1)})"
        for number in some
    )
    last = next((at for at in range(1, len(ordered)) if _apart_from(shares, ordered, at)), 0)
    awaited = f" The others' GPUs wait for {rank_names(sorted(ordered[:last]))}." if last else ""
    note = (
        "The GPUs' work was recorded in windows, so single collectives are not compared. By the windows, GPUs are in "
    )
    return [f"{note}collectives, waiting included, for this part of the time: {said}.{awaited}"]


def _apart_from(shares: Mapping[int, SampledShare], ordered: Sequence[int], at: int) -> bool:
    """Whether the first ranks are in collectives for less of the time than all others, beyond what windows leave open.

    By that much less that their GPUs are not just a little faster.
    """
    below, above = max(shares[one].high for one in ordered[:at]), min(shares[one].low for one in ordered[at:])
    return above > _MUCH * below


def _gpu_waits(runs: Sequence[RankRun]) -> list[str]:
    """For how much of their work ranks wait for GPUs, where that differs much: they may wait for other ranks' there."""
    shares = {}
    for run in runs:
        spent = run.spent.take(run.spent.start_ns >= run.work_start_ns)
        shares[run.number] = float(spent.ns[_WAITS_FOR_GPU[spent.cause]].sum() / max(int(spent.ns.sum()), 1))
    most, least = max(shares, key=lambda one: shares[one]), min(shares, key=lambda one: shares[one])
    if shares[most] - shares[least] < _LEAST_APART:
        return []
    longest, shortest = format_share(shares[most], 1), format_share(shares[least], 1)
    said = f"Rank {most} waits for its GPU for {longest} of its work, rank {least} for {shortest}."
    return [f"{said} A GPU that waits for another rank's looks like that."]
