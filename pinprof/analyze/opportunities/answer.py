"""An analysis with its answer: how the run went, and what to change."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.blame.table import blame_of
from pinprof.analyze.course.copies import copies_of
from pinprof.analyze.course.course import Around, course_of
from pinprof.analyze.opportunities.run_rates import run_rates
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import search
from pinprof.analyze.results import Analysis
from pinprof.data.model import Capture, clock_event
from pinprof.data.rate_book import RateBook


def with_opportunities(
    analysis: Analysis,
    recorded: Capture,
    attribution: Attribution,
    calls: Calls | None,
    around: Around | None = None,
) -> Analysis:
    """The analysis with how the run went and what to change; as it is where nothing sampled time.

    `recorded` and its `attribution` are those from before runs of frames without a name became one frame: all frames
    tell the phases. `calls` are the capture's, None where nothing recorded any. `around` is what a part was taken from.
    """
    capture = analysis.capture
    if clock_event(capture.events) is None or not len(capture.samples):
        return analysis
    course = course_of(recorded, attribution, calls, around)
    if course is None:
        return analysis
    copies = copies_of(capture, calls) if calls is not None else None
    blame = blame_of(capture, analysis.attribution)
    scene = Scene(capture, analysis.attribution, course, calls, copies, RateBook.of(capture), blame)
    book = RateBook.of(capture, run_rates(capture, analysis.events, scene.overhead_ns))
    opportunities = search(replace(scene, rates=book))
    return replace(analysis, course=course, opportunities=opportunities, blame=blame)
