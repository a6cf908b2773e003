"""A capture of a few samples, written out by hand."""

from __future__ import annotations

import numpy as np

from pinprof.data.model import (
    Capture,
    ClockSync,
    Dso,
    Event,
    FrameTable,
    Manifest,
    RangeTable,
    SampleTable,
    StackTable,
)


def small_capture(
    samples: list[tuple[int, int, int]], symbols: list[tuple[str, int]], parents: list[tuple[int, int]]
) -> Capture:
    """From (event, weight, node) samples, (symbol, mode) frames and (parent, frame) nodes."""
    count = len(samples)
    columns = np.array(samples, np.int64).reshape(count, 3)
    none = np.zeros(0, np.int64)
    return Capture(
        path="/somewhere/secret/run.pinprof",
        manifest=Manifest(1, "0", (), {}, {}, (), {}),
        events=(Event("cpu-clock/freq=999/", "ns", None, 999), Event("page-faults:u", "faults", 1, None)),
        samples=SampleTable(
            time_ns=np.arange(count, dtype=np.int64),
            pid=np.ones(count, np.int32),
            tid=np.ones(count, np.int32),
            cpu=np.zeros(count, np.int32),
            event=columns[:, 0].astype(np.int16),
            weight=columns[:, 1],
            stack=columns[:, 2].astype(np.int32),
            ip=np.zeros(count, np.uint64),
            address=np.zeros(count, np.uint64),
        ),
        stacks=StackTable(
            np.array([parent for parent, _ in parents], np.int32),
            np.array([frame for _, frame in parents], np.int32),
            FrameTable(
                tuple(symbol for symbol, _ in symbols),
                np.zeros(len(symbols), np.int32),
                np.array([mode for _, mode in symbols], np.uint8),
                (Dso("app", "", "file"),),
            ),
        ),
        ranges=RangeTable((), (), none, none, none.astype(np.int32), none.astype(np.int32), none.astype(np.int32)),
        threads={(1, 1): "app"},
        clock=ClockSync("monotonic", 0, 0),
    )
