"""Run → ReportData: what the sections share, named and chosen here; every figure comes from the analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import PurePath

from pinprof.analyze import Run
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.attribution.row import Category
from pinprof.analyze.extent import timed_span
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report import sections
from pinprof.report.data import CaptureFacts, Cause, Explained, Shared
from pinprof.report.flame_tables import flame_data
from pinprof.report.forms import Forms, Written
from pinprof.report.instances import instance_data
from pinprof.report.joined_frames import with_frames_joined
from pinprof.report.names import without_home
from pinprof.report.section import Section, picked
from pinprof.report.shown import shown_ranges
from pinprof.report.steps import in_steps
from pinprof.report.threads import numbered_threads


@dataclass(frozen=True)
class ReportData(Shared, Written[Explained]):
    """One recording, explained: what its sections share, and the sections."""

    sections: Mapping[str, Section[Explained]] = field(default_factory=dict)
    forms: Forms[Explained] = field(default_factory=lambda: sections.REPORT)


def build(analysis: Run, form: str = "html", *, all_frames: bool = False) -> ReportData:
    """What the sections share, and then each section's own data; without what only other forms have.

    Runs of frames without a name become one frame unless `all_frames`.
    """
    return report_of(Explained(analysis, _shared(analysis, form, all_frames=all_frames)))


def answer_of(analysis: Run) -> ReportData:
    """The report as far as the terminal's answer needs it: without stacks, single ranges, and most sections."""
    return report_of(Explained(analysis, _facts_shared(analysis)), sections.ANSWER)


def live_of(analysis: Run) -> ReportData:
    """The report as far as a live view needs it: without stacks, single ranges, and most sections."""
    return report_of(Explained(analysis, _facts_shared(analysis)), sections.LIVE)


def report_of(subject: Explained, forms: Forms[Explained] | None = None) -> ReportData:
    """The report of what was explained; with all sections, or those of other forms."""
    forms = forms or sections.REPORT
    return ReportData(**vars(subject.shared), sections=forms.made(subject), forms=forms)


def _shared(analysis: Run, form: str, *, all_frames: bool) -> Shared:
    shown, span = shown_ranges(analysis.ranges), timed_span(analysis.capture)
    drawn, stacked = form == "html", form in ("html", "text")
    joined = stacked or analysis.blame
    stacks = with_frames_joined(analysis.capture, all_frames=all_frames) if joined else None
    flame = flame_data(analysis, stacks, shown.place) if stacks and stacked else None
    return replace(
        _facts_shared(analysis),
        stacks=stacks,
        ranges=analysis.ranges,
        flame=in_steps(flame) if flame and drawn else flame,
        instances=instance_data(analysis, shown.place) if span and drawn else None,
        drawn=drawn,
    )


def _facts_shared(analysis: Run) -> Shared:
    """What costs next to nothing. Causes stand in the taxonomy's order."""
    capture = analysis.capture
    calls, span = capture.manifest.scenario.get("calls"), timed_span(capture)
    return Shared(
        headline=analysis.answer,
        capture=_facts(analysis),
        causes=tuple(Cause(row.name, row.level, row.meaning, row.remedy, _rule(row)) for row in CATEGORIES),
        events=analysis.events,
        in_own_time=analysis.own.events if analysis.own is not analysis.view else None,
        ranges=(),
        threads=numbered_threads(capture),
        activity=analysis.activity,
        start_ns=span[0] if span else None,
        phase_calls={str(phase): str(call) for phase, call in calls.items()} if isinstance(calls, dict) else {},
        gaps=analysis.gaps,
        drawn=False,
    )


_RULES = {
    "S": "this function decides, whatever called it",
    "O": "the outermost call into [nvidia_uvm] decides",
    "G": "the nearest enclosing memory-management call decides",
    "D": "no stronger rule applies; the kernel entry point decides",
    "W": "the thread left the CPU here",
    "U": "no kernel code; the innermost function's file and name decide",
}
"""How a cause of each tier is decided, for a reader who sees the deciding function beside it."""


def _rule(row: Category) -> str:
    return f"{_RULES[row.tier]} ({row.context})" if row.context else _RULES[row.tier]


def _facts(analysis: Run) -> CaptureFacts:
    capture = analysis.capture
    return CaptureFacts(
        path=PurePath(capture.path).name,
        clock=asdict(capture.clock),
        **without_home(picked(capture.manifest, "tool_version command scenario host collectors outcome")),
    )
