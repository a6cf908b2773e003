"""Wakers' stacks among those of samples, for as long as Python's functions come into stacks, and apart again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.data.model import NO_NODE, Bool, Capture, SampleTable


def wakers_among_samples(capture: Capture) -> tuple[Capture, Bool | None]:
    """The capture with a sample for each waker whose stack is known, and which rows these are; None for none."""
    wakeups, samples = capture.wakeups, capture.samples
    if wakeups is None or not len(samples):
        return capture, None
    known = np.flatnonzero(wakeups.stack != NO_NODE)
    added = SampleTable.of(
        len(known),
        time_ns=wakeups.time_ns[known],
        pid=wakeups.pid[known],
        tid=wakeups.tid[known],
        cpu=-1,
        stack=wakeups.stack[known],
        wait=None if samples.wait is None else 0,
    )
    both = samples.joined(added)
    order = np.argsort(both.time_ns, kind="stable")
    return replace(capture, samples=both.take(order)), order >= len(samples)


def wakers_apart(capture: Capture, moved: Bool | None) -> Capture:
    """The capture without these samples, whose stacks the wakers have."""
    if moved is None or capture.wakeups is None:
        return capture
    stack = capture.wakeups.stack.copy()
    stack[stack != NO_NODE] = capture.samples.stack[moved]
    return replace(capture, samples=capture.samples.take(~moved), wakeups=replace(capture.wakeups, stack=stack))
