"""A run of the program under `pinprof record`: what there is to try, and the numbers that only a recording tells.

It is a process of its own, as if a user had started it, so that neither the cure nor the program's streams reach this
one.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pinprof import read
from pinprof.analyze import Run, analyze
from pinprof.base.errors import PinprofError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture
from pinprof.read import machine_rates
from pinprof.trial import processes
from pinprof.trial.processes import EndedRun

_NAME = "run.pinprof"
_MARGIN_S = 60.0
"""For what a recording does before and after the program."""
_SLOWER = 3.0
"""A recorded run may take this many times as long."""


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run."""

    ended: EndedRun
    capture: Capture | None
    """None where nothing could be recorded."""
    problem: str = ""
    """Why not."""


def record(
    command: Sequence[str],
    environment: Mapping[str, str],
    changed: Mapping[str, str],
    folder: Path,
    limit_s: float,
    *,
    calibrate: bool = False,
) -> RecordedRun:
    """Record a run; `changed` reaches the program alone, not the recorder."""
    target = folder / _NAME
    for left in (target, target.with_name(f"{_NAME}.partial")):
        shutil.rmtree(left, ignore_errors=True)
    settings = [f"{name}={value}" for name, value in changed.items()]
    words = [sys.executable, "-P", "-m", "pinprof", "record", "--no-report", "-o", str(target)]
    words += [] if calibrate else ["--no-calibrate"]
    words += ["--", *(["env", *settings] if settings else []), *command]
    ended = processes.run(words, environment, folder, limit_s * _SLOWER + _MARGIN_S, gently=True)
    try:
        capture = machine_rates.stored(read.read(target, read.ReadOptions()))
    except PinprofError as error:
        said = ended.complaint.removeprefix("pinprof: error: ")
        return RecordedRun(ended, None, said or error.problem)
    if not capture.events:
        notes = capture.manifest.outcome.get("notes")
        return RecordedRun(ended, None, str(notes[0]) if isinstance(notes, list | tuple) and notes else ended.complaint)
    used = capture.manifest.outcome.get("resources")
    peak = used.get("max_resident_bytes") if isinstance(used, Mapping) else None
    wall = capture.manifest.outcome.get("duration_ns")
    return RecordedRun(
        replace(
            ended,
            peak_bytes=peak if isinstance(peak, int) else ended.peak_bytes,
            wall_ns=wall if isinstance(wall, int) else ended.wall_ns,
        ),
        capture,
    )


def explained(recording: RecordedRun) -> Run | None:
    """The recording with its opportunities; None where nothing was recorded."""
    return analyze(recording.capture) if recording.capture is not None else None


def uses(capture: Capture, prefixes: Sequence[str]) -> bool:
    """Whether code of a library whose file name begins so was seen in the program."""
    return any(Path(dso.path).name.startswith(tuple(prefixes)) for dso in capture.stacks.frames.dsos)
