"""From a capture to an explanation: every sample gets one cause, every range its shares, every rule its verdict."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze.activity.activity import analyze_activity
from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.activity.clock import join
from pinprof.analyze.activity.headline import activity_headline, full_link
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.attribution.attribute import GROUPS, Attribution, attribute
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, LEVELS
from pinprof.analyze.attribution.explain import Explanation, explain
from pinprof.analyze.attribution.row import Category
from pinprof.analyze.attribution.work import WORK_ATTRIBUTES
from pinprof.analyze.costs.counterfactual import counterfactual
from pinprof.analyze.costs.pinning import pinning_curve, pinning_headline
from pinprof.analyze.headline import headline
from pinprof.analyze.idle import idle_apart
from pinprof.analyze.lines import lines_of_all, python_lines
from pinprof.analyze.memory import summarise_memory
from pinprof.analyze.opportunities.answer import with_opportunities
from pinprof.analyze.ranges.membership import membership
from pinprof.analyze.ranges.spans import cut
from pinprof.analyze.ranges.summary import summarise
from pinprof.analyze.recorder import recorder_apart
from pinprof.analyze.results import FAILED_CALLS, Analysis, EventResult, Finding, RangeResult
from pinprof.analyze.rules.rules import findings
from pinprof.errors import CaptureError
from pinprof.model import Capture
from pinprof.rates import Rates
from pinprof.unnamed_runs import with_runs_apart, with_runs_joined

__all__ = [
    "CATEGORIES", "GROUPS", "LEAF", "LEVELS", "WORK_ATTRIBUTES", "Analysis", "Attribution", "Category",
    "EventResult", "Explanation", "Finding", "RangeResult", "analyze", "explain",
]  # fmt: skip


def analyze(capture: Capture, *, all_frames: bool = False, search: bool = True) -> Analysis:
    """Explain a capture; never fails on a valid one, however little it holds.

    What a tracing tool recorded beside the samples is joined with them; where no clock is shared, a note says so. Runs
    of frames without a name become one frame, unless all frames are wanted. Without `search` nothing is said of phases
    and opportunities, for those who only count.
    """
    recorded = cut(_joined(with_runs_apart(capture)))
    capture, attribution = idle_apart(*recorder_apart(recorded, attribute(recorded)))
    recorded, of_recorded, members = capture, attribution, membership(capture)
    if not all_frames:
        capture, runs = with_runs_joined(recorded)
        attribution = replace(attribution, decided=runs.carried(attribution.decided)) if runs else attribution
    events, ranges = summarise(capture, attribution, members)
    calls = prepare_calls(capture.activity) if capture.activity is not None else None
    activity = analyze_activity(capture, calls, attribution, members) if calls is not None else None
    # Samples that end at the kernel's door cannot say what memory calls spend their time on.
    traced_only = activity is not None and not (capture.kernel_chains and len(capture.samples))
    curve = pinning_curve(capture, ranges)
    sees_kernel = not traced_only and not capture.manifest.kernel_left_out
    sentence = pinning_headline(capture, events, ranges, curve, sees_kernel=sees_kernel)
    if not sentence:
        sentence = activity_headline(activity) if activity and traced_only else headline(capture, events, ranges)
    found = findings(recorded, events, ranges, activity)
    explained = Analysis(
        capture=capture,
        attribution=attribution,
        events=events,
        ranges=ranges,
        findings=found,
        headline=sentence,
        leading=_leading(found, activity, sentence),
        members=members,
        memory=summarise_memory(capture),
        activity=activity,
        counterfactual=counterfactual(capture, events, ranges, _thorough(capture), sees_kernel=sees_kernel),
        pinning=curve,
        python=(python := python_lines(capture, attribution)),
        lines=lines_of_all(capture, attribution, python),
    )
    return with_opportunities(explained, recorded, of_recorded, calls) if search else explained


def _leading(found: tuple[Finding, ...], activity: ActivityAnalysis | None, headline: str) -> tuple[str, ...]:
    """What comes before the answer, but for what is the headline already."""
    failed = [finding.title for finding in found if (finding.rule, finding.severity) == (FAILED_CALLS, "critical")]
    full = full_link(activity) if activity else ""
    return (*failed, full) if full and full != headline else tuple(failed)


def _thorough(capture: Capture) -> Rates | None:
    """The rates of `pinprof bench`: a calibration takes too few sizes for a whole run in other kinds of memory."""
    return capture.rates if capture.rates and capture.rates.measured_by == "bench" else None


def _joined(capture: Capture) -> Capture:
    if capture.traced is None:
        return capture
    alone = replace(capture, traced=None)
    try:
        return join(alone, capture.traced)
    except CaptureError as error:
        return alone.with_notes(f"The nsys trace is left out: {error.problem}")
