"""A calibration: some rates of this machine within seconds, by a process that is ended when its time is up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.rates import Rate, Rates, is_measure
from pinprof.machine import children
from pinprof.machine.children import Limits

LIMIT_S = 3.0
_WORKER = (sys.executable, "-P", "-m", "pinprof.bench.calibration_worker")
"""-P: modules in the current directory are none of ours."""
LARGE = ("touch.huge", "refill.copy-new", "refill.copy-kept", "refill.add-new", "refill.add-kept")
"""Measured with huge pages."""
HOST = ("touch.first", "memcpy.host", *LARGE, "free.pageable", "touch.cow", "file.read", "file.map-touch")
"""What is measured of every machine, the most wanted first."""
CUDA = (
    "pin.alloc", "h2d.pageable", "h2d.pinned", "d2h.pageable", "d2h.pinned", "h2d.small", "pin.register-touched",
    "prefault.tN", "free.pinned", "free.unregister", "h2d.staged", "kernel.launch-sync",
    "uvm.ondemand", "uvm.prefetch", "uvm.cpu-readback", "uvm.prefetch-back", "uvm.prefetched-kernel", "uvm.first-touch",
)  # fmt: skip
"""What is measured where a program used the GPU."""
_MOST_THREADS = 8


@dataclass(frozen=True)
class Calibration:
    """What was measured in the time."""

    rates: Rates | None
    """None when there is nothing."""
    notes: tuple[str, ...] = ()
    """What could not be measured, for whoever reads the capture."""
    finished: frozenset[str] = frozenset()
    """Measures that need no second try: they have their rates, or this machine cannot have them."""


def wanted(*, cuda: bool) -> tuple[str, ...]:
    """The measures of a calibration; what takes threads, with as many as this process may use."""
    threads = min(len(os.sched_getaffinity(0)), _MOST_THREADS)
    names = (*HOST, *(CUDA if cuda else ()))
    return tuple(f"prefault.t{threads}" if name == "prefault.tN" else name for name in names)


def needs_gpu(measure: str) -> bool:
    """Whether CUDA's part of a calibration measures it."""
    return measure not in HOST


def calibration_of(
    machine: Mapping[str, Any],
    environment: Mapping[str, str],
    measures: Sequence[str],
    *,
    limit_s: float = LIMIT_S,
    worker: Sequence[str] = _WORKER,
) -> Calibration:
    """Measure some of `wanted` for `limit_s` at most, with the GPU that the environment shows first.

    Raises nothing but what interrupts it: Ctrl-C ends the measurement, any other signal goes on as KeyboardInterrupt.
    """
    lines, status = b"", None
    try:
        # In a session of its own, which a Ctrl-C for us does not reach.
        with children.started([*worker, *measures], Limits(limit_s), environment) as process:
            lines, status = b"".join(process.pieces()), process.status
    except OSError as error:
        return Calibration(None, (f"This machine was not calibrated: {error.strerror}.",))
    except KeyboardInterrupt as error:
        if error.args and error.args[0] != signal.SIGINT:
            raise
        return Calibration(None, ("This machine was not calibrated: it was interrupted with Ctrl-C.",))
    found, notes, finished = _parsed(lines)
    why = "the time was up" if status is None else f"the process that measures ended with status {status}"
    if not found:
        nothing = () if finished else (f"This machine was not calibrated: {why}.",)
        return Calibration(None, (*notes, *nothing), finished)
    with_gpu = any(needs_gpu(rate.measure) for rate in found)
    if any(map(needs_gpu, measures)) and not (with_gpu or notes) and status != 0:
        notes = (f"Calibration: CUDA was not measured, because {why}.",)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(Rates(machine, "cuda" if with_gpu else "host", now, found, "calibration"), notes, finished)


def _parsed(lines: bytes) -> tuple[tuple[Rate, ...], tuple[str, ...], frozenset[str]]:
    """Rates, notes and finished measures of whole lines; the last one may be cut.

    What was measured twice counts as the faster of both, with the spread of both: what disturbs only slows down.
    """
    found: dict[tuple[str, int], Rate] = {}
    notes: list[str] = []
    finished: set[str] = set()
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            answer = json.loads(line)
            if "note" in answer:
                notes.append(f"Calibration: CUDA was not measured. {answer['note']}")
            elif "finished" in answer:
                finished.add(str(answer["finished"]))
            elif is_measure(answer["measure"]):
                rate = Rate(**answer)
                key = rate.measure, rate.size_bytes
                found[key] = _joined(found.get(key, rate), rate)
    return tuple(found.values()), tuple(notes), frozenset(finished)


def _joined(one: Rate, other: Rate) -> Rate:
    """Two measurements of the same as one."""
    return Rate(
        one.measure,
        one.size_bytes,
        min(one.median_ns, other.median_ns),
        min(one.low_ns, other.low_ns),
        max(one.high_ns, other.high_ns),
    )
