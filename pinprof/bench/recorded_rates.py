"""The rates that a recording brings: those of `pinprof bench`, else of calibrations, which measure what is missing.

The capture holds what is known before it is explained. What an answer rests on is measured before it is given,
and the rest, for later reports, once somebody has it.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pinprof import streams
from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass
from pinprof.bench import kept_rates
from pinprof.bench.calibration import LIMIT_S, calibration_of, wanted
from pinprof.bench.kept_rates import KeptRates
from pinprof.data import rates
from pinprof.data.manifest import Manifest
from pinprof.data.rates import Rates
from pinprof.streams import holds_recording
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
    """The rates of this machine, put beside what was recorded."""

    def __init__(self, calibrating: Calibrating | None, duration_ns: int, *, running: bool) -> None:
        """Without `calibrating`, only those that are known.

        `running`: the recorded program goes on, and needs the GPU for itself.
        """
        self._calibrating = None if os.environ.get(NO_CALIBRATION_VARIABLE) else calibrating
        self._short, self._running = duration_ns < SHORTEST_NS, running
        self._machine: Mapping[str, Any] = {}
        self._known, self._missing, self._left_s = KeptRates(), list[str](), LIMIT_S
        self.notes: tuple[str, ...] = ()

    def store(self, directory: Path, manifest: Manifest) -> None:
        """Write those that are known into a capture's directory, if there are any."""
        backend = manifest.scenario.get("backend")
        known = rates.load_for(manifest.host, backend if isinstance(backend, str) else None)
        if known is None:
            self._machine = rates.machine_of(manifest.host)
            if self._calibrating is None or not self._calibrating.anew:
                self._known = kept_rates.load(self._machine, os.environ)
            known, self._missing = self._known.rates, self._wanted(directory)
        if known is not None:
            files.written(directory / RATES, rates.to_json(known))

    def _wanted(self, directory: Path) -> list[str]:
        """What is measured of this machine for a recording and is not known."""
        if self._calibrating is None or not holds_recording(directory):
            return []
        with_cuda = _saw_cuda(directory)
        if self._short and not with_cuda:
            return []
        return [name for name in wanted(cuda=with_cuda and not self._running) if name not in self._known.finished]

    def measure(self, directory: Path, measures: Collection[str] | None = None) -> Rates | None:
        """Measure what is missing, or what of these measures is, and write it beside a capture that `store` was for.

        Returns all that is known then; None where nothing was measured.
        """
        chosen = [name for name in self._missing if measures is None or rates.family(name) in measures]
        self._missing = [name for name in self._missing if name not in chosen]
        if not chosen or self._calibrating is None or self._left_s <= 0:
            return None
        which = "the other memory costs of" if self._left_s < LIMIT_S else "memory costs on"
        self._calibrating.say(
            f"Measuring {which} this machine, once (up to {max(self._left_s, 1):.0f} s; --no-calibrate skips this)"
        )
        begun = time.monotonic()
        found = calibration_of(self._machine, os.environ, chosen, limit_s=self._left_s)
        self._left_s -= time.monotonic() - begun
        self.notes += found.notes
        if found.rates is None:  # as where it was interrupted
            self._missing = []
        self._known = self._known.joined(found)
        kept_rates.keep(self._known, os.environ)
        if self._known.rates is not None:
            files.written(directory / RATES, rates.to_json(self._known.rates))
        return found.rates and self._known.rates


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
