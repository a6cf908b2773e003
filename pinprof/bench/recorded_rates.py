"""The rates that a recording brings: those of `pinprof bench`, else of calibrations, which measure what is missing."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

from pinprof import streams
from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass
from pinprof.bench import kept_rates
from pinprof.bench.calibration import LIMIT_S, calibration_of, wanted
from pinprof.bench.kept_rates import KeptRates
from pinprof.data import rates
from pinprof.data.manifest import Manifest
from pinprof.data.rates import Rates
from pinprof.streams import holds_recording, holds_samples
from pinprof.streams.store import INSIDE, RATES

NO_CALIBRATION_VARIABLE = "PINPROF_NO_CALIBRATE"
"""Any value but an empty one turns calibration off for every recording."""
SHORTEST_NS = 10_000_000
"""Nothing in a shorter run costs enough to predict a saving (`analyze.evidence.LEAST_NS`), so rates answer nothing."""


@dataclass(frozen=True)
class Calibrating:
    """How to calibrate after a recording."""

    say: Callable[[str], None]
    """Called when a measurement begins."""
    anew: bool = False
    """Measure what is known of this machine, too."""


class RecordedRates:
    """The rates of this machine, put beside what was recorded; None: only those that are known."""

    def __init__(self, calibrating: Calibrating | None, duration_ns: int, *, running: bool) -> None:
        """`running`: the recorded program goes on, and needs the GPU for itself."""
        self._calibrating = None if os.environ.get(NO_CALIBRATION_VARIABLE) else calibrating
        self._short, self._running = duration_ns < SHORTEST_NS, running
        self.notes: tuple[str, ...] = ()

    def store(self, directory: Path, manifest: Manifest) -> None:
        """Write them into a capture's directory, if there are any."""
        backend = manifest.scenario.get("backend")
        measured = rates.load_for(manifest.host, backend if isinstance(backend, str) else None)
        if measured is None:
            measured = self._calibrated(directory, manifest)
        if measured is not None:
            files.written(directory / RATES, rates.to_json(measured))

    def _calibrated(self, directory: Path, manifest: Manifest) -> Rates | None:
        machine = rates.machine_of(manifest.host)
        anew = self._calibrating is not None and self._calibrating.anew
        known = KeptRates() if anew else kept_rates.load(machine, os.environ)
        if self._calibrating is None or not holds_recording(directory):
            return known.rates
        with_cuda = _saw_cuda(directory)
        if not with_cuda and (self._short or not holds_samples(directory)):
            return known.rates
        missing = [name for name in wanted(cuda=with_cuda and not self._running) if name not in known.finished]
        if missing:
            self._calibrating.say(
                f"Measuring memory costs on this machine, once (up to {LIMIT_S:.0f} s; --no-calibrate skips this)"
            )
            found = calibration_of(machine, os.environ, missing)
            self.notes = found.notes
            known = known.joined(found)
            kept_rates.keep(known, os.environ)
        return known.rates


def _saw_cuda(directory: Path) -> bool:
    """Whether a recorded process had CUDA's driver mapped: recorders name every mapped file, and the agent calls."""
    if (directory / INSIDE).is_dir():
        from pinprof.read.inside.calls import called_cuda

        if called_cuda(directory / INSIDE):
            return True
    for path in (directory / stream.name for stream in streams.STREAMS if stream.alone):
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                if whole.find(b"libcuda.so") >= 0 or whole.find(b"CUPTI_ACTIVITY_KIND_RUNTIME") >= 0:
                    return True
        except (OSError, ValueError):
            continue
    return False
