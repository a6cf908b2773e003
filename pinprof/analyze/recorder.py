"""What the recorder itself takes of the program's time, apart from what the program takes.

Each call of a probed function goes through the kernel's handlers of probes, in the program's own thread: samples see
them (`self.probe`), and the program would be faster by that without the recording. So these samples are an event of
their own, `recorder`: it is shown, and whatever is counted of the event that samples time counts them out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import LEAF
from pinprof.base.columns import looked_up
from pinprof.data.model import Capture, clock_event

RECORDER_EVENT = "recorder"
PROBE = LEAF["self.probe"]
_PAGE = "[uprobes]"
"""The page that the kernel puts into a probed program: through it a probed function returns (create_xol_area)."""


def recorder_apart(capture: Capture, attribution: Attribution) -> tuple[Capture, Attribution]:
    """The capture with the samples of time that the recorder took as an event of their own, and their cause."""
    main, samples = clock_event(capture.events), capture.samples
    running = ~looked_up(capture.spans, samples.event)
    frames = capture.stacks.frames
    through = np.array([dso.path == _PAGE for dso in frames.dsos], np.bool_)[frames.dso]
    page = running & looked_up(capture.stacks.under(through), samples.stack)
    if page.any():
        attribution = replace(attribution, leaf=np.where(page, np.int16(PROBE), attribution.leaf))
    own = (attribution.leaf == PROBE) & (samples.event == main)
    if main is None or not own.any() or any(event.name == RECORDER_EVENT for event in capture.events):
        return capture, attribution
    event = np.where(own, np.int16(len(capture.events)), samples.event)
    events = (*capture.events, replace(capture.events[main], name=RECORDER_EVENT))
    return replace(capture, events=events, samples=replace(samples, event=event)), attribution
