"""Losses of an nsys recording are those of the samples that are left, not of all that were taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pinprof.read import ReadOptions, read
from pinprof.read.nsys import capture as nsys_capture
from tests.support.h200 import DATA, unpack


def test_losses_follow_the_samples_that_are_kept(tmp_path: Path) -> None:
    whole = read(unpack(DATA / "uvm.sqlite.xz", tmp_path), ReadOptions())
    assert nsys_capture._losses_in(whole, whole.samples) == whole.losses
    half = whole.samples.take(np.arange(len(whole.samples) // 2))
    rest = whole.samples.take(np.arange(len(whole.samples) // 2, len(whole.samples)))
    first, second = (nsys_capture._losses_in(whole, part) for part in (half, rest))
    assert first.unresolved_frames + second.unresolved_frames == whole.losses.unresolved_frames > 0
    assert abs(first.truncated_chains + second.truncated_chains - whole.losses.truncated_chains) <= 1
    none = nsys_capture._losses_in(whole, whole.samples.take(np.arange(0)))
    assert (none.truncated_chains, none.unresolved_frames, none.missing_stacks) == (0, 0, 0)
