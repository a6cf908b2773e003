"""What the search for opportunities returns: what to change.

All times are integer nanoseconds of the capture's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pinprof.analyze.course.results import PhaseName
from pinprof.analyze.sites import Site
from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Cure:
    """What to change."""

    id: str
    """Its entry in the catalogue and in docs/opportunities.md."""
    text: str
    """One or two sentences."""
    code: str = ""
    """Lines to write instead, for the framework in use; may hold several lines."""
    environment: str = ""
    """`NAME=value` that does it, or a part of it, without a change of code; empty where there is none."""
    option: str = ""
    """The option of a library that does it, as it is written; empty where the program has to do it itself."""


@dataclass(frozen=True)
class Saving:
    """Wall time of the phase that the cure saves. `low <= likely <= high`."""

    low_ns: int
    likely_ns: int
    high_ns: int


@dataclass(frozen=True)
class PerStep:
    """What a cure saves in a step of the work."""

    saving_ns: int
    """On average of the steps that have the cost, or of all where it is not known which have it; without the last one
    where the work ends within it.
    """
    step_ns: int
    """The average length of the same steps."""
    seen: int | None
    """In how many steps it was seen; None where samples are too few to tell them from those without it."""
    steps: int
    """How many there are."""


@dataclass(frozen=True)
class Evidence:
    """What proves an opportunity, and how to see it."""

    text: str
    """One sentence with figures."""
    command: str = ""
    """Arguments of `pinprof` that show the samples behind it, without the capture's path."""


@dataclass(frozen=True)
class Opportunity:
    """One thing to change, what it costs now and what changing it saves."""

    rank: int
    """1 for the largest saving."""
    title: str
    """One sentence without the saving: `a.cu:11 pins and frees 1,859 buffers of 1 MiB repeatedly`."""
    site: Site
    causes: Mapping[str, int]
    """Leaf of the taxonomy → wall time, heaviest first."""
    phase: PhaseName
    count: int
    """Calls, faults or copies that it is about; 0 where they were not counted."""
    bytes: int
    """Memory that it is about; 0 where that is not known."""
    cost_ns: int
    """Wall time of the critical thread in that phase."""
    cure: Cure
    saving: Saving
    basis: tuple[str, ...]
    """What the prediction rests on: rates and where they come from, what was left out."""
    evidence: tuple[Evidence, ...] = ()
    per_step: PerStep | None = None
    """None where no steps are seen, or most of the cost lies in none."""
    samples: frozenset[int] = field(default_factory=frozenset)
    """Stack nodes of the samples behind it, for the page's filters."""


@dataclass(frozen=True)
class Refused:
    """A cure that looks obvious and would not pay, with the figures."""

    title: str
    site: Site
    reason: str


@dataclass(frozen=True)
class ToMeasure:
    """A cost that a cure reduces by an unknown part: a measurement decides."""

    title: str
    site: Site
    cost_ns: int
    """Wall time of the critical thread."""
    cure: Cure
    reason: str
    """Why the saving is unknown, and how to measure it."""


@dataclass(frozen=True)
class Opportunities:
    """The answer: what to change, best first."""

    found: tuple[Opportunity, ...]
    to_measure: tuple[ToMeasure, ...]
    refused: tuple[Refused, ...]
    unseen: tuple[str, ...]
    """What the recording could not show, one sentence each."""
    headline: str
    """The first opportunity in one sentence with line and gain; else that there is nothing to gain, with the figure;
    empty where the recording shows too little to say either."""
