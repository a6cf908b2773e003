"""When a recording begins and ends, as every output counts its times."""

from __future__ import annotations

from pinprof.data.model import Capture


def start_ns(capture: Capture) -> int:
    """The earliest time of any sample, range, call or GPU work; 0 when nothing has any."""
    columns = [capture.samples.time_ns[:1], capture.ranges.start_ns]
    if capture.activity is not None:
        columns += [capture.activity.calls.start_ns, capture.activity.gpu_ops.start_ns]
    times = [column for column in columns if len(column)]
    return min((int(column.min()) for column in times), default=0)


def end_ns(capture: Capture) -> int:
    """The end of the last range, call or GPU work, or just after the last timed sample; 0 when nothing has any."""
    columns = [capture.ranges.end_ns]
    if capture.activity is not None:
        columns += [capture.activity.calls.end_ns, capture.activity.gpu_ops.end_ns]
    ends = [int(column.max()) for column in columns if len(column)]
    if is_timed(capture) and len(capture.samples):
        ends.append(int(capture.samples.time_ns[-1]) + 1)
    return max(ends, default=0)


def timed_span(capture: Capture) -> tuple[int, int] | None:
    """(start, end) of everything that has a time, on the capture's clock; None where nothing does."""
    timed = is_timed(capture) and len(capture.samples) > 0
    if not timed and not len(capture.ranges) and capture.activity is None:
        return None
    start = start_ns(capture)
    if capture.activity is not None:
        capture.activity.unload()
    end = end_ns(capture)
    return (start, end) if end > start else None


def is_timed(capture: Capture) -> bool:
    """Whether the samples have times."""
    return capture.clock.source != "none"
