"""What calibrations have measured of this machine, kept for the next recordings in the user's cache.

    $XDG_CACHE_HOME/pinprof/calibration-KEY.json    (default ~/.cache)

KEY stands for what decides what an operation costs (`rates.machine_of`), the host, the GPUs that a program sees, and
the version that measured. A file that is damaged, too old, or may be another user's counts as none, and where nothing
can be kept, every recording measures: neither is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pinprof import __version__
from pinprof.base import cache, files, shapes
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import TEXT, Each, Record
from pinprof.base.trust import distrusted
from pinprof.bench.calibration import Calibration
from pinprof.data import rates
from pinprof.data.rates import Rates

KEPT_FOR = timedelta(days=30)
"""Firmware, power limits and memory change without a new kernel or driver."""
_SHAPE = Record({"finished": Each(TEXT), "rates": rates.SHAPE})


@dataclass(frozen=True)
class KeptRates:
    """What is known of a machine."""

    rates: Rates | None = None
    finished: frozenset[str] = frozenset()
    """Measures that are not measured again."""

    def joined(self, newer: Calibration) -> KeptRates:
        """With what was measured now. The time of the older ones stays: nothing is younger than it seems."""
        finished = self.finished | newer.finished
        if self.rates is None or newer.rates is None:
            return KeptRates(self.rates or newer.rates, finished)
        backend = "cuda" if "cuda" in (self.rates.backend, newer.rates.backend) else "host"
        both = replace(self.rates.updated(newer.rates), backend=backend, measured_utc=self.rates.measured_utc)
        return KeptRates(both, finished)


def load(machine: Mapping[str, Any], environment: Mapping[str, str]) -> KeptRates:
    """What is kept of a machine (`rates.machine_of`) for programs of this environment."""
    folder = cache.folder()
    path = folder / _name(machine, environment) if folder else None
    try:
        if path is None or distrusted(path):
            return KeptRates()
        known = _SHAPE.fit(shapes.read(path))
        found = rates.of_json(known["rates"])
        age = datetime.now(UTC) - datetime.fromisoformat(found.measured_utc)
    except (OSError, ValueError, TypeError):  # the last one: a time without a zone
        return KeptRates()
    return KeptRates(found, frozenset(known["finished"])) if timedelta() <= age < KEPT_FOR else KeptRates()


def keep(known: KeptRates, environment: Mapping[str, str]) -> None:
    """Keep what is known of a machine in place of what was."""
    folder = cache.folder()
    if folder is None or known.rates is None:
        return
    text = json.dumps({"finished": sorted(known.finished), "rates": asdict(known.rates)}, indent=1)
    with contextlib.suppress(OSError):
        files.written(folder / _name(known.rates.machine, environment), text + "\n")


def _name(machine: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """The file's name: the host's is only in the hash, as everywhere."""
    facts = [rates.key_of(machine), os.uname().nodename, environment.get("CUDA_VISIBLE_DEVICES"), __version__]
    return f"calibration-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.json"
