"""The rates of the machine of a capture: those in it, or those stored for that machine here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pinprof.base.errors import CaptureError
from pinprof.data import rates
from pinprof.data.model import Capture
from pinprof.data.rates import Rates
from pinprof.read.directory import Reading


def with_rates(capture: Capture, path: Path | None, _reading: Reading | None = None) -> Capture:
    """The capture with the rates of a file."""
    return capture if path is None else _with(capture, lambda: rates.read(path))


def stored(capture: Capture) -> Capture:
    """The capture with the rates that `pinprof bench` stored here for its machine, unless it has such rates.

    They are better than those of a calibration.
    """
    if capture.rates is not None and capture.rates.measured_by == "bench":
        return capture
    backend = capture.manifest.scenario.get("backend")
    return _with(capture, lambda: rates.load_for(capture.manifest.host, backend if isinstance(backend, str) else None))


def _with(capture: Capture, load: Callable[[], Rates | None]) -> Capture:
    """Rates that cannot be read are no reason to show nothing: a note says so."""
    try:
        return replace(capture, rates=load() or capture.rates)
    except CaptureError as error:
        return capture.with_notes(f"Rates are left out: {error.problem}")
