"""Whether the kernel's functions have names: causes inside the kernel are told by them."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.evidence import SHARE_ERROR
from pinprof.model import KERNEL, NO_NODE, Capture, clock_event


def kernel_unnamed(capture: Capture) -> bool:
    """Whether so much time ends in kernel code without a name that shares of its causes may be off by `SHARE_ERROR`.

    A bare perf.data of another machine has such frames until `--kallsyms` names them.
    """
    samples, stacks = capture.samples, capture.stacks
    event = clock_event(capture.events)
    rows = np.flatnonzero((samples.event == (0 if event is None else event)) & (samples.stack != NO_NODE))
    frame = stacks.frame[samples.stack[rows]]
    nameless = np.array([symbol.startswith("[") for symbol in stacks.frames.symbol], np.bool_)
    unknown = (stacks.frames.mode == KERNEL) & nameless
    weight = samples.weight[rows].astype(np.float64)
    return bool(weight[unknown[frame]].sum() > SHARE_ERROR * weight.sum())
