"""What a report shows of CUDA and GPU activity: the analysis's own plain results, and columns for drawing."""

from __future__ import annotations

from dataclasses import dataclass

from pinprof.analyze import Analysis
from pinprof.analyze.activity.results import ActivityAnalysis, CallResult, Purpose
from pinprof.report.migration_field import MigrationField, migration_field

MEMORY_CALLS: tuple[Purpose, ...] = (
    "alloc pinned", "register", "alloc device", "alloc managed", "prefetch", "advise", "copy", "set", "free pinned",
    "unregister", "free device",
)  # fmt: skip
"""Calls about memory, which a report tells before all others."""


@dataclass(frozen=True)
class ActivityData:
    """CUDA and GPU activity of one recording."""

    analysis: ActivityAnalysis
    field: MigrationField | None
    """None when no managed memory moved."""

    def calls(self, *, memory: bool) -> list[CallResult]:
        """The calls about memory, or all others; longest total first."""
        return [call for call in self.analysis.whole.calls if (call.purpose in MEMORY_CALLS) is memory]


def activity_data(analysis: Analysis) -> ActivityData | None:
    """What there is to show; None when nothing traced the program."""
    if analysis.activity is None:
        return None
    uvm = analysis.activity.uvm
    return ActivityData(analysis.activity, migration_field(analysis.capture, uvm.blocks if uvm else None))
