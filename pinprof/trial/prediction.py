"""What a recorded run's opportunities promise of a cure, as a ratio of what the trial measures.

The search charges no nanosecond to two opportunities, so the savings of all that one cure carries out add up; they stay
within the phase. They are set against the same run, less what tracing its calls took: another run is a little faster or
slower in everything. On a busy machine both sides wait for processors in proportion to what they do, so a ratio is that
of a calm machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.analyze import Run
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.analyze.course.wall import disturbed_ns, tracing_ns
from pinprof.analyze.opportunities.results import Opportunity, ToMeasure
from pinprof.trial.cures import TrialCure
from pinprof.trial.measure import Measure
from pinprof.trial.result import Ratio

_NEAR = 2.0
"""A printed number is taken for the seconds of the work, or of the run, within this factor."""


def candidates(analysis: Run | None) -> tuple[Opportunity | ToMeasure, ...]:
    """What cures are tried for: opportunities, and costs whose saving only a measurement shows."""
    answer = analysis.opportunities if analysis else None
    return (*answer.found, *answer.to_measure) if answer else ()


def answered(found: Sequence[Opportunity | ToMeasure], cure: TrialCure) -> tuple[Opportunity | ToMeasure, ...]:
    """Those that a cure is tried for."""
    return tuple(one for one in found if one.cure.id in cure.answers and cure.is_at(one.site))


def predicted(analysis: Run, cure: TrialCure, measure: Measure, as_is: float, wall_ns: float) -> Ratio | None:
    """The ratio that the opportunities promise of a cure; None where they promise nothing of this measure.

    `as_is` is what was measured in the recorded run, and `wall_ns` how long that took.
    """
    found = analysis.opportunities.found if analysis.opportunities else ()
    carried = [
        one for one in found if one.cure.id in cure.predicted_by and cure.is_at(one.site) and _counts(one, measure)
    ]
    base = _base_ns(analysis, measure, as_is, wall_ns)
    if not carried or base <= 0:
        return None
    low, likely, high = (
        min(sum(getattr(one.saving, name) for one in carried), base) for name in ("low_ns", "likely_ns", "high_ns")
    )
    return Ratio(1 - high / base, 1 - likely / base, 1 - low / base)


def _counts(one: Opportunity, measure: Measure) -> bool:
    """Whether an opportunity's saving is a saving of what is measured."""
    if measure.kind == "range":
        return measure.argument in one.site.range.split(" > ")
    if measure.kind in ("work", "regex"):
        return one.phase == "work"
    return measure.kind == "wall"


def _base_ns(analysis: Run, measure: Measure, as_is: float, wall_ns: float) -> float:
    """What was measured in nanoseconds, without tracing and waits for a CPU; 0 or less where nothing was measured."""
    course = analysis.course
    if course is None or measure.kind == "memory":
        return 0.0
    phase = course.phase("work")
    value = as_is
    if measure.kind == "regex":
        value *= 1e9
        candidates = [wall_ns, *([float(phase.wall_ns)] if phase else [])]
        if not any(near / _NEAR <= value <= near * _NEAR for near in candidates):
            return 0.0
    names = PHASE_NAMES if measure.kind == "wall" else ("work",)
    whole = sum(one.wall_ns for one in course.phases if one.name in names)
    disturbed = sum(disturbed_ns(course, analysis.attribution, name) for name in names)
    return (value - tracing_ns(analysis.capture, course)) * (1 - disturbed / whole if whole else 1.0)
