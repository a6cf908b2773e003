"""A whole capture, or a part of it, to the run that explains it."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze.activity.clock import join
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.course import Around
from pinprof.analyze.idle import idle_apart
from pinprof.analyze.ranges.spans import cut, cut_at
from pinprof.analyze.recorder import recorder_apart
from pinprof.analyze.restriction import Attributed, is_empty, restricted
from pinprof.analyze.run import Run
from pinprof.analyze.selection import Selection, resolve
from pinprof.base.errors import CaptureError
from pinprof.data.model import Capture


def analyze(capture: Capture, *, search: bool = True, selection: Selection | None = None) -> Run:
    """Explain a capture; never fails on a valid one, however little it holds.

    What a tracing tool recorded beside the samples is joined with them; where no clock is shared, a note says so.
    Without `search` nothing is said of phases and opportunities, for those who only count.

    A selection restricts everything to a part of the recording, before anything is counted; causes, idle threads and
    phases are what they are in the whole one. UsageError where the part holds nothing.
    """
    recorded = _on_one_clock(capture)
    part = resolve(recorded, selection) if selection else None
    recorded = recorded if part is None else cut_at(recorded, part.window.edges)[0]
    recorded, attribution = idle_apart(*recorder_apart(recorded, attribute(recorded)))
    uncut = Attributed.of(recorded, attribution)
    whole = uncut.with_samples(*cut(recorded, attribution))
    if part is None:
        return Run(whole, uncut=uncut, searches=search)
    if part.ranges is not None:
        whole = whole.with_samples(*cut(whole.capture, whole.attribution, part.ranges))
    chosen = restricted(whole, part)
    if is_empty(chosen.capture):
        raise part.nothing()
    around = Around(restricted(whole, part.at_any_time()), part.times(whole.capture.ranges))
    return Run(chosen, part, around, searches=search)


def _on_one_clock(capture: Capture) -> Capture:
    """The capture with what another tool traced beside it."""
    if capture.traced is None:
        return capture
    alone = replace(capture, traced=None)
    try:
        return join(alone, capture.traced)
    except CaptureError as error:
        return alone.with_notes(f"The nsys trace is left out: {error.problem}")
