"""From a capture to an explanation: every sample gets one cause, every range its shares, every rule its verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.activity import analyze_activity
from pinprof.analyze.activity.calls import Calls, prepare_calls
from pinprof.analyze.activity.clock import join
from pinprof.analyze.activity.headline import activity_headline, full_link
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.attribution.attribute import GROUPS, Attribution, attribute
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
from pinprof.analyze.attribution.explain import Explanation, explain
from pinprof.analyze.attribution.row import Category
from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
from pinprof.analyze.course.course import Around
from pinprof.analyze.headline import headline
from pinprof.analyze.idle import idle_apart
from pinprof.analyze.ledger.engine import ledger_of
from pinprof.analyze.lines import lines_of_all, python_lines
from pinprof.analyze.memory import summarise_memory
from pinprof.analyze.opportunities.answer import with_opportunities
from pinprof.analyze.ranges.membership import membership
from pinprof.analyze.ranges.spans import cut, cut_at
from pinprof.analyze.ranges.summary import summarise
from pinprof.analyze.recorder import recorder_apart
from pinprof.analyze.restriction import is_empty, restricted
from pinprof.analyze.results import FAILED_CALLS, Analysis, EventResult, Finding, RangeResult
from pinprof.analyze.rules.rules import findings
from pinprof.analyze.selection import Part, Selection, resolve
from pinprof.base.errors import CaptureError
from pinprof.data.model import Capture
from pinprof.data.unnamed_runs import with_runs_apart, with_runs_joined

__all__ = [
    "CATEGORIES", "GROUPS", "LEAF", "LEVELS", "WORK_ATTRIBUTES", "Analysis", "Attribution", "Category",
    "EventResult", "Explanation", "Finding", "RangeResult", "Selection", "analyze", "explain",
]  # fmt: skip


def analyze(
    capture: Capture, *, all_frames: bool = False, search: bool = True, selection: Selection | None = None
) -> Analysis:
    """Explain a capture; never fails on a valid one, however little it holds.

    What a tracing tool recorded beside the samples is joined with them; where no clock is shared, a note says so. Runs
    of frames without a name become one frame, unless all frames are wanted. Without `search` nothing is said of phases
    and opportunities, for those who only count.

    A selection restricts everything to a part of the recording, before anything is counted; causes, idle threads and
    phases are what they are in the whole one. UsageError where the part holds nothing.
    """
    recorded = _joined(with_runs_apart(capture))
    part = resolve(recorded, selection) if selection else None
    recorded = cut(recorded if part is None else cut_at(recorded, part.edges))
    capture, attribution = idle_apart(*recorder_apart(recorded, attribute(recorded)))
    calls = prepare_calls(capture.activity) if capture.activity is not None else None
    around: Around | None = None
    if part is not None:
        capture, attribution, calls, around = _part(capture, attribution, calls, part)
    recorded, of_recorded, members = capture, attribution, membership(capture)
    if not all_frames:
        capture, runs = with_runs_joined(recorded)
        attribution = replace(attribution, decided=runs.carried(attribution.decided)) if runs else attribution
    events, ranges = summarise(capture, attribution, members)
    activity = analyze_activity(capture, calls, attribution, members) if calls is not None else None
    # Samples that end at the kernel's door cannot say what memory calls spend their time on.
    traced_only = activity is not None and not (capture.kernel_chains and len(capture.samples))
    sentence = activity_headline(activity) if activity and traced_only else headline(capture, events, ranges)
    found = findings(recorded, events, ranges, activity)
    explained = Analysis(
        capture=capture,
        attribution=attribution,
        events=events,
        ranges=ranges,
        findings=found,
        headline=sentence,
        leading=(*((part.sentence(),) if part else ()), *_leading(found, activity, sentence)),
        members=members,
        memory=summarise_memory(capture),
        activity=activity,
        python=(python := python_lines(capture, attribution)),
        lines=lines_of_all(capture, attribution, python),
        part=part,
    )
    if not search:
        return explained
    return _with_ledger(with_opportunities(explained, recorded, of_recorded, calls, around), calls)


def _with_ledger(analysis: Analysis, calls: Calls | None) -> Analysis:
    """The analysis with which memory of CUDA lives when."""
    if calls is None:
        return analysis
    steps = analysis.course.steps if analysis.course else None
    starts = np.array(steps.starts_ns if steps else (), np.int64)
    return replace(analysis, ledger=ledger_of(analysis.capture, calls, starts))


def _part(
    capture: Capture, attribution: Attribution, calls: Calls | None, part: Part
) -> tuple[Capture, Attribution, Calls | None, Around]:
    """The part of a recording, and its threads during all of it."""
    whole = restricted(capture, attribution, calls, part.at_any_time())
    chosen = restricted(capture, attribution, calls, part)
    if is_empty(chosen.capture):
        raise part.nothing()
    around = Around(whole.capture, whole.attribution, whole.calls, part.times(capture.ranges))
    return chosen.capture, chosen.attribution, chosen.calls, around


def _leading(found: tuple[Finding, ...], activity: ActivityAnalysis | None, headline: str) -> tuple[str, ...]:
    """What comes before the answer, but for what is the headline already."""
    failed = [finding.title for finding in found if (finding.rule, finding.severity) == (FAILED_CALLS, "critical")]
    full = full_link(activity) if activity else ""
    return (*failed, full) if full and full != headline else tuple(failed)


def _joined(capture: Capture) -> Capture:
    if capture.traced is None:
        return capture
    alone = replace(capture, traced=None)
    try:
        return join(alone, capture.traced)
    except CaptureError as error:
        return alone.with_notes(f"The nsys trace is left out: {error.problem}")
