"""The timeline: what happened when, drawn by the page's scripts."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any, Self

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.names import printable, shortened
from pinprof.report.section import ForScripts, Section, listed, picked
from pinprof.report.sections.timeline.lanes import timeline
from pinprof.report.sections.timeline.model import Timeline

NAME_WIDTH = 160
"""Longer names are shortened in the middle."""


@dataclass(frozen=True)
class OverTime(Section[Explained]):
    """The recording over time."""

    key, title = "timeline", "Timeline"

    timeline: Timeline
    recording: str
    """Its path's last component."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nothing has a time, or nobody draws it."""
        made = timeline(subject.run) if subject.shared.drawn else None
        return cls(made, subject.shared.capture.path) if made else None

    def for_scripts(self) -> ForScripts:
        """Lanes, densities and memory, to be drawn."""
        return ForScripts(drawings={"timeline": _drawn(self.timeline, self.recording)})


def _drawn(timeline: Timeline, recording: str) -> dict[str, Any]:
    return {
        "span": timeline.span_ns,
        "bin": timeline.bin_ns,
        "finest": timeline.finest,
        "before": timeline.before_ns,
        "recording": shlex.quote(printable(recording)),
        "event": shortened(timeline.event, NAME_WIDTH),
        "unit": timeline.unit,
        "samplesStart": timeline.samples_start_ns,
        "densities": [
            {
                "heading": shortened(density.heading, NAME_WIDTH),
                "title": density.title,
                "bin": np.diff(density.bin, prepend=0).tolist(),
                **listed(density, "cause weight"),
                "threads": density.threads,
            }
            for density in timeline.densities
        ],
        "lanes": [
            {
                "heading": shortened(lane.heading, NAME_WIDTH),
                **picked(lane, "title kind total"),
                **lane.spans.columns(),
            }
            for lane in timeline.lanes
        ],
        "memory": [
            picked(use, "title style") | {"time": use.time_ns.tolist(), "level": use.level_bytes.tolist()}
            for use in timeline.memory
        ],
        "arrows": [
            {
                "waiter": shortened(arrow.waiter, NAME_WIDTH),
                "start": arrow.start_ns,
                "end": arrow.end_ns,
                "holder": shortened(arrow.holder, NAME_WIDTH),
            }
            for arrow in timeline.arrows
        ],
        "styles": [asdict(style) for style in timeline.styles],
        "names": [shortened(name, NAME_WIDTH) for name in timeline.names],
        "threads": {shortened(heading, NAME_WIDTH): numbers for heading, numbers in timeline.threads.items()},
    }
