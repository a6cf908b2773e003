"""Whether a recording's stacks say who calls what: causes are told by callers, and without them nothing is clear."""

from __future__ import annotations

import numpy as np

from pinprof.model import KERNEL, NO_NODE, Capture
from pinprof.unnamed_runs import are_runs

MOST_BLIND = 0.2
"""The largest share of an event's weight whose callers may be unknown; thresholds of rules are no smaller than half."""


def has_call_chains(capture: Capture, event: int) -> bool:
    """Whether enough samples of an event have callers.

    A sample without a call chain has at most one frame. Where nothing was sampled in the kernel, or call chains exist
    elsewhere, a lone frame of user code tells enough: it is not in the kernel.
    """
    chosen = capture.samples.event == event
    stack, weight = capture.samples.stack[chosen], capture.samples.weight[chosen].astype(np.float64)
    stacks = capture.stacks
    lone = np.append((stacks.parent == NO_NODE) & ~are_runs(stacks.frames)[stacks.frame], True)[stack]
    blind = lone & np.append(stacks.frames.mode[stacks.frame] == KERNEL, True)[stack]
    if lone.all():
        return not blind.any()
    return bool(weight[blind].sum() <= MOST_BLIND * weight.sum())
